"""Isolation of namespaces: which brokers serve them, and who steps in when those are gone."""

from __future__ import annotations

import itertools
import re
from http import HTTPStatus
from typing import Any

from pulsar_conformance.admin import AdminError
from pulsar_conformance.context import Context
from pulsar_conformance.kit.brokers import host_of, names_in, several
from pulsar_conformance.kit.bundles import even
from pulsar_conformance.model import check

BUNDLES = 8
GONE = r"no-broker-has-this-name\..*"


@check(
    "isolation.primary",
    proves="Bundles of an isolated namespace are served by its primary brokers alone, those of others by the rest",
    concepts="B.isolation",
    seconds=6,
    alone=True,
)
def primary(ctx: Context) -> str:
    """One broker is primary, another one secondary: the first has every bundle, and none of another namespace.

    The policy takes the primary broker from every namespace that has none, so no other check may run beside this one.
    """
    hosts = several(ctx, 2)
    namespace, other = (ctx.new_namespace(bundles={"numBundles": BUNDLES}) for _ in range(2))
    _isolate(ctx, namespace, re.escape(hosts[0]), re.escape(hosts[1]))
    inside = _hosts(ctx, namespace)
    ctx.expect(inside == {hosts[0]}, f"primary broker {hosts[0]}, but {_listed(inside)} serve the namespace")
    outside = _hosts(ctx, other)
    ctx.expect(hosts[0] not in outside, f"{hosts[0]} is primary of another namespace and serves one that has no policy")
    _isolate(ctx, namespace, re.escape(hosts[1]), re.escape(hosts[0]))
    moved = ctx.eventually(lambda: _if(_hosts(ctx, namespace), {hosts[1]}), f"all bundles are at {hosts[1]}", within=30)
    return (
        f"{BUNDLES} of {BUNDLES} bundles at the primary {hosts[0]}, none at the secondary; none of {BUNDLES} of "
        f"another namespace there; with {_listed(moved)} as primary all {BUNDLES} moved"
    )


@check(
    "isolation.secondary",
    proves="Secondary brokers serve an isolated namespace when fewer primaries are there than it needs; without any it "
    "cannot be used",
    concepts="B.isolation",
    seconds=4,
)
def secondary(ctx: Context) -> str:
    """The primaries are gone: the policy names a broker that does not exist. Messages continue."""
    manager = ctx.setting("loadManagerClassName").rpartition(".")[2]
    ctx.require(manager != "NoopLoadManager", f"brokers have {manager}, as a standalone does: it isolates nothing")
    (host, *_rest) = several(ctx, 1)
    namespace = ctx.new_namespace(bundles={"numBundles": BUNDLES})
    _isolate(ctx, namespace, GONE, GONE)
    topic = ctx.topic(namespace=namespace, create=False)
    status = _refused(ctx, topic)
    ctx.expect(status == HTTPStatus.SERVICE_UNAVAILABLE, f"without any broker the look-up is answered with {status}")
    _isolate(ctx, namespace, GONE, re.escape(host))
    served = ctx.eventually(lambda: _served(ctx, namespace), "the secondary broker serves it", within=20)
    ctx.expect(served == {host}, f"secondary broker {host}, but {_listed(served)} serve the namespace")
    consumer = ctx.consumer(topic)
    ctx.send(ctx.producer(topic), [f"m{n}" for n in range(10)])
    got = ctx.texts(ctx.receive(consumer, 10))
    ctx.expect(got == [f"m{n}" for n in range(10)], f"the consumer got {got}")
    return (
        f"no primary there: {BUNDLES} of {BUNDLES} bundles at the secondary broker, 10 of 10 messages; without a "
        f"secondary one the look-up is refused with {status}"
    )


def _isolate(ctx: Context, namespace: str, first: str, second: str) -> None:
    """Write the policy of a namespace; removed when the check ends. Primary brokers are enough while one is there."""
    path = f"clusters/{ctx.setting('clusterName')}/namespaceIsolationPolicies/{namespace.replace('/', '-')}"
    policy: dict[str, Any] = {
        "namespaces": [re.escape(namespace)],
        "primary": [first],
        "secondary": [second],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "100"},
        },
    }
    ctx.defer(lambda: ctx.admin.delete(path))
    ctx.admin.post(path, policy)


def _refused(ctx: Context, topic: str) -> int:
    """HTTP status with which a look-up is refused; OK when it is not."""
    try:
        host_of(ctx, topic)
    except AdminError as error:
        return error.status
    return HTTPStatus.OK


def _hosts(ctx: Context, namespace: str) -> set[str]:
    """Brokers of the bundles of a namespace, each looked up."""
    return {host_of(ctx, name) for name in names_in(namespace, list(itertools.pairwise(even(BUNDLES))))}


def _served(ctx: Context, namespace: str) -> set[str]:
    try:
        return _hosts(ctx, namespace)
    except AdminError:
        return set()


def _if(found: set[str], expected: set[str]) -> set[str]:
    return found if found == expected else set()


def _listed(hosts: set[str]) -> str:
    return ", ".join(sorted(hosts)) or "no broker"
