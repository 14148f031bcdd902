"""What fills the disks of bookies end to end: accepted by the operator, bounded, and read back."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from e2e.support import filling
from e2e.support.filling import SIZE, TOPICS, Filling
from e2e.support.kubectl import Kubectl
from e2e.support.smalldisks import FULL, LOW, MEBIBYTES, NUMBER, WANTED, SmallDisks, bookkeeper, manifest
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.domain.render import spec_problems

PREFIX = "persistent://shop/filled"


class Broker:
    """A client, its producers and readers, and what they store."""

    def __init__(self) -> None:
        self.stored: dict[str, list[bytes]] = {}

    def create_producer(self, topic: str, **_: object) -> Any:
        stored = self.stored.setdefault(topic, [])

        class Producer:
            def send(self, data: bytes) -> None:
                stored.append(data)

        return Producer()

    def create_reader(self, topic: str, *_: object, **__: object) -> Any:
        left = list(self.stored[topic])

        class Message:
            def __init__(self, content: bytes) -> None:
                self.data = lambda: content

        class Reader:
            def has_message_available(self) -> bool:
                return bool(left)

            def read_next(self, **_: object) -> Message:
                return Message(left.pop(0))

            def close(self) -> None:
                pass

        return Reader()

    def close(self) -> None:
        pass


def test_the_operator_takes_the_cluster() -> None:
    documents = [each for each in yaml.safe_load_all(manifest()) if each["kind"] == "PulsarCluster"]
    (spec,) = [PulsarClusterSpec.model_validate(each["spec"]) for each in documents]
    assert spec_problems(spec) == []
    assert spec.bookkeeper is not None and spec.bookkeeper.autoscaling is not None
    assert spec.bookkeeper.autoscaling.max_replicas == NUMBER and LOW < WANTED < FULL


def test_each_disk_is_one_volume_of_the_class_that_the_bookies_ask_for() -> None:
    made, *volumes = SmallDisks(Kubectl("kubectl", None), "a-node").manifests()
    ledgers = bookkeeper()["ledgers"]
    assert made["metadata"]["name"] == ledgers["storageClassName"]
    assert [each["spec"]["storageClassName"] for each in volumes] == [ledgers["storageClassName"]] * NUMBER
    assert {each["spec"]["capacity"]["storage"] for each in volumes} == {ledgers["size"]} == {f"{MEBIBYTES}Mi"}
    assert len({each["spec"]["local"]["path"] for each in volumes}) == NUMBER


def test_no_more_bytes_are_written_than_may_be() -> None:
    round_of_all, broker = TOPICS * SIZE, Broker()
    with Filling("pulsar://", PREFIX, most=2 * round_of_all + SIZE, connect=lambda _: broker) as found:
        assert [found.more() for _ in range(4)] == [True, True, False, False]
    assert found.bytes == 2 * round_of_all == sum(len(data) for each in broker.stored.values() for data in each)
    assert len({data for each in broker.stored.values() for data in each}) == 2 * TOPICS, "no two are the same"


@pytest.mark.parametrize(
    ("change", "read"),
    [
        (lambda stored: None, None),
        (lambda stored: stored.pop(), 1),
        (lambda stored: stored.reverse(), 2),
        (lambda stored: stored.append(stored[0]), 3),
        (lambda stored: stored.__setitem__(0, stored[0][:-1] + b"\0\0"), 2),
    ],
    ids=["all", "lost", "in another order", "twice", "changed"],
)
def test_what_is_read_is_what_was_acknowledged(change: Any, read: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    unloaded, broker = list[str](), Broker()
    monkeypatch.setattr(filling, "ask", lambda *call, **_: unloaded.append(call[2]))
    with Filling("pulsar://", PREFIX, most=2 * TOPICS * SIZE, connect=lambda _: broker) as found:
        while found.more():
            pass
        topic = f"{PREFIX}/filling-3"
        change(broker.stored[topic])
        different = found.different("http://")
    assert different == ([] if read is None else [f"{topic}: 2 were acknowledged, {read} are read"])
    assert len(unloaded) == TOPICS and unloaded[0] == "persistent/shop/filled/filling-0/unload"
