"""An in-memory Pulsar that answers everything an export asks, and an export of it."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.export import render
from pulsar_operator.domain.policies import PolicyRow
from pulsar_operator.export import Exported, Exporter, Options, Progress
from pulsar_operator.ports import CUSTOM, AdminEndpoint, Json, RefusedError
from tests.fakes.admin import FakeAdmin
from tests.fakes.answers import Answer
from tests.fakes.pulsar import FakePulsar
from tests.support.logical.lists import of_users
from tests.support.logical.world import DRY_RUN, LOGICAL, NS, LogicalWorld
from tests.support.policies.examples import PLACEHOLDERS
from tests.support.yamls import documents

EVENTS = "__change_events"
PAUSE = "dispatcherPauseOnAckStatePersistentEnabled"


@dataclass
class ExportPulsar(FakePulsar):
    """With the calls that only an export makes; __change_events as seen on 4.0.8."""

    emptied: set[str] = field(default_factory=set)
    """Topics whose policies were all removed: __change_events still tells of them."""

    def handle(self, cluster: str, method: str, path: Sequence[str], query: Mapping[str, str], body: Any) -> Answer:
        """See FakePulsar."""
        match list(path):
            case ["brokers", "configuration", "runtime"]:
                return 200, {"clusterName": cluster, "brokerClientAuthenticationParameters": "token:s3cr3t"}
            case ["persistent", tenant, name, topic, "internalStats"] if topic == EVENTS:
                size = 173 * len(self._with_policies(tenant, name))
                return 200, {"totalSize": size, "compactedLedger": {"ledgerId": -1, "entries": -1, "size": -1}}
        status, answer = super().handle(cluster, method, path, query, body)
        if method == "GET" and len(path) == 3 and path[0] == "persistent" and query.get("includeSystemTopic") == "true":
            # Brokers make it when they load the namespace's first topic.
            answer = sorted([*answer, f"persistent://{path[1]}/{path[2]}/{EVENTS}"]) if answer else answer
        return status, answer

    def _with_policies(self, tenant: str, name: str) -> set[str]:
        prefix = f"://{tenant}/{name}/"
        held = {
            topic
            for (_, topic), values in self.topic_policies.items()
            if prefix in topic and any(map(_is_set, values.values()))
        }
        return held | {topic for topic in self.emptied if prefix in topic}

    def state(self) -> Any:
        """What a test compares of tenants, namespaces and topics, without the empty stores that reading leaves behind,
        and without the records of who manages them.

        A namespace for which dispatcherPauseOnAckStatePersistent was removed shows false where it showed nothing; the
        policy table takes both for not set.
        """
        return {
            "tenants": {t: {k: sorted(v) for k, v in data.items()} for t, data in self.tenants.items()},
            "namespaces": {
                name: {k: of_users(v) if k == "properties" else v for k, v in live.items() if (k, v) != (PAUSE, False)}
                for name, live in self.namespaces.items()
            },
            "partitioned": self.partitioned,
            "properties": {
                f"{c} {name}": of_users(held) for (c, name), held in self.topic_properties.items() if of_users(held)
            },
            "topics": {cluster: sorted(names) for cluster, names in self.topics.items()},
            "local": {(c, n): held for c, names in self.local.items() for n, held in names.items() if held},
            "policies": {
                where: {name: value for name, value in held.items() if _is_set(value)}
                for where, held in self.topic_policies.items()
                if any(map(_is_set, held.values()))
            },
        }


def _is_set(value: Any) -> bool:
    """0 is a value."""
    return value is not False and value not in ([], {})


async def plain(admin: Any, method: str, *path: str, body: Any = None, url: str = "", **query: str) -> Any:
    """A call as any other tool would make it."""
    return await admin.call(AdminEndpoint("a", url), method, path, query=query, body=body)


async def set_policy(admin: Any, row: PolicyRow, base: tuple[str, ...], value: Any, *, url: str = "") -> None:
    """Set one policy; what Pulsar refuses is left as it was."""
    call = row.set_call(base, named(value))
    try:
        await admin.call(AdminEndpoint("a", url), call.method, call.path, query=call.query, body=call.body)
    except RefusedError:
        return


def named(value: Any) -> Any:
    """An example of the policy table with things in place of the words in braces."""
    if isinstance(value, list):
        return [named(item) for item in value]
    return value.format(**PLACEHOLDERS) if type(value) is str else value


async def exported(admin: Any, **options: Any) -> Exported:
    """An export of what the port leads to."""
    chosen = Options(**{"admin_url": "http://a:8080", "instance": "prod", "namespace": NS, **options})
    return await Exporter(admin, chosen, Progress(io.StringIO())).run()


def text_of(found: Exported) -> str:
    """The output in one piece."""
    return render(found.source, found.entries)


def manifests(found: Exported) -> list[Json]:
    """What kubectl would send, read back from the text."""
    return documents(text_of(found))


def notes(found: Exported) -> list[str]:
    """What was not exported."""
    return [f"{note.about}: {note.text}" for entry in found.entries for note in entry.notes]


def apply(world: LogicalWorld, documents: list[Json], *, dry_run: bool) -> None:
    """kubectl apply."""
    for document in documents:
        meta = dict(document["metadata"])
        annotations = DRY_RUN if dry_run else {}
        world.put(Kind(document["kind"]), meta["name"], document["spec"], ns=meta["namespace"], annotations=annotations)


async def dry_run(admin: Any, found: Exported, *clusters: str, urls: dict[str, str] | None = None) -> list[str]:
    """What controllers would do with the manifests, and what they say against them; empty = nothing."""
    return await dry_run_of(admin, manifests(found), *clusters, urls=urls)


async def dry_run_of(
    admin: Any, documents: list[Json], *clusters: str, urls: dict[str, str] | None = None
) -> list[str]:
    """The same of manifests that were read already."""
    world = LogicalWorld(*clusters, admin=admin, urls=urls)
    apply(world, documents, dry_run=True)
    await world.run()
    said = []
    for kind in LOGICAL:
        for obj in world.kube.all(CUSTOM[kind]):
            name = obj["metadata"]["name"]
            status, reason, message = world.condition(kind, name)
            said += [
                f"{kind.value} {name}: {action}" for action in world.status(kind, name).get("pendingActions") or ()
            ]
            if (status, reason) != ("True", "Ready"):
                said.append(f"{kind.value} {name}: {status} {reason} {message}")
            if world.condition(kind, name, "Drifted")[0] != "False":
                said.append(f"{kind.value} {name}: {world.condition(kind, name, 'Drifted')}")
    return said


async def rebuilt(
    found: Exported, *clusters: str, groups: Iterable[str] = (), documents: list[Json] | None = None
) -> ExportPulsar:
    """An empty Pulsar after the manifests were applied; ``documents`` are these where they were read already."""
    pulsar = ExportPulsar(version=found.source.version or "", clusters=list(clusters), resource_groups=set(groups))
    world = LogicalWorld(*clusters, admin=FakeAdmin(pulsar))
    apply(world, manifests(found) if documents is None else documents, dry_run=False)
    await world.run()
    return pulsar
