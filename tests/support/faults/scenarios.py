"""What the operator is doing while something fails: a preparation, undisturbed, and what the user then does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM
from tests.support.logical.world import LOGICAL, LogicalWorld

Step = Callable[[LogicalWorld], None]
RETENTION = {"timeMinutes": 60, "size": "100Mi"}
BROKERS = [f"a-broker-{n}.h:8080" for n in range(3)]
SCHEMA = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'
DELETE = {"deletionPolicy": "Delete"}
SET = {"namespaceRef": {"name": "n"}, **DELETE}
OLD = {"policies": {"maxProducers": 3, "retention": RETENTION}, "properties": {"k": "v"}}
NEW = {"policies": {"maxProducers": 4}, "properties": {"k": "w"}}


@dataclass(frozen=True)
class Scenario:
    """What is disturbed."""

    name: str
    before: tuple[Step, ...]
    trigger: Step
    deletes: bool = False
    """Whether the trigger deletes something that is then deleted in Pulsar."""


def create(w: LogicalWorld) -> None:
    """A tenant, a namespace, a topic with everything a topic can have, and a partitioned one."""
    w.tenant(adminRoles=["r"], **DELETE)
    w.namespace(
        bundles={"count": 3},
        policies={"retention": RETENTION, "messageTTLSeconds": 5},
        permissions=[{"role": "r", "actions": ["Produce"]}],
        properties={"k": "v"},
        **DELETE,
    )
    w.topic(
        "x",
        policies={"retention": RETENTION, "maxProducers": 3},
        properties={"k": "v"},
        subscriptions=[{"name": "s", "replicated": True}],
        schema={"type": "Avro", "definition": SCHEMA},
        **DELETE,
    )
    w.topic("p", partitions=2, policies={"maxProducers": 3}, policyScope="Global", driftPolicy="Report", **DELETE)


def change(w: LogicalWorld) -> None:
    """Fields change and go, partitions are added."""
    w.tenant(adminRoles=["s"], **DELETE)
    w.namespace(
        bundles={"count": 3},
        policies={"messageTTLSeconds": 6},
        permissions=[{"role": "r", "actions": ["Produce", "Consume"]}],
        **DELETE,
    )
    w.topic(
        "x",
        policies={"maxProducers": 4},
        properties={"k": "w"},
        subscriptions=[{"name": "s", "replicated": True}, {"name": "t"}],
        schema={"type": "Avro", "definition": SCHEMA},
        driftPolicy="Report",
        **DELETE,
    )
    w.topic("p", partitions=4, policies={"maxProducers": 4}, policyScope="Global", driftPolicy="Report", **DELETE)


def create_shared(w: LogicalWorld) -> None:
    """What lives beside namespaces: a resource group, an isolation policy and failure domains."""
    w.tenant(**DELETE)
    w.namespace(policies={"resourceGroup": "g"}, **DELETE)
    w.group(limits={"publishRate": {"messagesPerSecond": 5, "bytesPerSecond": 6}}, **DELETE)
    w.isolation(
        namespaces=["t/.*"],
        primary=[".*-0.*"],
        secondary=[".*-1.*"],
        unloadScope="None",
        failureDomains=[{"name": "x", "brokers": BROKERS[:1]}, {"name": "y", "brokers": BROKERS[1:]}],
        **DELETE,
    )


def change_shared(w: LogicalWorld) -> None:
    """Limits change, a field and a cluster leave, two domains swap a broker, and one is new."""
    w.namespace(policies={}, **DELETE)
    w.group(limits={"publishRate": {"messagesPerSecond": 7}}, **DELETE)
    w.isolation(
        clusters=["a"],
        namespaces=["t/.*", "u/n"],
        primary=[".*-0.*"],
        autoFailover={"minLimit": 2},
        failureDomains=[{"name": "x", "brokers": BROKERS[1:2]}, {"name": "z", "brokers": BROKERS[:1]}],
        **DELETE,
    )


def create_set(w: LogicalWorld) -> None:
    """A set of topics."""
    w.tenant(**DELETE)
    w.namespace(**DELETE)
    w.put(Kind.TOPIC_SET, "s", {**SET, "count": {"prefix": "d-", "number": 3}, "template": {"partitions": 2, **OLD}})


def change_set(w: LogicalWorld) -> None:
    """A topic leaves the set, and a field and a value of its template change."""
    w.put(Kind.TOPIC_SET, "s", {**SET, "count": {"prefix": "d-", "number": 2}, "template": {"partitions": 2, **NEW}})


def remove(w: LogicalWorld) -> None:
    """Everything logical is deleted at once, as ``kubectl delete -f`` does."""
    for kind in LOGICAL:
        for obj in w.kube.all(CUSTOM[kind]):
            w.delete(kind, obj["metadata"]["name"])


def recreate(w: LogicalWorld) -> None:
    """A topic is deleted while its successor in Pulsar is there already, and a tenant made again under its name."""
    w.delete(Kind.TOPIC, "p")
    w.topic("q", name="p", partitions=3, **DELETE)
    w.delete(Kind.TENANT, "u")
    w.tenant("u", adminRoles=["second"])


def create_and_retained(w: LogicalWorld) -> None:
    """As ``create``, with a tenant that Kubernetes deletes at once, having no finalizer, and a namespace in it."""
    create(w)
    w.tenant("u", adminRoles=["first"])
    w.namespace("m", tenant="u", policies={"messageTTLSeconds": 5})


SCENARIOS = (
    Scenario("create", (), create),
    Scenario("change", (create,), change),
    Scenario("remove", (create,), remove, deletes=True),
    Scenario("shared create", (), create_shared),
    Scenario("shared change", (create_shared,), change_shared),
    Scenario("shared remove", (create_shared,), remove, deletes=True),
    Scenario("set create", (), create_set),
    Scenario("set change", (create_set,), change_set, deletes=True),
    Scenario("set remove", (create_set,), remove, deletes=True),
    Scenario("recreate", (create_and_retained,), recreate, deletes=True),
)
