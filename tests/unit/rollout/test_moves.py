"""Changes of owners counted from brokers' logs: the lines as Pulsar 4.0.8 wrote them, followed over pods that end."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from e2e.support import eventually as waiting
from e2e.support import podlog
from e2e.support.eventually import eventually
from e2e.support.kubectl import KubectlError
from e2e.support.moves import Change, Moves, Step, change_of, histories, side_by_side, steps_of, unseen
from e2e.support.podlog import Line, PodLog, read
from e2e.support.skew import NAMESPACE, Brokers

FIRST, SECOND = "shop/skew/0x2aaaaaaa_0x40000000", "shop/skew/0x40000000_0x55555555"
IDS = [f"east-broker-{n}.east-broker-headless.pulsar.svc:8080" for n in range(3)]
B0, B1, B2 = IDS
CLASSES = "org.apache.pulsar.broker.namespace"

QUIET = [
    "2026-11-23T08:26:41,435+0000 [pulsar-web-49-4] INFO  org.apache.pulsar.broker.admin.impl.NamespacesBase - [null] "
    "Unloading namespace bundle shop/skew/0x2aaaaaaa_0x40000000",
    f"2026-11-23T08:26:41,442+0000 [pulsar-web-49-4] INFO  {CLASSES}.OwnedBundle - Disabling ownership: {FIRST}",
    "2026-11-23T08:26:41,447+0000 [pulsar-web-49-4] INFO  org.apache.pulsar.broker.service.BrokerService - "
    "[persistent://shop/skew/c29] Unloading topic",
    "2026-11-23T08:26:41,579+0000 [pulsar-io-18-4] INFO  org.apache.pulsar.broker.lookup.TopicLookupBase - Failed to "
    f"lookup null for topic persistent://shop/skew/c29 with error Namespace bundle {FIRST} is being unloaded",
    f"2026-11-23T08:26:41,620+0000 [BookKeeperClientWorker-OrderedExecutor-1-0] INFO  {CLASSES}.OwnershipCache - "
    "Resource lock for /namespace/shop/skew/0x2aaaaaaa_0x40000000 has expired",
    f"2026-11-23T08:26:41,742+0000 [pulsar-17-1] INFO  {CLASSES}.OwnershipCache - Trying to acquire ownership of "
    f"{FIRST}",
    "2026-11-23T08:26:41,640+0000 [BookKeeperClientWorker-OrderedExecutor-1-0] INFO  "
    "org.apache.pulsar.broker.admin.v2.Namespaces - [null] Successfully unloaded namespace bundle "
    "0x2aaaaaaa_0x40000000",
    "2026-11-23T08:26:41,670+0000 [BookKeeperClientWorker-OrderedExecutor-1-0] INFO  "
    "org.eclipse.jetty.server.RequestLog - 127.0.0.1 - - [23/Nov/2026:08:26:41 +0000] "
    f'"PUT /admin/v2/namespaces/{FIRST}/unload HTTP/1.1" 204 0 "-" "Python-urllib/3.11" 241',
    "",
]
"""Lines around a change of owner that are none."""


def gained(bundle: str) -> str:
    return (
        f"2026-11-23T08:26:41,798+0000 [pulsar-17-1] INFO  {CLASSES}.OwnershipCache - Successfully acquired ownership "
        f"of OwnedBundle(bundle={bundle}, isActive=1)"
    )


def released(bundle: str) -> str:
    return (
        f"2026-11-23T08:26:41,640+0000 [BookKeeperClientWorker-OrderedExecutor-1-0] INFO  {CLASSES}.OwnedBundle - "
        f"Unloading {bundle} namespace-bundle with 1 topics completed in 197.0 ms"
    )


def test_lines_of_pulsar_are_read() -> None:
    assert change_of(Line(5, gained(FIRST)), B0) == Change(5, FIRST, B0, True)
    assert change_of(Line(6, released(FIRST)), B0) == Change(6, FIRST, B0, False)
    assert [line for line in QUIET if change_of(Line(1, line), B0)] == []


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        ("1970-01-01T00:00:02.000000003Z a  b\n", Line(2_000_000_003, "a  b")),
        ("1970-01-01T00:00:02.5Z", Line(2_500_000_000, "")),
        ("1970-01-01T00:00:02Z x", Line(2_000_000_000, "x")),
        ("Defaulted container broker out of: broker, init", None),
        ("error: container broker in pod east-broker-0 is waiting to start: ContainerCreating", None),
        ("", None),
        ("2026-13-01T00:00:00.1Z x", None),
        ("2026-01-01T00:00:00.Z x", None),
    ],
)
def test_times_of_kubernetes_are_read_to_the_nanosecond(raw: str, line: Line | None) -> None:
    assert read(raw) == line


def test_every_owner_counts_also_one_that_comes_back() -> None:
    changes = [
        Change(9, FIRST, B0, True),
        Change(3, FIRST, B1, True),  # read later than it was written: another pod's log
        Change(2, FIRST, B0, False),
        Change(5, SECOND, B2, True),
        Change(6, "shop/skew/new", B2, True),
    ]
    assert histories({FIRST: B0, SECOND: B2}, changes) == {
        FIRST: [B0, B1, B0],
        SECOND: [B2, B2],
        "shop/skew/new": [B2],
    }


def test_a_broker_that_lets_go_what_it_never_took_tells_of_a_missed_line() -> None:
    handed = [Change(4, FIRST, B1, True), Change(5, FIRST, B0, False), Change(6, FIRST, B1, False)]
    assert unseen({FIRST: B0}, handed) == []
    assert unseen({FIRST: B0}, handed[1:]) == [f"{B1} let {FIRST} go and was not seen to take it"]


def event(name: str, message: str, *, reason: str = "StepDone", count: int | None = 1) -> dict[str, Any]:
    return {"involvedObject": {"name": name}, "reason": reason, "message": message, "count": count}


def test_steps_of_drains_and_fills_are_read_from_events() -> None:
    move = f"Step 1 of 4: move {FIRST} from {B0} to {B1}"
    found = steps_of(
        [
            event("east-drain-0-ab12c", move),
            event("east-drain-0-ab12c", f"Step 1 of 2: move {FIRST} from nobody to {B1} (it was on its way)", count=2),
            event("east-fill-2", f"Step 2 of 2: move {SECOND} from {B0} to {B2}", count=None),
            event("east-fill-2", "Step 1 of 2: split shop/skew/0x0_0x2 at 0x00000001"),
            event("even", move),
            event("east-drain-0-ab12c", move, reason="Applied"),
        ]
    )
    assert found == {Step("east-drain-0-ab12c", FIRST): 3, Step("east-fill-2", SECOND): 1}


def test_both_sources_stand_side_by_side() -> None:
    steps = Counter({Step("east-drain-0-ab12c", FIRST): 1, Step("east-fill-2", "shop/skew/0x0_0x1"): 2})
    owners = {FIRST: [B0, B1, B1], SECOND: [B2]}
    text = side_by_side(owners, {FIRST: 2, SECOND: 0}, steps, [("east-broker-0", 7), ("east-broker-1", 0)])
    assert text.splitlines() == [
        "bundle                           by Pulsar's log  by the operator's steps  owners",
        "shop/skew/0x0_0x1                              0                        2  ",
        "shop/skew/0x2aaaaaaa_0x40000000                2                        1  east-broker-0 > east-broker-1 > "
        "east-broker-1",
        "shop/skew/0x40000000_0x55555555                0                        0  east-broker-2",
        "all                                            2                        3",
        "1 steps of east-drain-0-ab12c",
        "2 steps of east-fill-2",
        "lines read: east-broker-0 7, east-broker-1 0",
    ]


class Stream:
    """A running ``kubectl logs -f``: gives lines until it is ended."""

    def __init__(self, lines: list[str]) -> None:
        self.lines: queue.Queue[str | None] = queue.Queue()
        for line in lines:
            self.lines.put(line)

    @property
    def stdout(self) -> Iterator[str]:
        while (line := self.lines.get()) is not None:
            yield line

    def terminate(self) -> None:
        self.lines.put(None)

    def wait(self, timeout: float) -> None:
        """It ends at once."""


class Pods:
    """kubectl in front of pods that write logs and end."""

    def __init__(self) -> None:
        self.written: dict[str, list[str]] = {}
        self.streams: dict[str, list[Stream]] = {}
        self.asked: list[tuple[str, ...]] = []
        self.events: list[dict[str, Any]] = []
        self.clock = 0
        self.lock = threading.Lock()

    def write(self, pod: str, text: str) -> None:
        """A line of the pod's log, a nanosecond after the one before; all streams get it."""
        with self.lock:
            self.clock += 1
            line = f"2026-11-23T08:26:41.{self.clock:09}Z {text}\n"
            self.written.setdefault(pod, []).append(line)
            for stream in self.streams.get(pod, []):
                stream.lines.put(line)

    def end(self, pod: str, *, gone: bool = True) -> None:
        """All streams break; with the pod its log goes."""
        with self.lock:
            if gone:
                self.written[pod] = []
            for stream in self.streams.pop(pod, []):
                stream.terminate()

    def run(self, *args: str) -> str:
        """The last line."""
        assert args[:5] == ("logs", "-n", "pulsar", "--timestamps", "--tail=1"), args
        return "".join(self.written.get(args[5], [])[-1:])

    def popen(self, *args: str) -> Stream:
        """The whole log again: since a whole second, in which all of it was written."""
        assert args[:5] == ("logs", "-n", "pulsar", "-f", "--timestamps"), args
        with self.lock:
            self.asked.append(args)
            stream = Stream(["Defaulted container\n", *self.written.get(args[6], [])])
            self.streams.setdefault(args[6], []).append(stream)
            return stream

    def items(self, kind: str, namespace: str) -> list[dict[str, Any]]:
        assert (kind, namespace) == ("events", "pulsar")
        return self.events


