"""Balancing at length, area ``balance``: from recorded traffic, beside Pulsar's own shedder, Pulsar's own promises."""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import Any
from zlib import crc32

import pytest

from e2e.conftest import Deployed
from e2e.support.changes import answers, patch_cluster
from e2e.support.evening import Evened, approve, even_out, left_to, left_to_pulsar, rebalance, refreshed, wait_for
from e2e.support.eventually import eventually
from e2e.support.moves import Moves
from e2e.support.recording import Recording, recording
from e2e.support.rolling import even
from e2e.support.shedders import BEFORE, PULSARS_OWN, SHEDDERS, TUNED
from e2e.support.skew import BOUNDS, NAMESPACE, Attempt, Brokers, imbalance, rates_of, skew, span, table
from e2e.support.traffic import Traffic
from e2e.support.worked_example import worked_example
from pulsar_conformance.catalogue import all_checks, all_mutations
from pulsar_conformance.context import Instance
from pulsar_conformance.model import Check, Status
from pulsar_conformance.mutate import try_mutations
from pulsar_conformance.report import line
from pulsar_conformance.runner import Target, instance, run_checks
from pulsar_conformance.skips import EXPECTED_SKIPS

SHEDDING_SECONDS = 60
"""Pulsar's default loadBalancerSheddingIntervalMinutes."""


@pytest.fixture
def skewed(brokers: Brokers) -> Iterator[list[str]]:
    """Topics of a namespace whose traffic will all be on one broker."""
    with skew(brokers) as topics:
        yield topics


@pytest.fixture(scope="module")
def evened(deployed: Deployed, brokers: Brokers) -> Evened:
    """A PulsarRebalance, proposed, approved, carried out and measured under traffic."""
    return even_out(brokers, deployed.service_url)


@pytest.fixture(autouse=True)
def no_rebalance_left(deployed: Deployed) -> Iterator[None]:
    """Each test's PulsarRebalances end with it."""
    yield
    deployed.kubectl.run("delete", "prb", "--all", "-n", deployed.namespace)


@pytest.mark.balance(2)
def test_not_worse_than_pulsars_default_shedder(
    deployed: Deployed, brokers: Brokers, evened: Evened, capsys: pytest.CaptureFixture[str]
) -> None:
    """As long as the operator worked and two shedding intervals more; what Pulsar does is printed, not demanded."""
    seconds = evened.attempt.seconds + 2 * SHEDDING_SECONDS
    pulsars, report = left_to_pulsar(brokers, deployed.service_url, "Pulsar, defaults", PULSARS_OWN, seconds)
    compare(evened, [pulsars], capsys)
    assert report.failures() == [], report.text()


@pytest.mark.balance(2)
def test_not_worse_than_pulsars_shedder_when_tuned(
    deployed: Deployed, brokers: Brokers, evened: Evened, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same for four shedding intervals, with settings under which the shedder sees the traffic of a test."""
    pulsars, report = left_to_pulsar(
        brokers, deployed.service_url, "Pulsar, tuned", PULSARS_OWN | TUNED, 4 * SHEDDING_SECONDS
    )
    compare(evened, [pulsars], capsys)
    assert report.failures() == [], report.text()


def compare(evened: Evened, others: list[Attempt], capsys: pytest.CaptureFixture[str]) -> None:
    """Print all side by side; the operator's end is not worse than any other."""
    with capsys.disabled():
        print(f"\n{table(float(evened.proposal['before']['bound']), [evened.attempt, *others])}")
    assert [one for one in others if one.measured < evened.attempt.measured - 0.05] == []


@pytest.mark.balance(8)
def test_the_worked_example_is_given_to_pulsar_and_to_the_operator(
    deployed: Deployed, brokers: Brokers, capsys: pytest.CaptureFixture[str]
) -> None:
    """What Pulsar's shedder does is printed, not demanded. The operator's proposal moves bundles and evens it out, and
    so does its driver at its defaults."""
    start = worked_example()
    url = deployed.service_url
    pulsars, pulsars_report = left_to_pulsar(
        brokers, url, "Pulsar, tuned", {**TUNED, "loadBalancerSheddingEnabled": "true"}, 5 * SHEDDING_SECONDS, start
    )
    proposed = even_out(brokers, url, start)
    driver, driver_report = left_to(
        brokers, url, "operator (driver)", operator_balances(deployed), DRIVER_SECONDS, start
    )
    with capsys.disabled():
        print(f"\n{table(float(proposed.proposal['before']['bound']), [pulsars, proposed.attempt, driver])}")
    for report in (pulsars_report, proposed.report, driver_report):
        assert report.failures() == [], report.text()
    assert proposed.attempt.measured < 1.15
    assert driver.measured < 1.15
    assert [one for one in (proposed.attempt, driver) if pulsars.measured < one.measured - 0.05] == []


DRIVER_SECONDS = 15 * 60
"""For the driver at its defaults, which looks, waits and moves a little at a time."""
SPLITTING = {
    "loadBalancerAutoBundleSplitEnabled": "true",
    "loadBalancerNamespaceBundleMaxSessions": "100",
    "loadBalancerNamespaceBundleMaxTopics": "20",
    "loadBalancerNamespaceBundleMaxMsgRate": "100",
    "loadBalancerNamespaceBundleMaxBandwidthMbytes": "1",
}
GROUPS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "splitting": (
        (
            "rebalancing.even_bundles",
            "rebalancing.worked_example",
            "rebalancing.split_by_bandwidth",
            "rebalancing.split_by_rate",
            "rebalancing.split_by_threshold",
            "rebalancing.split_by_topics",
            "isolation.primary",
        ),
        SPLITTING,
    ),
    "scaling": (("rebalancing.scale_out",), {}),
    "shedding": (("rebalancing.shedding",), PULSARS_OWN | TUNED),
}
"""Checks of the conformance suite that need several brokers, and the settings changed while they run."""
CONFORMANCE = [pytest.param(*group, id=key) for key, group in GROUPS.items()]


