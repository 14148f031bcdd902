"""What users write into a specification is not told: a canary in every place that takes text, through the life of the
object under the real controllers, is in no line of the log, no event, no status. Places come from the schemas, so that
a new field is covered by itself. What may be told is listed here, with the reason."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core import objects
from pulsar_operator.domain import apply
from pulsar_operator.domain.policies import entry_rows
from pulsar_operator.domain.policies.model import concealed, describe
from pulsar_operator.domain.texts import without_userinfo
from tests.support.canary.places import CANARY, places
from tests.support.canary.watching import live, watched
from tests.support.cluster.copies import made_once, ready_world
from tests.support.cluster.world import ClusterWorld, quickstart
from tests.support.sampling import first

NAMES = "a name: it says which object, setting or role is meant, and there is no other word for it"
SHOWN: dict[str, str] = {
    r"\{key\}$": NAMES,
    r"Ref\.(name|namespace)$|^configurationStore\.cluster\.name$|^allowedKubernetesNamespaces\[\]$": NAMES,
    r"^(name|clusterName)$|^(template\.)?names\[\]$|^count\.prefix$": NAMES,
    r"racks\.(topologyKey|byOrdinal\[\])$": NAMES,
    r"^tls\.edge\.(secretName|host)$|^listeners\[\]\.name$": NAMES,
    r"^image\.|^version$": "the image that runs: why a pod is replaced",
    r"^maintenanceWindows\[\]\.timeZone$": "a name: which zone the time is of that is waited for, or is unknown",
    r"\.(sidecars|initContainers)\[\]\.(name|image)$": "which container is meant, and the image that runs",
    r"\.volumeMounts\[\]\.(name|mountPath)$|\.claimName$|\.(heapDump|gcLog)Path$": NAMES,
    r"\.env\[\]\.name$|storageClassName$|priorityClassName$": NAMES,
    r"\.(requests|limits)\{\}$|\.size$|maxMarkDeletesPerSecond$": "a quantity, which the definition insists on",
    r"external\.(servers|chroot)$|^clusterDomain$": "an address, which has no password: what does not answer",
    r"[cC]lusters\[\]$|^confirmations\[\]\.cluster$": NAMES,
    r"superUserRoles\[\]$|additionalAudiences\[\]$": NAMES,
    r"adminRoles\[\]$|permissions\[\]\.role$|subscriptionPermissions\[\]\.": NAMES,
    r"^subscriptions\[\]\.name$|shadowTopics\[\]$|entryFilters\[\]$|resourceGroup$|ffinityGroup": NAMES,
    r"persistence\.storageClass$": NAMES,
    r"offload\.(bucket|region|s3Role|s3RoleSessionName|serviceEndpoint)$": "names and an address at the provider of "
    "storage, keys are none of the specification; of a URL nothing in front of the host is told",
    r"^(namespaces|primary|secondary|brokers|excludedBrokers|patterns)\[\]$|^failureDomains\[\]": "which brokers and "
    "namespaces are meant",
    r"schema(\.key|\.value)?\.definition$": "every client of the topic gets it, and no drift of it can be told without",
}


def may_be_told(path: str) -> bool:
    """Whether the value of a place is listed."""
    return any(re.search(pattern, path) for pattern in SHOWN)


PLACES = [(kind, path) for kind in Kind for path in places(kind)]
SAME_POD = re.compile(r"^(?!broker\.|bookkeeper\.pod).*\.pod\.")
"""Pod templates of the other components: the same struct, read and rendered by the same code."""
HIDDEN = [(kind, path) for kind, path in PLACES if not may_be_told(path) and not SAME_POD.search(path)]
TWINS = ("broker.pod.", "bookkeeper.pod.")
"""One struct: each run of the tests takes a place of each part of it and every fourth of those with many, in pods of
brokers and of bookies in turn; `make hostile` takes the others."""
IN_PODS = [path for _, path in HIDDEN if path.startswith(TWINS[0])]


def part(path: str) -> str:
    """The field of a pod's specification that a place is in."""
    return re.split(r"[^a-zA-Z]", path.partition(".pod.")[2])[0]


