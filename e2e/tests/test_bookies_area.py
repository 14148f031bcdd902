"""Bookies that leave and come back under ids that were there before, removals that are taken back at each step or
refused, full disks; and, as a control, what becomes of messages where topics are not unloaded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from e2e.conftest import Deployed
from e2e.support.admin import ask
from e2e.support.bookies import COPIES, Bookies
from e2e.support.changes import answers, patch_cluster
from e2e.support.eventually import eventually
from e2e.support.idletopic import IdleTopic, kept_for_ever, names_any, on_bookies
from e2e.support.watched import uids
from pulsar_conformance.counting import simple
from pulsar_conformance.counting.client import CountingRun

PAYMENTS = "persistent://shop/orders/payments"
FULL = "persistent://shop/orders/published-before-disks-were-full"
STEPS = ("ReadOnly", "Unloading", "Copying", "Verifying", "Stopping")
"""From ``Forgetting`` on it is too late to take a removal back."""
SURE = frozenset(STEPS[:-1])
"""Steps that last for a pass at least; ``Stopping`` ends with the next write."""
TRIES = 4
LOW = {"diskUsageThreshold": "0.01", "diskUsageWarnThreshold": "0.01"}
"""Any disk is fuller than that."""


def three(deployed: Deployed, *, brokers: int) -> Bookies:
    """Three bookies, two copies, so many brokers."""
    for change in (
        {"bookkeeper": {"replicas": 3, "ensemble": COPIES, "config": None}},
        {"broker": {"replicas": brokers}},
    ):
        patch_cluster(deployed.kubectl, deployed.namespace, "east", change)
    answers(deployed.admin_url)
    bookies = Bookies(deployed.kubectl, deployed.namespace)
    eventually(lambda: bookies.are(3), within=120, what="three bookies")
    return bookies


def resized(bookies: Bookies, number: int, *, within: float = 600) -> None:
    """As many bookies as asked for, all writable, nobody on the way out."""
    bookies.patch(replicas=number)
    eventually(lambda: bookies.are(number), within=within, what=f"{number} bookies", every=0.3)


@pytest.mark.bookies(4)
def test_bookies_whose_ids_return_empty_lose_nothing(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    """3 -> 5 -> 3 -> 5 -> 3 under traffic, with the case of apache/bookkeeper#4812: topics with an open ledger on both
    bookies that leave, used again only when both ids are back with empty volumes."""
    bookies, admin = three(deployed, brokers=2), deployed.admin_url
    others = uids(deployed.kubectl, deployed.namespace, "east")
    with kept_for_ever(admin, "shop/returned") as kept:
        published = simple.publish(deployed.service_url, f"{kept}/before", 200, prefix="before")
        client = simple.client(deployed.service_url)
        with CountingRun(deployed.service_url, PAYMENTS, rate=50, keys=8, send_timeout=60) as run:
            with run.operation("three bookies to five"):
                resized(bookies, 5)
            idle = on_bookies(client, admin, f"{kept}/both", lambda found: found == {3, 4}, 2)
            idle += on_bookies(client, admin, f"{kept}/one", lambda found: len(found & {3, 4}) == 1, 1)
            first = bookies.claims()
            with run.operation("five bookies to three"):
                resized(bookies, 3)
            with run.operation("three bookies to five, in the place of those that left"):
                resized(bookies, 5)
            second, ids = bookies.claims(), [bookies.id(ordinal) for ordinal in (3, 4)]
            for topic in idle:
                topic.use()
            idle += on_bookies(client, admin, f"{kept}/late", names_any({3, 4}), 1)
            with run.operation("five bookies to three again"):
                resized(bookies, 3)
            for topic in idle:
                topic.use()
            report = run.finish(drain_within=120)
        with capsys.disabled():
            print(f"\nsteps seen: {sorted(bookies.steps)}")
            print("\n".join(bookies.events("bookie-3") + bookies.events("bookie-4")))
            print(report.text())
        assert report.failures() == [], report.text()
        returned = [name for name in second if name.endswith(("bookie-3", "bookie-4"))]
        assert len(returned) == 4 and all(second[name] != first[name] for name in returned), "they came back empty"
        assert all(re.search(r"-[34]\.i[1-9]", each) for each in ids), f"under ids that nobody had: {ids}"
        for topic in idle:
            topic.check(deployed.service_url, admin)
        client.close()
        assert simple.consume(deployed.service_url, f"{kept}/before", "afterwards", len(published)) == published
    assert {"Unloading", "Copying"} <= bookies.steps
    assert uids(deployed.kubectl, deployed.namespace, "east") == others, "nobody else was replaced"
    with capsys.disabled():
        print(f"afterwards: {bookies.told('Replicated')}")
    eventually(lambda: bookies.told("Replicated")["status"] == "True", within=120, what="every copy is there")
    assert not bookies.events("DisksFull") + bookies.events("BookieReadOnly"), "read-only by the operator is no news"


def taken_back(bookies: Bookies, wanted: str) -> bool:
    """Ask for two bookies, and for three again once the step is seen; whether it was seen in time."""
    bookies.patch(replicas=2)

    def there() -> str:
        steps = [row["step"] for row in bookies.rows() if row.get("step")]
        late = bool(steps) and (steps[0] not in STEPS or STEPS.index(steps[0]) > STEPS.index(wanted))
        gone = not steps and bookies.name(2) not in bookies.pods()
        return "late" if late or gone else "now" if steps == [wanted] else ""

    found = eventually(there, within=180, what=f"a bookie at step {wanted}", every=0.05)
    bookies.patch(replicas=3)
    eventually(lambda: bookies.are(3), within=300, what="three bookies again", every=0.3)
    return found == "now"


@pytest.mark.bookies(5)
def test_a_removal_is_taken_back_at_each_step(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    """Replicas raised again: the bookie takes entries, and nothing is lost of what was idle on it."""
    bookies, admin = three(deployed, brokers=1), deployed.admin_url
    topics, caught = list[IdleTopic](), list[str]()
    with kept_for_ever(admin, "shop/stays") as kept:
        client = simple.client(deployed.service_url)
        with CountingRun(deployed.service_url, PAYMENTS, rate=50, keys=8, send_timeout=60) as run:
            for step in STEPS:
                for attempt in range(TRIES if step in SURE else 1):
                    prefix = f"{kept}/{step.lower()}-{attempt}"
                    topics += on_bookies(client, admin, prefix, names_any({2}), 1)
                    pods = bookies.pods()
                    with run.operation(f"a removal taken back at {step}, try {attempt + 1}"):
                        seen = taken_back(bookies, step)
                    topics[-1].use()
                    if seen and step in SURE:
                        assert bookies.pods() == pods, f"the bookie kept its pod at {step}"
                    if seen:
                        caught.append(step)
                        break
            report = run.finish(drain_within=120)
        with capsys.disabled():
            print(f"\ntaken back at {caught}")
            print("\n".join(bookies.events("bookie-2")))
            print(report.text())
        assert report.failures() == [], report.text()
        assert set(caught) >= SURE, caught
        for topic in topics:
            topic.check(deployed.service_url, admin)
        client.close()
    assert any("because spec.bookkeeper.replicas was raised again" in text for text in bookies.events("bookie-2"))
    assert not bookies.events("DisksFull") + bookies.events("BookieReadOnly"), "read-only by the operator is no news"


@pytest.mark.bookies(5)
def test_a_removal_that_an_ensemble_has_no_room_for_is_refused(deployed: Deployed) -> None:
    bookies, wide = three(deployed, brokers=1), "shop/wide"
    quorum = {"bookkeeperEnsemble": 3, "bookkeeperWriteQuorum": 2, "bookkeeperAckQuorum": 2}
    with kept_for_ever(deployed.admin_url, wide, **quorum):
        pods = bookies.pods()
        bookies.patch(replicas=2)

        def refused() -> str:
            found = bookies.told("Progressing")
            bookies.rows()
            return str(found["message"]) if found["reason"] == "DecommissionRefused" else ""

        text = eventually(refused, within=120, what="DecommissionRefused")
        assert f"namespace {wide} requires 3" in text and "only 2 writable bookies would be left" in text, text
        assert bookies.are(3) and not bookies.steps, "nothing was begun"
        bookies.patch(replicas=3)
        eventually(lambda: bookies.told("Progressing")["reason"] == "Ready", within=60, what="nothing is in progress")
        assert bookies.pods() == pods


@pytest.mark.bookies(5)
def test_a_disk_over_its_threshold_is_told(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    """A threshold below what the disk has used already: the first bookie that gets it is read-only, and the roll waits
    for it; the two others are enough for a ledger. The threshold taken back is the cure, and reaches it first."""
    bookies = three(deployed, brokers=1)
    simple.subscribe(deployed.service_url, FULL, "afterwards")
    published = simple.publish(deployed.service_url, FULL, 50, prefix="before")
    with CountingRun(deployed.service_url, PAYMENTS, rate=50, keys=8, send_timeout=60) as run:
        with run.operation("a bookie over its threshold"):
            bookies.patch(config=LOW)

            def told() -> dict[str, str]:
                rows = [row for row in bookies.rows() if row.get("reason")]
                assert len(rows) <= 1, rows
                return rows[0] if rows else {}

            row = eventually(told, within=240, what="a bookie that is read-only", every=1.0)
            found = eventually(
                lambda: (each := bookies.told("BookKeeperReady")) and each["reason"] == "DisksFull" and each,
                within=60,
                what="DisksFull",
            )
            assert row["reason"] == "DisksFull" and row["state"] == "ReadOnly" and found["status"] == "True", found
            for words in (row["id"], r"beyond 1 %, now \d+ %", r"spec\.bookkeeper\.replicas"):
                assert re.search(words, found["message"]), found
        with run.operation("the threshold taken back"):
            patch_cluster(deployed.kubectl, deployed.namespace, "east", {"bookkeeper": {"config": None}})
            eventually(lambda: bookies.are(3), within=180, what="three bookies that take entries", every=1.0)
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\n{found['message']}\n{report.text()}")
    assert report.failures() == [], report.text()
    assert any(row["id"] in text for text in bookies.events("DisksFull"))
    assert bookies.told("BookKeeperReady")["reason"] == "Ready"
    assert simple.consume(deployed.service_url, FULL, "afterwards", len(published)) == published


@pytest.fixture
def paused(deployed: Deployed) -> Iterator[None]:
    """The operator leaves the cluster alone meanwhile."""
    where = ("pulsarcluster", "east", "-n", deployed.namespace)
    deployed.kubectl.run("annotate", *where, "pulsaroperator.io/pause=true", "--overwrite")
    bookies = Bookies(deployed.kubectl, deployed.namespace)
    eventually(lambda: "Paused" in bookies.told("Ready")["message"], within=60, what="the cluster is paused")
    yield
    deployed.kubectl.run("annotate", *where, "pulsaroperator.io/pause-")


def emptied(bookies: Bookies, ordinal: int, owner: str, *, another: bool) -> None:
    """Once no ledger of these topics names it, the bookie starts anew: no cookie, new claims, and another id or the one
    that it had."""
    name, bookie = bookies.name(ordinal), bookies.id(ordinal)
    found = re.fullmatch(rf"{name}\.(?:i(\d+)\.)?(.+?)(?::3181)?", bookie)
    assert found is not None, bookie
    number = int(found[1] or 0) + another
    later = f"{name}.i{number}.{found[2]}" if number else bookie
    with bookies.store() as store:
        eventually(lambda: not store.naming(bookie, owner), within=180, what=f"no ledger of {owner} names {bookie}")
        store.count(ordinal, number)
        store.forget(bookie)
        claims, pod = [each for each in bookies.claims() if each.endswith(name)], bookies.pods()[name]
        bookies.kubectl.run("delete", "pvc", "-n", bookies.namespace, *claims, "--wait=false")
        bookies.kubectl.run("delete", "pod", "-n", bookies.namespace, name, "--wait=false")

        def anew() -> bool:
            uid, now = bookies.pods().get(name, pod), bookies.claims()
            return uid != pod and claims != [] and set(claims) <= now.keys() and store.writable(later)

        eventually(anew, within=300, what=f"{name} is back with empty volumes")


@pytest.mark.bookies(5)
@pytest.mark.parametrize("another", [True, False])
def test_without_unloading_acknowledged_messages_are_lost_under_the_same_id_alone(
    deployed: Deployed, another: bool, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """The operator's steps by hand, for two topics with an open ledger on the bookie, of which one is unloaded and one
    is not: the bookie returns under another id, as it does, or, for control, under the id that it had. The last test
    of its slice: other topics of the cluster may lose something too."""
    bookies, admin, gone = three(deployed, brokers=1), deployed.admin_url, 2
    name, bookie = bookies.name(gone), bookies.id(gone)
    one = {"bookkeeperEnsemble": 1, "bookkeeperWriteQuorum": 1, "bookkeeperAckQuorum": 1}
    with kept_for_ever(admin, f"shop/control-{another}".lower(), **one) as prefix:
        client = simple.client(deployed.service_url)
        unloaded, left = on_bookies(client, admin, f"{prefix}/t", names_any({gone}), 2)
        before = list(left.sent)
        request.getfixturevalue("paused")
        bookies.put(name, "bookie/state/readonly", {"readOnly": True})
        ask(admin, "PUT", f"{unloaded.name.replace('://', '/', 1)}/unload", seconds=90)
        bookies.put("east-autorecovery-0", "autorecovery/bookie", {"bookie_src": [bookie], "delete_cookie": False})
        emptied(bookies, gone, f"shop/control-{another}/persistent/t-".lower(), another=another)
        # Its address is another: whoever wrote to it must have found it, or the writes fail and are sent elsewhere.
        on_bookies(client, admin, f"{prefix}/found", names_any({gone}), 1)[0].close()
        for topic in (unloaded, left):
            topic.send(10)
        found = {topic.name: topic.stored(deployed.service_url, admin) for topic in (unloaded, left)}
        client.close()
        with capsys.disabled():
            print(f"\nacknowledged: {json.dumps(left.sent)}\nstored: {json.dumps(found)}")
        assert found[unloaded.name] == unloaded.sent, "the topic that was unloaded has everything"
        if another:
            assert found[left.name] == left.sent, "the handle leads nowhere, and the broker wrote elsewhere"
        else:
            assert found[left.name] == before, "the other lost what was acknowledged after the bookie's id came back"
