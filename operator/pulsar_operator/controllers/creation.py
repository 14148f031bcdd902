"""What is known of a namespace that is about to be created with ``bundles.sizing: Auto``."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.topic import Persistence
from pulsar_operator.balance.creation import NewBundles, boundaries_of_new
from pulsar_operator.balance.hashing import partition_name
from pulsar_operator.balance.model import Broker, Cell
from pulsar_operator.controllers.logical_scope import Scope
from pulsar_operator.controllers.reader import name_of
from pulsar_operator.controllers.refindex import consents, key_of, references
from pulsar_operator.controllers.traffic import sizing_url
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import CUSTOM, Deps, Json, PortError

log = logging.getLogger(__name__)


async def new_bundles(deps: Deps, namespace: Json, scope: Scope, full: str) -> NewBundles:
    """Boundaries for a namespace Pulsar does not have yet, and why these.

    Of several clusters the first that answers is asked for its brokers: a namespace has one set of boundaries at its
    creation. Raises AdminUnreachableError.
    """
    cluster, brokers = await scope.admin.anywhere(Call("GET", ("brokers",)))
    cells = await _recorded(deps, scope.chain[-1], cluster, full)
    topics = [] if cells else list(_full_names(await _declared(deps, namespace), full))
    return boundaries_of_new(full, [Broker(each) for each in brokers or ()], cells=cells, topics=topics)


async def _recorded(deps: Deps, instance: Json, cluster: str, full: str) -> list[Cell]:
    """Its traffic by position, if the sizing service of the instance has seen a namespace of that name."""
    if deps.sizing is None:
        return []
    try:
        result = await deps.sizing.latest(sizing_url(instance), cluster)
    except PortError as error:
        # Most installations have none; what is declared is the next best thing.
        log.info("no recorded traffic for namespace %s: %s", full, error)
        return []
    found = next((each for each in result.namespaces if each.namespace == full), None) if result is not None else None
    return [Cell(each.position, each.weight, each.topics) for each in found.cells] if found is not None else []


async def _declared(deps: Deps, namespace: Json) -> list[Json]:
    """PulsarTopics that refer to the namespace and may."""
    key = key_of(Kind.NAMESPACE, namespace)
    alone = not (namespace.get("spec") or {}).get("allowedNamespaces")
    objects = await deps.kube.list(CUSTOM[Kind.TOPIC], key.namespace if alone else None)
    return [
        each
        for each in objects
        if key in references(Kind.TOPIC, each)
        and consents(namespace, target_namespace=key.namespace, from_namespace=each["metadata"]["namespace"])
    ]


def _full_names(topics: list[Json], full: str) -> Iterator[str]:
    for each in topics:
        spec = each.get("spec") or {}
        domain = "non-persistent" if spec.get("persistence") == Persistence.NON_PERSISTENT.value else "persistent"
        name, partitions = f"{domain}://{full}/{name_of(each)}", spec.get("partitions")
        if isinstance(partitions, int):
            yield from (partition_name(name, index) for index in range(partitions))
        else:
            yield name
