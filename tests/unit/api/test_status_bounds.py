"""Every bounded field of a status, and where its growth ends; every list with keys, and why each key is there once.

A field that is longer than its bound, or a key that is there twice, makes the API server refuse the whole status: then
nobody sees what is the matter, and every pass ends alike. So a new bounded field fails here until somebody says where
it is bounded, in a test of that place where it is not the specification.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

from annotated_types import MaxLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pulsar_operator.api.v1alpha1 import MODELS

SPEC = "not larger than a list of the specification"
ONE = "one text of ours of a fixed length"
NAME = "a name that Kubernetes or Pulsar bounds"
PLACES = {
    # Shared by kinds.
    "pending_actions": "Actor.would, Result.report, Report._pending_actions, compactions._record",
    "managed_fields": "LogicalController._converge: too_many_fields",
    "refused_fields": "Result.report, Report._refused_fields",
    "drift": "Result.report, Report._drift; keys by plan.joined",
    "repairs": "fields of the specification, by drift_backoff.counted",
    "clusters": "clusters of the instance, by name; cluster_rows.unique, TenantController.status_fields",
    "used_confirmations": SPEC,
    "used_confirmations[].answers": ONE,
    "used_confirmations[].cluster": SPEC,
    "used_confirmations[].expires_time": SPEC,
    "used_confirmations[].used_time": ONE,
    "replication_before_deletion": "clusters that Pulsar knows: a topic is in no other",
    "replication_before_deletion[].replication_clusters": "clusters that Pulsar knows: a topic is in no other",
    "clusters_before_deletion.allowed_clusters": "clusters that Pulsar knows: a namespace is in no other",
    "clusters_before_deletion.replication_clusters": "clusters that Pulsar knows: a namespace is in no other",
    # PulsarTopic, PulsarTopicSet.
    "compaction.clusters": "clusters of the instance, by name",
    "compaction.clusters[].message": "compactions.compact",
    "owned.digests": "topic_set.owned_now, topic_set.without_room",
    "examples": "Report._examples",
    # PulsarInstance.
    "configuration_store_outages": "store_sessions.MAX_OUTAGES",
    "replication": "geo_replication.replication_rows",
    "replication[].namespaces": "geo_replication._most, _waiting",
    "replication[].namespaces[].name": "geo_replication._waiting",
    "replication[].topics": "geo_replication._most, _waiting",
    "replication[].topics[].name": "geo_replication._waiting",
    # PulsarRebalance.
    "capacities": "brokers of a cluster, whose replicas the specification bounds",
    "capacities[].broker": NAME,
    "distrusted_figures": "proposal.DOUBTS",
    "failed_executions.message": "execution._failed",
    "proposal.advice": "custom_resource: the first 50",
    "proposal.brokers": "table.load_table: ENDS at either end",
    "proposal.brokers[]": "table.load_table: WIDEST",
    "proposal.expected_duration": "pace.about: a word, a number and units",
    "progress.duration": "pace.in_words: a number and units",
    "progress.unload_seconds": "pacing.measure: a number below GIVE_UP_SECONDS",
    "replaced_proposal": "steps.identify: 12 characters",
    "measured_brokers": "table.load_table: ENDS at either end",
    "measured_brokers[]": "table.load_table: WIDEST",
    # PulsarCluster.
    "versions": "versions of the pods of one component, by version",
    "versions[].pods": "pods of one component, whose replicas the specification bounds",
    "versions[].version": NAME,
    "bookies": "facts.MAX_BOOKIES",
    "bookies[].id": NAME,
    "bookies[].rack": SPEC,
    "bookies[].reason": ONE,
    "bookies[].state": ONE,
    "bookies[].step": ONE,
    "balancer.saved": "the flags of load_balancer",
    "balancer.saved[].before": ONE,
    "balancer.saved[].name": ONE,
    "canaries": "one for each component",
    "canaries[].counters": "canary: sorts of a pod and MOST_PEERS others",
    "canaries[].component": ONE,
    "canaries[].pod": NAME,
    "canaries[].uid": NAME,
    "certificates": "edge_status.certificate_rows: one for the edge",
    "certificates[].names": "edge_status.certificate_rows: MOST_NAMES",
    "certificates[].names[]": "edge_status.certificate_rows: 253 characters",
    "certificates[].secret": SPEC,
    "drain.occasion": NAME,
    "listeners": SPEC,
    "listeners[].name": SPEC,
    "listeners[].service_url": "external_listeners: a host and a port, or MOST_BOOTSTRAP of them",
    "drain.pods": "pods of one component, whose replicas the specification bounds",
    "missing_pods": "absent_pods.MAX_MISSING",
    "missing_pods[].name": NAME,
    "placement.racks": ONE,
    "remote_clusters": "remote_clusters.MAX_REMOTE",
    "remote_clusters[].name": "remote_clusters.MAX_REMOTE_NAME",
}
PLACES |= {f"canaries[].counters[].{name}": NAME for name in ("pod", "uid", "sort")}
PLACES |= {
    f"remote_clusters[].{name}": "remote_clusters.MAX_URL"
    for name in ("broker_service_url", "broker_service_url_tls", "service_url", "service_url_tls")
}
SCALING = {
    "history.highs": "history._shortened",
    "history.lows": "history._shortened",
    "history.stored": "history of forecasts",
    "history.refusal.message": "autoscale_bookies: WORDS",
    "history.refusal.reason": ONE,
    "inputs": "signals of the specification, by name",
    "inputs[].name": ONE,
    "inputs[].target": ONE,
    "inputs[].unit": ONE,
    "inputs[].value": ONE,
    "limited_by": ONE,
    "message": "scaling._MOST_WORDS",
    "reason": ONE,
    "unreadable": "replicas.with_unreadable: components that may have autoscaling",
    "unreadable[]": ONE,
}
TIERS = ("zookeeper", "bookkeeper", "autorecovery", "broker", "proxy", "standalone")


def bounded(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Paths of what has a length or keys."""
    for name, info in model.model_fields.items():
        yield from _of(info.annotation, [*info.metadata, info], f"{path}.{name}" if path else name)


def _of(annotation: Any, about: list[Any], path: str) -> Iterator[str]:
    if any(_limits(each) for each in about):
        yield path
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        yield from _of(inside[0], list(inside[1:]), path)
        return
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from bounded(annotation, path)
    for each in inside:
        yield from _of(each, [], f"{path}[]" if origin in {list, dict} else path)


def _limits(about: Any) -> bool:
    if isinstance(about, FieldInfo):
        extra = about.json_schema_extra
        keys = isinstance(extra, dict) and "x-kubernetes-list-map-keys" in extra
        return keys or any(isinstance(each, MaxLen) for each in about.metadata)
    return isinstance(about, MaxLen)


def place_of(path: str) -> str | None:
    """Where the growth of a field ends."""
    scaling, _, rest = path.partition("autoscaling.")
    if not scaling and rest:
        return SCALING.get(rest.partition(".")[2] or rest)
    tier, _, inside = path.partition(".")
    return PLACES.get(inside if tier in TIERS else path)


def test_every_bounded_field_is_bounded_where_it_grows() -> None:
    found = {(kind.value, path) for kind, models in MODELS.items() for path in bounded(models.status)}
    assert len(found) > 100
    assert not {each for each in found if "conditions" not in each[1] and place_of(each[1]) is None}
    used = {path for _, path in found} | {path.partition(".")[2] for _, path in found}
    assert not set(PLACES) - used, "no such field any more"
