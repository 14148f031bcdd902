"""Collects what is known about a namespace that is about to be created with ``bundles.sizing: Auto``."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import ceil

from pydantic import ValidationError

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.topic_set import PulsarTopicSetSpec
from pulsar_operator.balance.model.cluster import Broker, Cell
from pulsar_operator.balance.model.hashing import partition_name
from pulsar_operator.balance.sizing.initial import NewBundles, boundaries_of_new
from pulsar_operator.controllers.core.capacities import broker_capacities
from pulsar_operator.controllers.core.clusters import members, pulsar_name
from pulsar_operator.controllers.core.index import allows_references, key_of, references
from pulsar_operator.controllers.core.traffic import sizing_url
from pulsar_operator.controllers.core.watch_cache import name_of, reader_of
from pulsar_operator.controllers.logical.scope import Scope
from pulsar_operator.domain.logical.pulsar_names import MOST_PARTITIONS
from pulsar_operator.domain.logical.topic_set import Selection
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import CUSTOM, Deps, Json, PortError

log = logging.getLogger(__name__)

MAX_CONSIDERED = 100_000
"""Approximate maximum number of topics and partitions that are considered, for topics and for topic sets each. Beyond
it only every n-th topic is considered, with all its partitions."""


async def new_bundles(deps: Deps, namespace: Json, scope: Scope, full: str) -> NewBundles:
    """Returns the boundaries for a namespace that Pulsar does not have yet, and the reason for them.

    Of several clusters the first one that answers is asked for its brokers, since a namespace is created with one set
    of boundaries. Raises AdminUnreachableError.
    """
    cluster, brokers = await scope.admin.anywhere(Call("GET", ("brokers",)))
    cells = await _recorded(deps, scope.chain[-1], cluster, full)
    topics: list[str] = []
    if not cells:
        topics += _names_of_topics(await _declared(deps, namespace, Kind.TOPIC), full)
        topics += _names_of_sets(await _declared(deps, namespace, Kind.TOPIC_SET), full)
    # Without recorded traffic the bundles are counted and not weighed, and Pulsar gives each broker as many.
    capacities = await _capacities(deps, scope.chain[-1], cluster, brokers or ()) if cells else {}
    able = [Broker(each, capacities.get(each, 1.0)) for each in brokers or ()]
    return boundaries_of_new(full, able, cells=cells, topics=topics)


async def _capacities(deps: Deps, instance: Json, cluster: str, brokers: Sequence[str]) -> dict[str, float]:
    """Returns the relative capacities of the brokers of a cluster, by their names in Pulsar."""
    clusters = members(await reader_of(deps).every(Kind.CLUSTER, allowed_by=instance), instance)
    found = next((each for each in clusters if pulsar_name(each) == cluster), None)
    return await broker_capacities(deps, found, brokers) if found is not None else {}


async def _recorded(deps: Deps, instance: Json, cluster: str, full: str) -> list[Cell]:
    """Returns the recorded traffic by position, if the sizing service of the instance has recorded a namespace of that
    name."""
    if deps.sizing is None:
        return []
    try:
        result = await deps.sizing.latest(sizing_url(instance), cluster)
    except PortError as error:
        # Most installations have none; what is declared is the next best thing.
        log.debug("no recorded traffic for namespace %s: %s", full, error)
        return []
    found = next((each for each in result.namespaces if each.namespace == full), None) if result is not None else None
    return [Cell(each.position, each.weight, each.topics) for each in found.cells] if found is not None else []


async def _declared(deps: Deps, namespace: Json, kind: Kind) -> list[Json]:
    """Returns the objects of a kind that refer to the namespace and are allowed to."""
    key = key_of(Kind.NAMESPACE, namespace)
    alone = not (namespace.get("spec") or {}).get("allowedKubernetesNamespaces")
    objects = await deps.kube.list(CUSTOM[kind], key.namespace if alone else None)
    return [
        each
        for each in objects
        if key in references(kind, each)
        and allows_references(namespace, target_namespace=key.namespace, from_namespace=each["metadata"]["namespace"])
    ]


def _names_of_topics(topics: list[Json], full: str) -> Iterator[str]:
    step = ceil(sum(_partitions(each) or 1 for each in topics) / MAX_CONSIDERED) or 1
    for each in topics[::step]:
        domain = "non-persistent" if (each.get("spec") or {}).get("persistent") is False else "persistent"
        yield from _parts(f"{domain}://{full}/{name_of(each)}", _partitions(each))


def _partitions(topic: Json) -> int | None:
    """Returns the declared number of partitions; None if none is declared or if the API server would not admit the
    value."""
    found = (topic.get("spec") or {}).get("partitions")
    return found if isinstance(found, int) and 0 < found <= MOST_PARTITIONS else None


def _names_of_sets(sets: list[Json], full: str) -> Iterator[str]:
    """Yields the names of the topics that the sets declare by name. Sets by pattern have no topics in a namespace that
    does not exist yet."""
    selected: list[tuple[Sequence[str], int | None]] = []
    for each in sets:
        with suppress(ValidationError):  # the set itself says what is wrong with it
            spec = PulsarTopicSetSpec.model_validate(each.get("spec") or {})
            selected.append((Selection(spec).names, spec.template.partitions))
    total = sum(len(names) * (partitions or 1) for names, partitions in selected)
    step = ceil(total / MAX_CONSIDERED) or 1
    for names, partitions in selected:
        for name in names[::step]:
            yield from _parts(f"persistent://{full}/{name}", partitions)


def _parts(topic: str, partitions: int | None) -> Iterator[str]:
    if partitions is None:
        yield topic
    else:
        yield from (partition_name(topic, index) for index in range(partitions))
