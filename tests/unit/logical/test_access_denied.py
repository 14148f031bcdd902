"""A cluster that does not admit the operator: nothing is known of what it has, and the conditions say why."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import AccessError, AuthenticationError, AuthorizationError
from tests.fakes.admin import AdminCall
from tests.support.logical.topic_sets import count
from tests.support.logical.world import LogicalWorld

KINDS = [
    (Kind.TENANT, "t"),
    (Kind.NAMESPACE, "n"),
    (Kind.TOPIC, "x"),
    (Kind.RESOURCE_GROUP, "g"),
    (Kind.ISOLATION_POLICY, "i"),
]
DENIALS = [
    (AuthenticationError("The brokers refused the token. HTTP 401", status=401), "AuthenticationFailed"),
    (AuthorizationError("The role may not do this. HTTP 403", status=403), "AuthorizationFailed"),
]


def world() -> LogicalWorld:
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    w.topic(deletionPolicy="Delete")
    w.topics("s", **count(3))
    w.group()
    w.isolation(namespaces=["t/n"], primary=["a-broker-0.*"])
    return w


def deny(w: LogicalWorld, error: AccessError) -> None:
    def hook(call: AdminCall) -> None:
        raise error

    w.admin.before.append(hook)


@pytest.mark.parametrize(("error", "reason"), DENIALS, ids=["401", "403"])
async def test_every_kind_says_why_and_goes_on_once_it_is_admitted(error: AccessError, reason: str) -> None:
    w = world()
    await w.run()
    writes = list(w.admin.writes)
    deny(w, error)
    await w.run()
    for kind, name in KINDS:
        status, found, message = w.condition(kind, name)
        assert (status, found) == ("Unknown", reason), (kind, message)
        assert str(error) in message
    assert w.admin.writes == writes
    w.admin.before.clear()
    await w.run()
    assert {w.condition(kind, name)[0] for kind, name in KINDS} == {"True"}


async def test_a_deletion_waits_and_says_why() -> None:
    w = world()
    await w.run()
    deny(w, DENIALS[0][0])
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert w.condition(Kind.TOPIC, "x", "DeletionBlocked")[:2] == ("True", "AuthenticationFailed")
    assert w.get(Kind.TOPIC, "x") is not None
