"""Reads a running Pulsar without changing it, with at most CONCURRENCY concurrent calls.

Topic policies have one GET each, and Pulsar 4.0 has no call that returns all of them or the topics that have any. So
they are read only in namespaces whose topic __change_events was ever written to, which costs one GET per namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.balance.model.isolation import isolates
from pulsar_operator.balance.model.ranges import even_boundaries
from pulsar_operator.controllers.core.bounded import each_of
from pulsar_operator.domain.export import (
    CHANGE_EVENTS,
    MAX_BUNDLES,
    Entry,
    NamespaceAnswers,
    Note,
    Settings,
    Source,
    TopicAnswers,
    durable_subscriptions,
    export_domains,
    export_group,
    export_isolation,
    export_namespace,
    export_tenant,
    export_topic,
    is_system_namespace,
    is_system_tenant,
    may_hold_policies,
    not_exported,
    object_name,
    rated_subscriptions,
    with_sets,
)
from pulsar_operator.domain.logical.clusters import clusters_of
from pulsar_operator.domain.logical.pulsar_names import (
    domain_of,
    failure_domain_path,
    is_system_topic,
    isolation_path,
    namespace_path,
    resource_group_path,
    split_partition,
    tenant_path,
    topic_name,
    topic_path,
)
from pulsar_operator.domain.logical.schema import schema_path
from pulsar_operator.domain.logical.subscriptions import rate_call
from pulsar_operator.domain.policies import NAMESPACE_POLICIES, TOPIC_POLICIES, Call, PolicyRow, too_old
from pulsar_operator.export.calls import FIRST_DEADLINE_SECONDS, Calls, ExportError
from pulsar_operator.export.options import Options
from pulsar_operator.export.output import Exported, Progress
from pulsar_operator.ports import AdminEndpoint, PortError, PulsarAdminPort

CONCURRENCY = 8


@dataclass
class _Namespace:
    """A namespace being exported."""

    tenant: str
    name: str
    entry: Entry
    live: Mapping[str, Any] = field(default_factory=dict)
    topics: list[_Topic] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    """Entries of its topics."""


@dataclass(frozen=True)
class _Topic:
    """A topic to be read."""

    tenant: str
    namespace: str
    name: str
    persistent: bool
    partitioned: bool
    policies: bool
    """Whether its policies are read."""
    namespace_live: Mapping[str, Any] = field(default_factory=dict)
    """Answer of the GET of its namespace, which contains its permissions."""


class Exporter:
    """Reads one cluster. An instance is used once."""

    def __init__(self, admin: PulsarAdminPort, options: Options, progress: Progress) -> None:
        self._options = options
        self._progress = progress
        endpoint = AdminEndpoint(options.cluster or "source", options.admin_url, options.access)
        self._calls = Calls(admin, endpoint, options.command)
        self._settings = Settings(options.instance, options.cluster or "", options.namespace)
        self._version: str | None = None

    async def run(self) -> Exported:
        """Reads everything. Raises ExportError if Pulsar does not answer or does not list its tenants."""
        try:
            version = Call("GET", ("brokers", "version"), text=True)
            self._version = await self._calls.find(version, deadline=FIRST_DEADLINE_SECONDS)
            cluster = self._options.cluster or await self._cluster()
            system = not self._options.exclude_system
            self._settings = Settings(self._options.instance, cluster, self._options.namespace, system)
            tenants = [name for name in await self._calls.ask(Call("GET", ("tenants",))) or () if self._selected(name)]
        except PortError as error:
            raise ExportError(f"nothing was read: {error}. {self._calls.advice}") from None
        self._progress.total("tenants", len(tenants))
        read = await each_of(sorted(tenants), self._tenant, CONCURRENCY)
        names = sorted(name for _, inside in read for name in inside)
        self._progress.total("namespaces", len(names))
        namespaces = await each_of(names, self._namespace, CONCURRENCY)
        found = [each for each in namespaces if each is not None]
        self._progress.total("topics", sum(len(each.topics) for each in found))
        topics = [(each, topic) for each in found for topic in each.topics]
        declared = await each_of([topic for _, topic in topics], self._topic, CONCURRENCY)
        for (each, _), entry in zip(topics, declared, strict=True):
            each.entries += [entry] if entry is not None else []
        shared = await self._shared(found)
        self._progress.end()
        files: dict[str, Sequence[Entry]] = {"instance": shared} if shared else {}
        files |= {"tenants": [entry for entry, _ in read if entry is not None]}
        for each in sorted(found, key=lambda n: (n.tenant, n.name)):
            entries = each.entries
            if self._options.topic_sets is not None:
                entries = with_sets(self._settings, each.tenant, each.name, entries, self._options.topic_sets)
            files[object_name(each.tenant, each.name)] = [each.entry, *sorted(entries, key=lambda e: e.about)]
        return Exported(Source(cluster, self._version, self._not_read()), files)

    def _not_read(self) -> tuple[str, ...]:
        """Returns the kinds of data that the export omits, because of the options or always."""
        read = {
            "subscriptions": self._options.subscriptions,
            "schemas": self._options.schemas,
            "policies of topics": self._options.topic_policies,
        }
        return (*(name for name, done in read.items() if not done), "properties of topics without partitions")

    async def _shared(self, namespaces: Sequence[_Namespace]) -> list[Entry]:
        """Returns the resource groups, and the cluster's isolation policies and failure domains; with selected tenants
        only the groups and policies that apply to their namespaces."""
        chosen = self._options.tenants is not None
        names = [f"{each.tenant}/{each.name}" for each in namespaces]
        used = {str(each.live.get("resource_group_name")) for each in namespaces}
        cluster = self._settings.cluster
        entries: list[Entry] = []
        about = "resource groups"
        try:
            for name in sorted(await self._calls.find(Call("GET", ("resourcegroups",))) or ()):
                live = (
                    await self._calls.find(Call("GET", resource_group_path(name)))
                    if name in used or not chosen
                    else None
                )
                entries += [export_group(self._settings, name, live)] if live is not None else []
        except PortError as error:
            entries.append(not_exported(Kind.RESOURCE_GROUP, about, f"they could not be read: {error}", failed=True))
        about = f"isolation policies of cluster {cluster}"
        try:
            policies = await self._calls.find(Call("GET", isolation_path(cluster, "")[:-1])) or {}
            entries += [
                export_isolation(self._settings, name, live)
                for name, live in sorted(policies.items())
                if not chosen or any(isolates(live, full) is not False for full in names)
            ]
            domains = {} if chosen else await self._calls.find(Call("GET", failure_domain_path(cluster))) or {}
            together = export_domains(self._settings, domains)
            entries += [together] if together is not None else []
        except PortError as error:
            entries.append(not_exported(Kind.ISOLATION_POLICY, about, f"they could not be read: {error}", failed=True))
        return entries

    async def _answers(self, rows: Iterable[PolicyRow], base: tuple[str, ...]) -> dict[str, Any]:
        """Returns the answers for policies by field. Policies with the same path share one GET."""
        answers: dict[str, Any] = {}
        out: dict[str, Any] = {}
        for row in rows:
            if too_old(row, self._version):
                continue
            call = row.get_call(base)
            target = repr((call.path, sorted(call.query.items())))
            if target not in answers:
                answers[target] = await self._calls.readable(call)
            out[row.field] = answers[target]
        return out

    # ------------------------------------------------------------------------------------------------ objects

    def _selected(self, tenant: str) -> bool:
        if self._options.exclude_system and is_system_tenant(tenant):
            return False
        return self._options.tenants is None or self._options.tenants.fullmatch(tenant) is not None

    async def _cluster(self) -> str:
        """Returns the name of the cluster that answers. Pulsar has no call that returns only the name."""
        clusters = [name for name in await self._calls.find(Call("GET", ("clusters",))) or () if name != "global"]
        if len(clusters) == 1:
            return str(clusters[0])
        try:
            running = await self._calls.ask(Call("GET", ("brokers", "configuration", "runtime")))
            if isinstance(running, Mapping) and running.get("clusterName"):
                return str(running["clusterName"])
        except PortError:
            pass
        known = ", ".join(sorted(map(str, clusters))) or "none"
        raise ExportError(
            f"the export cannot determine which of the clusters ({known}) answers. Give its name with --cluster"
        )

    async def _tenant(self, tenant: str) -> tuple[Entry | None, list[str]]:
        """Returns the tenant, and its namespaces if the tenant has a manifest to refer to."""
        try:
            live = await self._calls.find(Call("GET", tenant_path(tenant)))
            if live is None:
                return None, []
            entry = export_tenant(self._settings, tenant, live)
            inside = [str(name) for name in await self._calls.find(Call("GET", ("namespaces", tenant))) or ()]
        except PortError as error:
            return not_exported(
                Kind.TENANT, f"tenant {tenant}", f"the tenant could not be read: {error}", failed=True
            ), []
        finally:
            self._progress.done("tenants")
        if self._options.exclude_system:
            inside = [name for name in inside if not is_system_namespace(name)]
        if entry.manifest is None and inside:
            reason = f"{entry.notes[0].text}. Its {len(inside)} namespaces are not exported either"
            return not_exported(Kind.TENANT, entry.about, reason), []
        return entry, inside

    async def _namespace(self, full: str) -> _Namespace | None:
        tenant, _, name = full.partition("/")
        about = f"namespace {full}"
        try:
            if "/" in name:
                reason = "the name has three parts, which only Pulsar 2 supported, and there is no field for it"
                return _Namespace(tenant, name, not_exported(Kind.NAMESPACE, about, reason))
            base = namespace_path(tenant, name)
            live = await self._calls.find(Call("GET", base))
            if live is None:
                return None
            own = await self._answers((row for row in NAMESPACE_POLICIES if row.own_get), base)
            answers = NamespaceAnswers(live, own, even_bundles=_even(live))
            entry = export_namespace(self._settings, tenant, name, answers)
            here = self._settings.cluster in (clusters_of(live) or [self._settings.cluster])
            found = _Namespace(tenant, name, entry, live)
            if entry.manifest is not None and here:
                await self._topics_of(found)
            return found
        except PortError as error:
            entry = not_exported(Kind.NAMESPACE, about, f"the namespace could not be read: {error}", failed=True)
            return _Namespace(tenant, name, entry)
        finally:
            self._progress.done("namespaces")

    async def _topics_of(self, found: _Namespace) -> None:
        try:
            await self._list(found)
        except PortError as error:
            note = Note(found.entry.about, f"the topics of the namespace could not be listed: {error}", failed=True)
            found.entry = replace(found.entry, notes=(*found.entry.notes, note))

    async def _list(self, found: _Namespace) -> None:
        """Finds the namespace's topics. Partitions are not separate topics."""
        place = (found.tenant, found.name)
        with_system = {"includeSystemTopic": "true"}
        read = self._options.topic_policies
        for persistent in (True, False):
            base = (domain_of(persistent), *place)
            prefix = topic_name(persistent, *place, "")
            named = await self._calls.find(Call("GET", base, with_system)) or ()
            split = await self._calls.find(Call("GET", (*base, "partitioned"), with_system)) or ()
            whole = {str(topic).removeprefix(prefix) for topic in split if str(topic).startswith(prefix)}
            local = {str(topic).removeprefix(prefix) for topic in named if str(topic).startswith(prefix)}
            single = {name for name in local if not _is_part_of(name, whole)}
            if persistent:
                read = read and await self._any_policies(place, single | whole, local)
            # Pulsar keeps no policies for a non-persistent topic without partitions.
            for name in sorted(single | whole):
                if self._options.exclude_system and is_system_topic(name):
                    continue
                policies = read and (persistent or name in whole)
                found.topics.append(_Topic(*place, name, persistent, name in whole, policies, found.live))

    async def _any_policies(self, place: tuple[str, str], topics: set[str], parts: set[str]) -> bool:
        """Whether a topic of the namespace may have policies; True if that is unknown."""
        if CHANGE_EVENTS not in topics:
            return False
        logs = [part for part in parts if (split_partition(part) or (part, 0))[0] == CHANGE_EVENTS]
        for log in logs or [CHANGE_EVENTS]:
            try:
                path = (*topic_path(True, *place, log), "internalStats")
                stats = await self._calls.ask(Call("GET", path))
            except PortError:
                return True
            if not isinstance(stats, Mapping) or may_hold_policies(stats):
                return True
        return False

    async def _topic(self, topic: _Topic) -> Entry | None:
        place = (topic.tenant, topic.namespace, topic.name)
        path = topic_path(topic.persistent, *place)
        try:
            metadata: Mapping[str, Any] = {}
            if topic.partitioned:
                metadata = await self._calls.find(Call("GET", (*path, "partitions"))) or {}
                if not metadata.get("partitions"):
                    return None  # deleted since it was listed
            policies = await self._answers(TOPIC_POLICIES, path) if topic.policies else {}
            lists: dict[str, Any] = {"permissions": topic.namespace_live}
            if topic.partitioned:
                lists["properties"] = metadata.get("properties")
            elif topic.policies:  # one more where there is one for each policy anyway
                lists["properties"] = await self._calls.readable(Call("GET", (*path, "properties")))
            subscriptions, rates = await self._subscriptions(topic, path)
            schema = None
            if self._options.schemas:
                schema = await self._calls.readable(Call("GET", schema_path(*place, "schema")))
        except PortError as error:
            about = f"topic {topic_name(topic.persistent, *place)}"
            return not_exported(Kind.TOPIC, about, f"the topic could not be read: {error}", failed=True)
        finally:
            self._progress.done("topics")
        partitions = int(metadata.get("partitions") or 0)
        answers = TopicAnswers(topic.persistent, partitions, lists, policies, subscriptions, rates, schema)
        return export_topic(self._settings, *place, answers)

    async def _subscriptions(self, topic: _Topic, path: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
        """Returns the statistics with the subscriptions, and their own dispatch rates, which are policies of the
        topic."""
        if not self._options.subscriptions or not topic.persistent:
            return None, {}
        query = {"perPartition": "true"} if topic.partitioned else {}
        call = Call("GET", (*path, "partitioned-stats" if topic.partitioned else "stats"), query)
        stats = await self._calls.readable(call)
        if not topic.policies or not isinstance(stats, Mapping):
            return stats, {}
        rated = rated_subscriptions(durable_subscriptions(stats, partitioned=topic.partitioned))
        return stats, {name: await self._calls.readable(rate_call(path, "GET", name)) for name in rated}


def _even(live: Mapping[str, Any]) -> bool:
    boundaries = list((live.get("bundles") or {}).get("boundaries") or ())
    return 1 < len(boundaries) <= MAX_BUNDLES + 1 and boundaries == even_boundaries(len(boundaries) - 1)


def _is_part_of(local: str, topics: set[str]) -> bool:
    found = split_partition(local)
    return found is not None and found[0] in topics