def taken_of_pods() -> set[str]:
    """The sample."""
    parts = [[path for path in IN_PODS if part(path) == each] for each in dict.fromkeys(map(part, IN_PODS))]
    chosen = [path for paths in parts for path in paths[first(4) % len(paths) :: 4]]
    return {path.replace(*TWINS) if number % 2 else path for number, path in enumerate(chosen)}


TAKEN = taken_of_pods()
LEFT = {path for _, path in HIDDEN if path.startswith(TWINS)} - TAKEN


def cases() -> list[Any]:
    """Every hidden place; those of the sample's rest are slow."""
    return [
        pytest.param(kind, path, id=f"{kind}-{path}", marks=[pytest.mark.slow] if path in LEFT else [])
        for kind, path in HIDDEN
    ]


INSIDE_PULSAR = frozenset(
    {Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC, Kind.TOPIC_SET, Kind.RESOURCE_GROUP, Kind.ISOLATION_POLICY}
)
"""Kinds that need a cluster which answers, whatever it is made of."""


@made_once
async def standalone() -> ClusterWorld:
    """The quickstart, up, with a cluster whose passes cost least: one process, which makes its own metadata."""
    world = ClusterWorld.fakes()
    world.pulsar.clusters.append("east")
    manifests = quickstart()
    manifests[1]["spec"] = {"instanceRef": {"name": "demo"}, "mode": "Standalone", "standalone": {}}
    await world.apply(*manifests)
    await world.run()
    return world


async def leaks(kind: Kind, path: str) -> list[str]:
    world = await (standalone() if kind in INSIDE_PULSAR else ready_world())
    assert await world.all_ready() == {}
    with watched() as seen:
        await live(world, kind, path, seen)
    assert seen.texts
    return seen.leaks()


@pytest.mark.parametrize(("kind", "path"), cases())
async def test_is_not_reported(kind: Kind, path: str) -> None:
    assert await leaks(kind, path) == []


def test_the_sample_has_a_place_of_every_part_of_a_pod() -> None:
    assert TAKEN.issubset(path for _, path in HIDDEN)
    assert {path.replace(*TWINS[::-1]) for path in LEFT} <= set(IN_PODS), (
        "pods of bookies have what those of brokers do"
    )
    assert set(map(part, TAKEN)) == set(map(part, IN_PODS))
    assert all(any(path.startswith(each) for path in TAKEN) for each in TWINS)


def test_every_line_of_the_list_is_needed() -> None:
    for pattern in SHOWN:
        assert any(re.search(pattern, path) for _, path in PLACES), f"{pattern}: no such place any more"


@pytest.mark.parametrize(
    ("kind", "path", "broken"),
    [
        (Kind.CLUSTER, "broker.pod.env[].value", "apply"),
        (Kind.CLUSTER, "broker.pod.affinity*", "apply"),
        (Kind.CLUSTER, "broker.pod.annotations{}", "validation"),
        (Kind.NAMESPACE, "properties{}", "entries"),
    ],
)
async def test_a_leak_would_be_seen(kind: Kind, path: str, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for world in (standalone, ready_world):
        await world()  # brought up before anything is broken, as for all others
    if broken == "apply":
        monkeypatch.setattr(apply, "_is_shown", lambda path, value: True)
    elif broken == "validation":

        def telling(error: Any) -> str:
            return str([item["input"] for item in error.errors()])

        monkeypatch.setattr(objects, "invalid_fields", telling)
        monkeypatch.setattr("pulsar_operator.controllers.core.reconcile.invalid_fields", telling)
    else:
        for row in entry_rows.NAMESPACE_ENTRIES:
            changed = copy.copy(row)
            monkeypatch.setitem(row.__dict__, "describe_value", describe)
            assert changed.field == row.field
    assert any(CANARY in leak for leak in await leaks(kind, path))


def test_of_a_url_nothing_in_front_of_the_host_is_reported() -> None:
    assert (
        without_userinfo("at http://user:pw@h:1/x, https://token@h and h") == "at http://...@h:1/x, https://...@h and h"
    )
    assert describe({"serviceEndpoint": f"http://u:{CANARY}@h"}) == '{"serviceEndpoint": "http://...@h"}'
    assert CANARY not in concealed({"k": CANARY}) and '"k"' in concealed({"k": CANARY})
    assert concealed(None) == "not set" and CANARY not in concealed(CANARY)