@pytest.fixture
def several(
    deployed: Deployed, brokers: Brokers, names: Sequence[str], settings: Mapping[str, str], tmp_path: Path
) -> Iterator[tuple[Instance, list[Check]]]:
    """The cluster with such settings, and leave to change the number of brokers; the checks."""

    def scale(replicas: int) -> None:
        deployed.kubectl.run("scale", "pulsarcluster", "east", "-n", deployed.namespace, f"--replicas={replicas}")

    target = Target(deployed.service_url, deployed.admin_url, client_log=str(tmp_path / "client.log"), scale=scale)
    checks = [check for check in all_checks() if check.id in names]
    with brokers.dynamic(settings), instance(target, None) as there:
        yield there, checks


@pytest.mark.balance(3)
def test_no_check_of_several_brokers_is_left_out() -> None:
    here = {name for names, _settings in GROUPS.values() for name in names}
    wanted = f"e2e/tests/{Path(__file__).name}::{test_promises_that_need_several_brokers.__name__}"
    assert here == {name for name, skip in EXPECTED_SKIPS.items() if skip.elsewhere == wanted}


@pytest.mark.balance(3)
@pytest.mark.parametrize(("names", "settings"), CONFORMANCE)
def test_promises_that_need_several_brokers(
    several: tuple[Instance, list[Check]], names: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        outcomes = run_checks(*several, on_outcome=lambda outcome: print(f"\n{line(outcome)}", flush=True))
    assert len(outcomes) == len(names)
    assert [(o.check.id, o.text) for o in outcomes if o.status is not Status.PASSED] == []


SLICES = {"splitting": pytest.mark.balance(4), "scaling": pytest.mark.balance(4), "shedding": pytest.mark.balance(5)}
MUTATED = [pytest.param(*group, id=key, marks=SLICES[key]) for key, group in GROUPS.items()]


@pytest.mark.parametrize(("names", "settings"), MUTATED)
def test_broken_promises_that_need_several_brokers_are_seen(
    several: tuple[Instance, list[Check]], names: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    # Side by side, scaling and shedding would get into each other's way.
    with capsys.disabled():
        verdicts = try_mutations(*several, all_mutations(), workers=4 if len(names) > 1 else 1)
    assert {verdict.mutation.check for verdict in verdicts} == {check.id for check in several[1]}
    assert [verdict.line() for verdict in verdicts if not verdict.caught] == []


BY_SHEDDER = {"overloaded": pytest.mark.balance(9), "extensible": pytest.mark.balance(10)}


@pytest.fixture
def rolled(deployed: Deployed, brokers: Brokers, declared: Mapping[str, Any]) -> Iterator[None]:
    """Brokers with what is declared, and as they were at the end."""
    try:
        patch_cluster(deployed.kubectl, deployed.namespace, "east", declared)
        answers(deployed.admin_url)
        yield
    finally:
        patch_cluster(deployed.kubectl, deployed.namespace, "east", BEFORE)
        answers(deployed.admin_url)


@pytest.mark.parametrize(
    ("names", "declared", "settings"),
    [
        pytest.param((name,), declared, settings, id=key, marks=BY_SHEDDER[key])
        for key, (name, declared, settings) in SHEDDERS.items()
    ],
)
def test_shedding_by_what_is_not_the_default(
    rolled: None, several: tuple[Instance, list[Check]], capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        outcomes = run_checks(*several, on_outcome=lambda outcome: print(f"\n{line(outcome)}", flush=True))
        verdicts = try_mutations(*several, all_mutations(), workers=1)
    assert [(o.check.id, o.text) for o in outcomes if o.status is not Status.PASSED] == []
    assert {verdict.mutation.check for verdict in verdicts} == {check.id for check in several[1]}
    assert [verdict.line() for verdict in verdicts if not verdict.caught] == []


EXECUTORS = {
    "sizing.job.master": "k8s://https://kubernetes.default.svc",
    "sizing.job.conf.spark\\.executor\\.instances": "1",
    "sizing.job.executors.memory": "512m",
    "sizing.job.executors.memoryOverhead": "384m",
    "sizing.job.conf.spark\\.kubernetes\\.executor\\.request\\.cores": "100m",
}
"""One executor in a pod of its own, small enough for a machine that runs everything else as well."""


@pytest.fixture(params=[pytest.param({}, id="local"), pytest.param(EXECUTORS, id="executors")])
def recorded(deployed: Deployed, request: pytest.FixtureRequest) -> Iterator[tuple[Recording, bool]]:
    """A collector and a job; whether the job has executors."""
    with recording(deployed.kubectl, deployed.helm, deployed.namespace, request.param) as found:
        yield found, bool(request.param)


@pytest.mark.balance(1)
def test_a_proposal_from_the_files_of_the_collector(
    deployed: Deployed, skewed: list[str], recorded: tuple[Recording, bool], capsys: pytest.CaptureFixture[str]
) -> None:
    """Recorded from these brokers, sized by Spark, proposed, executed; nothing else knows the traffic."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    collector, executors = recorded
    with Traffic(deployed.service_url, rates_of(skewed)) as traffic:
        collector.sampled(6 * len(skewed))
        sized: list[str] = []

        def proposed() -> dict[str, Any]:
            # The first samples may be from before the rates were there: the job runs until it saw the hot broker.
            name = f"size-{len(sized)}"
            sized.append(name)
            collector.size(name)
            budget = {"maxTrafficMovedPercent": 100, "movesPerMinute": 60}
            rebalance(kubectl, namespace, "sized", trafficSource="Recorded", budget=budget)
            found = refreshed(kubectl, namespace, "sized", within=30)
            assert float(found["status"]["proposal"]["before"]["imbalance"]) > 2.2, found["status"]["proposal"]
            return found

        proposal = eventually(proposed, within=420, what="a proposal from the sizing result")["status"]["proposal"]
        approve(kubectl, namespace, "sized", proposal)
        done = wait_for(kubectl, namespace, "sized", "Completed", within=240)
        log = kubectl.run("logs", f"job/{sized[-1]}", "-n", namespace)
    with capsys.disabled():
        print(f"\n{log[-3000:]}\n{kubectl.run('get', 'prb', '-n', namespace)}")
        print(f"before {proposal['before']}, promised {proposal['after']}, measured {done['status']['measured']}")
    assert traffic.failures() == []
    ran = {e["involvedObject"]["name"] for e in kubectl.items("events", namespace) if e["reason"] == "Started"}
    assert any("-exec-" in name for name in ran) is executors, ran
    before = float(proposal["before"]["imbalance"])
    assert float(done["status"]["measured"]["imbalance"]) < before / 1.6


CPUS = {"east-broker-0": 0.5, "east-broker-1": 1.0, "east-broker-2": 1.5}
"""What the brokers are declared to have: one StatefulSet makes equal pods."""
ROUNDS = 20
"""Proposals of the small budget, at most."""
SMALL_BUDGET = {"maxTrafficMovedPercent": 9}


@pytest.mark.balance(6)
def test_brokers_of_different_size_in_rounds_of_a_small_budget(
    deployed: Deployed, skewed: list[str], brokers: Brokers, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recorded, sized by Spark, evened out by small proposals: within 5 % of the best, with the job's cuts only."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    declared = {name: str(cpu) for name, cpu in CPUS.items()}
    patch_cluster(kubectl, namespace, "east", {"loadBalancing": {"capacities": declared}})
    published = sum(rates_of(skewed).values())
    rounds: list[dict[str, Any]] = []

    def settled() -> bool:
        """One more proposal, carried out; whether it had no steps."""
        assert len(rounds) < ROUNDS, f"still something to do: {[each['summary'] for each in rounds]}"
        name = f"round-{len(rounds)}"
        rebalance(
            kubectl,
            namespace,
            name,
            trafficSource="Recorded",
            tolerancePercent=2,
            autoApprove=True,
            budget=SMALL_BUDGET,
        )
        rounds.append(wait_for(kubectl, namespace, name, "Completed", within=240)["status"])
        return not rounds[-1]["progress"]["total"]

    with (
        recording(kubectl, deployed.helm, namespace) as collector,
        Traffic(deployed.service_url, rates_of(skewed)) as traffic,
    ):
        brokers.unevenness(published, within=120)
        collector.sampled(6 * len(skewed))
        collector.size("size-mixed")
        sized = collector.result()
        while not settled():
            pass
        loads = eventually(lambda: brokers.loads(published), within=60, what="rates of the whole traffic")
    used = {broker: load / CPUS[broker.partition(".")[0]] for broker, load in loads.items()}
    fair = sum(loads.values()) / sum(CPUS.values())
    made = {each["progress"]["total"] for each in rounds}
    bounds = {int(text, 16) for text in brokers.admin("GET", f"namespaces/{NAMESPACE}/bundles")["boundaries"]}
    wanted = {
        int(text, 16) for each in sized["namespaces"] if each["namespace"] == NAMESPACE for text in each["boundaries"]
    }
    with capsys.disabled():
        print(f"\n{kubectl.run('get', 'prb', '-n', namespace)}")
        print(f"busiest {max(used.values()) / fair:.3f} times the mean by CPU, {len(bounds - set(BOUNDS))} cuts")
        print(f"the job asked for {len(wanted)} boundaries, promised {sized['balance']}; steps of a round {made}")
    assert traffic.failures() == []
    assert bounds - set(BOUNDS) <= wanted, "cuts that the job did not ask for"
    best = float(rounds[-1]["proposal"]["before"]["bound"])
    assert max(used.values()) / fair <= 1.05 * best, (used, best)


NOISE_SECONDS = 20 * 60
REDRAWN_SECONDS = 10
SIGMA = 0.5
"""Of the noise: a topic's rate is log-normal about the same mean, so that one is often twice or half of another."""
BASE = 12.0
"""Messages a second of a topic, on average."""
BUSY = 5.0
"""Times as much as before, at one broker, for what is no noise."""


@pytest.mark.balance(7)
def test_noise_moves_nothing_and_a_busy_broker_is_relieved(
    deployed: Deployed, brokers: Brokers, capsys: pytest.CaptureFixture[str]
) -> None:
    """The operator balances at its defaults: nothing moves in twenty minutes of noise, and then it is seen to move."""
    draw = random.Random(17)
    with even(brokers) as topics, Traffic(deployed.service_url, dict.fromkeys(topics, BASE)) as traffic:
        brokers.unevenness(BASE * len(topics), within=120)
        with Moves(brokers) as moves, operator_balances(deployed):
            seen: list[float] = []
            end = time.monotonic() + NOISE_SECONDS
            while time.monotonic() < end:
                noise = {t: BASE * draw.lognormvariate(-SIGMA * SIGMA / 2, SIGMA) for t in topics}
                traffic.change(noise)
                time.sleep(REDRAWN_SECONDS)
                seen.append(imbalance({b: load for b, (load, _) in brokers.rates().items()}))
                assert traffic.failures() == [], f"after {len(seen)} looks, the last {seen[-5:]}"
            moves.caught_up()
            moved = dict(moves.by_bundle)
            bounds = brokers.admin("GET", f"namespaces/{NAMESPACE}/bundles")["boundaries"]
            shown = deployed.kubectl.run("get", "prb", "-n", deployed.namespace)
            hot = eventually(lambda: brokers.owned(brokers.ids[0]), within=30, what="bundles of the first broker")
            begin = time.monotonic()
            traffic.change({t: BASE * (BUSY if bundle_of(t) in hot else 1) for t in topics})
            eventually(lambda: sum(moves.by_bundle.values()), within=900, what="a move off the busy broker", every=5)
            acted = time.monotonic() - begin
    with capsys.disabled():
        print(f"\n{len(seen)} looks: busiest over mean {min(seen):.2f} to {max(seen):.2f}, {mean(seen):.2f} on average")
        print(f"moves in {NOISE_SECONDS / 60:.0f} minutes of noise: {sum(moved.values())}\n{shown}")
        print(f"broker with {BUSY:.0f} times the traffic relieved after {acted:.0f} s")
    assert max(seen) > 1.1, "that was no noise"
    assert moved == dict.fromkeys(moved, 0)
    assert len(bounds) == len(BOUNDS), "a bundle was cut"
    assert traffic.failures() == []


def bundle_of(topic: str) -> str:
    """The bundle of a topic of the even namespace, as brokers write it."""
    index = bisect_right(BOUNDS, crc32(topic.encode())) - 1
    return f"{NAMESPACE}/{span(index)}"


@contextmanager
def operator_balances(deployed: Deployed) -> Iterator[None]:
    """All the time, at its defaults, and not any more."""
    patch_cluster(deployed.kubectl, deployed.namespace, "east", {"loadBalancing": {"driver": "Operator"}})
    try:
        yield
    finally:
        patch_cluster(deployed.kubectl, deployed.namespace, "east", {"loadBalancing": {"driver": "Pulsar"}})