class Three:
    """Three brokers and who owns what by their own words."""

    def __init__(self) -> None:
        self.kubectl = Pods()
        self.kubernetes_namespace = "pulsar"
        self.ids = IDS
        self.owned: dict[str, str] = {FIRST: B0, SECOND: B1}
        self.refusals = 0

    def owners(self, namespace: str = NAMESPACE) -> Mapping[str, str]:
        if self.refusals:
            self.refusals -= 1
            raise KubectlError("500")
        return dict(self.owned)


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> Three:
    monkeypatch.setattr(podlog, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr("e2e.support.moves.eventually", lambda probe, **o: eventually(probe, **{**o, "every": 0.01}))
    brokers = Three()
    for pod in range(3):
        # What was before is not counted.
        brokers.kubectl.write(f"east-broker-{pod}", gained(FIRST))
    return brokers


def counting(three: Three) -> Moves:
    return Moves(cast(Brokers, three))


def test_moves_are_counted_over_brokers_that_are_replaced(three: Three) -> None:
    """Also one whose log has gone with its pod, and two between which nobody looked."""
    pods = three.kubectl
    with counting(three) as moves:
        pods.write("east-broker-0", released(FIRST))
        pods.write("east-broker-1", gained(FIRST))
        moves_of_others = "public/default/0x00000000_0x40000000"
        pods.write("east-broker-2", gained(moves_of_others))
        three.owned[FIRST] = B1
        moves.caught_up(within=20)
        assert (moves.by_bundle, moves.per_bundle()) == ({FIRST: 1, SECOND: 0}, 0.5)

        pods.end("east-broker-0")
        pods.write("east-broker-0", "a new process")
        pods.write("east-broker-1", released(FIRST))
        pods.write("east-broker-0", gained(FIRST))
        pods.write("east-broker-0", released(FIRST))
        pods.write("east-broker-2", gained(FIRST))
        three.owned[FIRST] = B2
        moves.caught_up(within=20)
        pods.end("east-broker-1")
        pods.write("east-broker-0", gained(SECOND))
        three.owned[SECOND], three.refusals = B0, 2
        moves.caught_up(within=20)
    assert moves.by_bundle == {FIRST: 3, SECOND: 1} and moves.per_bundle() == 2
    assert moves.owners == {FIRST: B2, SECOND: B0} and moves.counts() == [0, 1, 1]
    assert "east-broker-0 > east-broker-1 > east-broker-0 > east-broker-2" in moves.sources()


def test_a_connection_that_breaks_counts_nothing_twice(three: Three) -> None:
    pods = three.kubectl
    with counting(three) as moves:
        for owner in (B1, B2, B1):
            pods.write(owner.split(".")[0], gained(FIRST))
            three.owned[FIRST] = owner
            moves.caught_up(within=20)
            for pod in range(3):
                pods.end(f"east-broker-{pod}", gone=False)
            streams = len(pods.asked) + 3
            eventually(lambda least=streams: len(pods.asked) >= least, within=20, what="new streams", every=0.01)
    assert moves.by_bundle == {FIRST: 3, SECOND: 0}
    times = sorted(change.at for change in moves.changes)
    assert [moves.per_bundle(until) for until in (*times, times[-1] + 1)] == [0, 0.5, 1, 1.5], "what came before"
    assert {args[5] for args in pods.asked[:3]} == {f"--since-time=2026-11-23T08:26:41.{n:09}Z" for n in (1, 2, 3)}


def test_a_missed_line_is_found_by_the_owners(three: Three) -> None:
    with counting(three) as moves:
        three.owned[FIRST] = B1
        with pytest.raises(AssertionError, match=r"owner by the log and by the broker differ: .*0x2aaaaaaa_0x40000000"):
            moves.caught_up(within=0.05)


def test_a_missed_line_is_found_by_what_is_let_go(three: Three) -> None:
    with counting(three) as moves:
        for broker, line in ((2, released(FIRST)), (0, gained(FIRST))):
            three.kubectl.write(f"east-broker-{broker}", line)
        eventually(lambda: moves.by_bundle[FIRST] == 1, within=20, what="the last line", every=0.01)
        with pytest.raises(AssertionError, match=r"east-broker-2.* let shop/skew/0x2aaaaaaa_0x40000000 go and was not"):
            moves.caught_up(within=0.05)


def test_a_log_that_is_read_no_more_is_told(three: Three) -> None:
    def popen(*_: str) -> Stream:
        raise OSError("too many open files")

    three.kubectl.popen = popen  # type: ignore[method-assign]
    with counting(three) as moves, pytest.raises(AssertionError, match="is not read any more: OSError: too many"):
        eventually(lambda: moves._logs[0].error, within=20, what="the error", every=0.01)
        moves.caught_up(within=0.05)


def test_a_pod_without_a_log_is_refused(three: Three, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        podlog, "eventually", lambda probe, **o: waiting.eventually(probe, **{**o, "within": 0.01, "every": 0.01})
    )
    three.kubectl.written.clear()
    with pytest.raises(AssertionError, match="a line in the log of east-broker-0"), counting(three):
        pass


def test_steps_are_those_since_the_beginning(three: Three) -> None:
    move = f"Step 1 of 1: move {FIRST} from {B0} to {B1}"
    three.kubectl.events = [event("east-drain-0-ab12c", move, count=2)]
    with counting(three) as moves:
        three.kubectl.events = [event("east-drain-0-ab12c", move, count=3), event("east-fill-9", move)]
        assert moves.steps() == {Step("east-drain-0-ab12c", FIRST): 1, Step("east-fill-9", FIRST): 1}
        assert "1 steps of east-fill-9" in moves.sources()


def test_lines_of_one_stream_may_have_one_time() -> None:
    pods, seen = Pods(), []
    pods.write("p", "before")
    log = PodLog(cast(Any, pods), "pulsar", "p", lambda line: seen.append(line.text))
    log.start()
    eventually(lambda: pods.streams.get("p"), within=20, what="the stream", every=0.01)
    for _ in range(2):
        pods.streams["p"][0].lines.put("2026-11-23T08:26:42Z twice\n")
    eventually(lambda: log.lines == 2, within=20, what="both lines", every=0.01)
    log.stop()
    assert seen == ["twice", "twice"]
