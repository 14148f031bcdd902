"""Two instances: neither lists nor names the clusters of the other, and the same names in both share nothing."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from dataclasses import replace

from pulsar_conformance.admin import Admin, AdminError, topic_path
from pulsar_conformance.context import Context, Remote
from pulsar_conformance.model import CheckFailed, CheckSkipped, check

COUNT = 10
"""Messages of each cluster."""
QUIET = 1.0
"""Seconds in which a message that must not come would come; it takes milliseconds."""
TTL = (120, 60)
"""The policy of the namespace in each instance, in seconds."""
NO_CLUSTER, FORBIDDEN, NOT_FOUND = 412, 403, 404
"""How Pulsar refuses a tenant with an unknown cluster, a namespace or topic with one, and to show what is not there."""


@check(
    "geo.foreign_cluster",
    proves="A cluster of another instance takes no part: no tenant, namespace or topic can name it, and a topic of the "
    "same name there shares neither policies nor messages",
    concepts=("A.instance", "E.geo"),
    seconds=5,
)
def foreign_cluster(ctx: Context) -> str:
    """Lists and refusals here; then a tenant, a namespace and a topic of the same name in both, used in both."""
    here, other = ctx.setting("clusterName"), _foreign(ctx)
    there = other.cluster
    near, far = ctx.admin, replace(ctx.admin, url=other.admin_url, access=other.access)
    for admin, own, foreign in ((near, here, there), (far, there, here)):
        listed = admin.get("clusters")
        ctx.expect(own in listed and foreign not in listed, f"the instance of {own} lists {listed}")

    tenant = f"{ctx.instance.tenant}-{ctx.instance.run}-{secrets.token_hex(2)}"
    namespace = f"{tenant}/same"
    topic = f"persistent://{namespace}/topic"
    ctx.defer(lambda: _remove(near, topic))
    ctx.defer(lambda: _remove(far, topic))
    errors = _refusals(ctx, near, topic, here, there)
    missing = _refused(ctx, NOT_FOUND, f"the tenant of {here} in {there}", lambda: far.get(f"tenants/{tenant}"))
    far.put(f"tenants/{tenant}", _tenant([there]))
    far.put(f"namespaces/{namespace}", {"replication_clusters": [there]})
    far.put(ctx.path(topic))
    ttl = f"namespaces/{namespace}/messageTTL"
    for admin, seconds in zip((near, far), TTL, strict=True):
        admin.post(ttl, seconds)

    clients = (ctx.client(), ctx.client(service_url=other.service_url, access=other.access))
    for client in clients:
        ctx.defer(client.close)
    consumers = [ctx.consumer(topic, client=client) for client in clients]
    texts = [[f"{letter}{number}" for number in range(COUNT)] for letter in "nf"]
    for client, some in zip(clients, texts, strict=True):
        ctx.send(ctx.producer(topic, client=client), some)
    for name, consumer, some in zip((here, there), consumers, texts, strict=True):
        got = ctx.texts(ctx.receive(consumer, COUNT))
        ctx.expect(got == some, f"of {COUNT} messages of {name} it received {got}")
    for name, admin, consumer, seconds in zip((here, there), (near, far), consumers, TTL, strict=True):
        ctx.nothing(consumer, QUIET, f"{name} received its own {COUNT} messages")
        replicators = sorted(admin.get(f"{ctx.path(topic)}/stats")["replication"])
        ctx.expect(not replicators, f"the topic in {name} is replicated to {replicators}")
        found = admin.get(ttl)
        ctx.expect(found == seconds, f"messageTTL in {name} is {found}, where {seconds} was set")
    return (
        f"{here} and {there} list only their own; {there} is refused to {errors}; a tenant of {here} is not in {there} "
        f"({missing}); of one topic name {COUNT} messages each, received where they were published alone; TTL "
        f"{TTL[0]} and {TTL[1]}"
    )


def _foreign(ctx: Context) -> Remote:
    """The cluster of another instance; the check is skipped where none is given."""
    found = ctx.instance.foreign
    if found is None:
        raise CheckSkipped(
            "needs a cluster of another instance: --foreign-service-url and --foreign-admin-url say where"
        )
    return found


def _refusals(ctx: Context, admin: Admin, topic: str, here: str, there: str) -> str:
    """What the instance answers to each object that names the foreign cluster; the same objects without it are made."""
    namespace = topic.split("://")[1].rpartition("/")[0]
    tenant, path, both = namespace.partition("/")[0], ctx.path(topic), [here, there]
    policies, accepted = f"namespaces/{namespace}", list[str]()

    def refused(what: str, status: int, call: Callable[[], object]) -> None:
        text = _refused(ctx, status, f"{what} with {there}", call)
        accepted.append(f"{what} ({text.replace(tenant, 'T')})")

    refused("a tenant", NO_CLUSTER, lambda: admin.put(f"tenants/{tenant}", _tenant(both)))
    admin.put(f"tenants/{tenant}", _tenant([here]))
    refused("a namespace", FORBIDDEN, lambda: admin.put(policies, {"replication_clusters": both}))
    admin.put(policies, {"replication_clusters": [here]})
    refused("its replication", FORBIDDEN, lambda: admin.post(f"{policies}/replication", both))
    kept = admin.get(f"{policies}/replication")
    ctx.expect(kept == [here], f"after the refusal the namespace replicates to {kept}")
    admin.put(path)
    if ctx.setting("topicLevelPoliciesEnabled") != "false":
        refused("a topic's replication", FORBIDDEN, lambda: admin.post(f"{path}/replication", both))
    return ", ".join(accepted)


def _tenant(clusters: list[str]) -> dict[str, list[str]]:
    return {"adminRoles": [], "allowedClusters": clusters}


def _refused(ctx: Context, status: int, what: str, call: Callable[[], object]) -> str:
    """Status and words of a refusal. Raises CheckFailed when the call is accepted or refused with another status."""
    try:
        call()
    except AdminError as error:
        ctx.expect(error.status == status, f"{what}: {error}, where {status} was expected")
        return f"{error.status} {error.reason}"
    raise CheckFailed(f"{what} was accepted, where {status} was expected")


def _remove(admin: Admin, topic: str) -> None:
    """The topic with its namespace and tenant, of one instance."""
    namespace = topic.split("://")[1].rpartition("/")[0]
    for path, query in (
        (topic_path(topic), {"force": True}),
        (f"namespaces/{namespace}", {}),
        (f"tenants/{namespace.partition('/')[0]}", {}),
    ):
        with contextlib.suppress(AdminError):
            admin.delete(path, **query)
