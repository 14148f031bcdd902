"""Loads of brokers for people: bounded, aligned, short names, the busiest and the idlest."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.v1alpha1.rebalance import PulsarRebalanceStatus
from pulsar_operator.balance.execution.custom_resource import proposal_status
from pulsar_operator.balance.execution.table import WIDEST, load_table
from pulsar_operator.balance.planner.brokers import broker_loads, sums_of
from pulsar_operator.balance.planner.options import Options
from pulsar_operator.balance.planner.outcome import balance_of
from pulsar_operator.balance.planner.plan import plan
from pulsar_operator.balance.planner.proposal import BrokerLoad
from tests.support.balancing.planning import cluster, clusters

TAIL = ".east-broker.pulsar.svc.cluster.local:8080"


def loads(count: int) -> list[BrokerLoad]:
    """Brokers of ever less load."""
    return [BrokerLoad(f"east-broker-{n}{TAIL}", (2.0 - n / count, 1.0), (10, 9), (100 + n, 90)) for n in range(count)]


def test_few_brokers_are_all_shown() -> None:
    assert load_table(loads(2)) == [
        "BROKER         LOAD          BUNDLES   CLIENTS",
        "east-broker-0  2.00 -> 1.00  10 -> 9   100 -> 90",
        "east-broker-1  1.50 -> 1.00  10 -> 9   101 -> 90",
        "(all 2)        1.75 -> 1.00  20 -> 18  201 -> 180",
    ]
    assert load_table([]) == []
    assert "CLIENTS" not in load_table(loads(2), clients=False)[0]
    assert load_table(loads(2), planned=False)[1] == "east-broker-0  2.00  10       100"


def test_of_many_brokers_the_busiest_and_the_idlest_are_shown() -> None:
    table = load_table(loads(200))
    names = [line.split("  ")[0].strip() for line in table[1:]]
    assert names[:10] == [f"east-broker-{n}" for n in range(10)]
    assert names[10] == "(180 between)" and "1800 -> 1620" in table[11]
    assert names[11:21] == [f"east-broker-{n}" for n in range(190, 200)]
    assert names[21:] == ["(all 200)"] and "2000 -> 1800" in table[-1]
    assert len(load_table(loads(200), most=None)) == 202


@given(
    st.lists(st.text("abc-.", min_size=1, max_size=250), max_size=60, unique=True),
    st.integers(0, 1 << 40),
    st.floats(0, 1e9),
)
def test_a_table_fits_in_the_status_whatever_the_brokers_are_called(names: list[str], many: int, load: float) -> None:
    rows = [BrokerLoad(f"{name}:8080", (load, load), (many, many), (many, many)) for name in names]
    table = load_table(rows)
    assert len(table) <= 24 and all(len(line) <= WIDEST for line in table)
    fields = PulsarRebalanceStatus.model_fields["measured_brokers"]
    assert fields is not None
    PulsarRebalanceStatus.model_validate({"measuredBrokers": table, "conditions": []})


def test_the_table_of_a_proposal_holds_what_the_plan_promises() -> None:
    model = cluster({f"b{n}{TAIL}": [float(n + 1)] * 6 for n in range(5)})
    proposal = plan(model, Options())
    status = proposal_status(proposal, "id", "2026-01-01T00:00:00Z", 90.0, None)
    shown = [line.split()[1:4] for line in status.brokers[1:-1]]
    before, after = ([float(line[n]) for line in shown] for n in (0, 2))
    assert max(before) == float(status.before.imbalance if status.before else 0)
    assert max(after) == float(status.after.imbalance if status.after else 0)
    assert before == sorted(before, reverse=True) and len(status.brokers) == 7


@given(clusters())
def test_what_a_broker_loses_another_one_gets(model: object) -> None:
    proposal = plan(model, Options())  # type: ignore[arg-type]
    for name in ("bundles", "clients"):
        pairs = [getattr(each, name) for each in proposal.brokers]
        cuts = len(proposal.splits) if name == "bundles" else 0
        assert sum(pair[1] - pair[0] for pair in pairs) == cuts
    assert all(first.load[0] >= second.load[0] for first, second in pairwise(proposal.brokers))
    sums = sums_of(model)  # type: ignore[arg-type]
    found = broker_loads(model, sums, sums, balance_of(model).mean)  # type: ignore[arg-type]
    assert [each.load[0] for each in found] == [each.load[1] for each in found]
