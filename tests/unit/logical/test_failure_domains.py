"""PulsarIsolationPolicy through its controller: the failure domains of each cluster."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.ports import RefusedError
from tests.support.logical.isolation import PIP, B, domain, world
from tests.support.logical.world import LogicalWorld


async def test_failure_domains_without_an_isolation_policy() -> None:
    w = await world("a", failureDomains=[domain("x", B[0], B[1]), domain("y", B[2])], deletionPolicy="Delete")
    assert w.pulsar.domains["a"] == {"x": B[:2], "y": [B[2]]}
    assert w.condition(PIP, "i")[:2] == ("True", "Ready")
    assert w.pulsar.isolation == {}
    assert await w.second_pass_writes() == ([], [])
    w.pulsar.domains["a"]["foreign"] = [B[3]]
    w.isolation(failureDomains=[domain("x", B[0])], deletionPolicy="Delete")
    await w.run()
    assert w.pulsar.domains["a"] == {"x": [B[0]], "foreign": [B[3]]}
    w.delete(PIP, "i")
    await w.run()
    assert w.pulsar.domains["a"] == {"foreign": [B[3]]}
    assert w.get(PIP, "i") is None


@pytest.mark.parametrize(
    "wanted",
    [[("x", [1]), ("y", [0])], [("x", [1, 0]), ("y", [2])], [("x", [2]), ("y", [0]), ("z", [1])], [("z", [0, 1])]],
    ids=["swap", "move", "ring", "one-for-all"],
)
async def test_brokers_change_places(wanted: list[tuple[str, list[int]]]) -> None:
    """Pulsar refuses a broker that is in another domain still; nothing is ever refused here."""
    w = await world("a", failureDomains=[domain("x", B[0]), domain("y", B[1])])
    w.isolation(failureDomains=[domain(name, *(B[n] for n in sorted(numbers))) for name, numbers in wanted])
    await w.run()
    assert w.pulsar.domains["a"] == {name: [B[n] for n in sorted(numbers)] for name, numbers in wanted}
    assert w.condition(PIP, "i")[0] == "True"
    assert "RejectedByPulsar" not in w.reasons(PIP)


@pytest.mark.parametrize("policy", ["Repair", "Report"])
@pytest.mark.parametrize(
    "wanted", [[("x", [2]), ("z", [0])], [("x", [2]), ("y", [0, 1])]], ids=["a new domain", "a domain that grows"]
)
async def test_a_domain_that_waits_for_a_refused_one_is_not_applied(
    policy: str, wanted: list[tuple[str, list[int]]]
) -> None:
    w = await world("a", failureDomains=[domain("x", B[0]), domain("y", B[1])], driftPolicy=policy)
    declared = [domain(name, *(B[n] for n in numbers)) for name, numbers in wanted]
    w.isolation(failureDomains=declared, driftPolicy=policy)

    def refuse(call: Any) -> None:
        if call.method == "POST" and call.path[-1] == "x":
            raise RefusedError("HTTP 412: not now", status=412)

    w.admin.before.append(refuse)
    await w.run()
    waiting = f"failureDomains[{wanted[1][0]}]"
    assert w.status(PIP, "i")["refusedFields"] == ["failureDomains[x]", waiting]
    assert w.pulsar.domains["a"]["x"] == [B[0]]
    w.admin.before.clear()
    await w.run()
    assert w.pulsar.domains["a"] == {name: [B[n] for n in numbers] for name, numbers in wanted}
    assert w.condition(PIP, "i")[0] == "True"
    status = w.status(PIP, "i")
    assert not status.get("repairs") and not status.get("refusedFields")
    assert "DriftRepaired" not in w.reasons(PIP)


async def test_a_broker_of_a_foreign_domain_is_reported_and_the_rest_is_done() -> None:
    w = LogicalWorld("a")
    w.pulsar.domains["a"] = {"foreign": [B[0]]}
    w.isolation(failureDomains=[domain("x", B[0], B[1])])
    await w.run()
    assert w.pulsar.domains["a"] == {"foreign": [B[0]], "x": [B[1]]}
    status, reason, message = w.condition(PIP, "i", "Accepted")
    assert (status, reason) == ("False", "InvalidSpec")
    assert B[0] in message and "failure domain foreign" in message
    assert await w.second_pass_writes() == ([], [])


async def test_two_objects_do_not_fight_over_a_failure_domain() -> None:
    w = await world("a", failureDomains=[domain("x", B[0])])
    w.isolation("later", failureDomains=[domain("x", B[1]), domain("y", B[2])], deletionPolicy="Delete")
    await w.run()
    assert w.pulsar.domains["a"] == {"x": [B[0]], "y": [B[2]]}
    status, reason, message = w.condition(PIP, "later", "Accepted")
    assert (status, reason) == ("False", "Duplicate") and "apps/i" in message
    assert w.condition(PIP, "i")[0] == "True"
    assert ((await w.reconcile(PIP, "later")).requeue_after or 61) <= 60
    w.delete(PIP, "later")
    await w.run()
    assert w.pulsar.domains["a"] == {"x": [B[0]]}, "only what it managed goes"


async def test_a_failure_domain_becomes_free() -> None:
    w = await world("a", failureDomains=[domain("x", B[0])])
    w.isolation("later", failureDomains=[domain("x", B[1])])
    await w.run()
    w.delete(PIP, "i")
    await w.run()
    assert w.pulsar.domains["a"] == {"x": [B[1]]}
    assert w.condition(PIP, "later")[0] == "True"
