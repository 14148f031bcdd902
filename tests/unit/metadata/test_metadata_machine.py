"""Random histories of kills, losses, restores and human hands, against the one rule: data is never orphaned by us."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pulsar_operator.api.constants import Reason
from pulsar_operator.controllers.core.stores import Store
from pulsar_operator.controllers.dataplane.registration.bootstrap import ensure_cluster_metadata
from pulsar_operator.domain.dataplane.registration.metadata import INSTANCE_ID_PATH, MARKER_PATH
from pulsar_operator.ports import CONFIG_MAPS, Node
from tests.fakes.killed import Killed
from tests.fakes.kube import FakeKube
from tests.fakes.zookeeper import FakeZooKeeper
from tests.support.cluster.bootstrap import NAMESPACE, KillSwitch, adopting, deps, record_of, request

LOCAL, SHARED = Store("local:2181"), Store("shared:2181")
FOREIGN = "set-up-by-another-tool"


class MetadataMachine(RuleBasedStateMachine):
    """One cluster. ``data_id`` is the id the bookies' volumes belong to, once there are volumes."""

    @initialize(foreign=st.booleans())
    def begin(self, foreign: bool) -> None:
        self.kube, self.zookeeper, self.switch = FakeKube(), FakeZooKeeper(), KillSwitch()
        self.switch.watch(self.kube, lambda call: f"{call.verb} {call.kind}")
        self.switch.watch(self.zookeeper, lambda call: f"{call.op} {call.path}")
        self.deps = deps(self.kube, self.zookeeper)
        self.local, self.shared = self.zookeeper.ensemble("local:2181"), self.zookeeper.ensemble("shared:2181")
        self.data_id: str | None = None
        self.backups: list[tuple[dict[str, Node], dict[str, Node]]] = []
        self.agreed: str | None = None
        if foreign:
            self.local.put(INSTANCE_ID_PATH, FOREIGN)
            self.data_id = FOREIGN

    def stored_id(self) -> str | None:
        node = self.local.nodes.get(INSTANCE_ID_PATH)
        return None if node is None else node.data.decode()

    def record(self) -> dict[str, Any] | None:
        return asyncio.run(record_of(self.kube, "a"))

    @rule(number=st.integers(0, 15), when=st.sampled_from(["before", "after", "never"]))
    def reconcile(self, number: int, when: str) -> None:
        """A pass, perhaps killed at a write."""
        id_before, record_before, written_before = self.stored_id(), self.record(), len(self.zookeeper.writes)
        marked_before, data_before = MARKER_PATH in self.local.nodes, self.data_id is not None
        if when != "never":
            self.switch.arm(number, when)
        begun, killed = len(self.switch.writes), False
        try:
            result = asyncio.run(
                ensure_cluster_metadata(
                    self.deps,
                    request(
                        "a",
                        LOCAL,
                        SHARED,
                        bookies_exist=self.data_id is not None,
                        confirmations=adopting(self.agreed) if self.agreed is not None else (),
                    ),
                )
            )
            assert result.reason is not Reason.PENDING
            if result.local_ready:
                assert self.stored_id() == result.instance_id
                self.data_id = self.data_id or result.instance_id  # now the bookies start
            if result.ok:
                assert (
                    json.loads(self.shared.nodes["/pulsar-operator/clusters/a"].data)["instanceId"] == self.stored_id()
                )
        except Killed:
            killed = True
        self.switch.disarm()
        # A write that is killed after it took effect is counted, one before it is not.
        reached = len(self.switch.writes) - begun + (killed and when == "before") > number
        assert killed is (when != "never" and reached), "the kill came at another write, or not at all"
        assert id_before in (None, self.stored_id()), "an id that was there was touched"
        finished = record_before is not None and (
            record_before["state"] == "Initialized" or record_before["adopted"] == "true"
        )
        if finished and record_before["instanceId"] != id_before:
            assert len(self.zookeeper.writes) == written_before, "written after the store was lost"
        if id_before is None and data_before:
            assert self.stored_id() is None and len(self.zookeeper.writes) == written_before, "initialized over data"
        if id_before is not None and record_before is None and not marked_before and id_before != self.agreed:
            assert self.record() is None and len(self.zookeeper.writes) == written_before, "a stranger's store"

    @rule()
    def a_strangers_store(self) -> None:
        """The address leads to another store, which Pulsar's own tool set up."""
        self.local.wipe()
        self.local.put(INSTANCE_ID_PATH, FOREIGN)
        self.local.put("/ledgers/cookies/bookie-9")

    @rule(which=st.sampled_from([None, FOREIGN, "another"]))
    def agree(self, which: str | None) -> None:
        """A person confirms that a store is taken over, or takes that back."""
        self.agreed = which

    @rule()
    def restore_record_of_the_first_start(self) -> None:
        """The backup is of the moment between two steps."""
        if (found := self.record()) is not None:
            young = {**found, "state": "Initializing", "registered": "false"}
            self.kube.remove(CONFIG_MAPS, NAMESPACE, "a-instance-id")
            meta = {"name": "a-instance-id", "namespace": NAMESPACE}
            self.kube.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": young})

    @rule()
    def wipe_local(self) -> None:
        self.local.wipe()

    @rule()
    def wipe_shared(self) -> None:
        self.shared.wipe()

    @rule()
    def back_up(self) -> None:
        self.backups.append((dict(self.local.nodes), dict(self.shared.nodes)))

    @precondition(lambda self: self.backups)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        local, shared = data.draw(st.sampled_from(self.backups))
        self.local.nodes, self.shared.nodes = dict(local), dict(shared)

    @rule()
    def work(self) -> None:
        """Bookies and brokers leave their traces in a store that has an id."""
        if self.stored_id() is not None and self.stored_id() == self.data_id:
            self.local.put("/ledgers/cookies/bookie-0")
            self.local.put("/managed-ledgers/public/default/persistent/t")

    @rule()
    def delete_record(self) -> None:
        if self.record() is not None:
            self.kube.remove(CONFIG_MAPS, NAMESPACE, "a-instance-id")

    @rule()
    def delete_volumes(self) -> None:
        """A person gives the data up."""
        self.data_id = None

    @invariant()
    def the_fake_is_consistent(self) -> None:
        assert all(path == "/" or path.rpartition("/")[0] in {"", *self.local.nodes} for path in self.local.nodes)


MetadataMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
TestMetadataMachine = MetadataMachine.TestCase
