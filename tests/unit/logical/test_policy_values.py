"""Values of policies and entries: what cannot be read is never taken for right, what is absent is not sent."""

from __future__ import annotations

import pytest

from pulsar_operator.api.v1alpha1.policies import Offload, OffloadDriver
from pulsar_operator.domain.policies.entry_rows import NAMESPACE_ENTRIES, TOPIC_ENTRIES, EntryRow
from pulsar_operator.domain.policies.model import Undecodable
from pulsar_operator.domain.policies.offload import OFFLOAD


@pytest.mark.parametrize("row", [*NAMESPACE_ENTRIES, *TOPIC_ENTRIES], ids=lambda row: row.field)
def test_an_entry_that_cannot_be_read_is_not_in_sync(row: EntryRow) -> None:
    for wanted in (["consume"], "words"):
        assert row.in_sync(wanted, wanted)
        assert row.in_sync(wanted, None) is False
        assert row.in_sync(wanted, Undecodable("?")) is False


def test_members_of_offload_that_are_absent_are_not_sent() -> None:
    """Pulsar stores what it is sent: a null is not what it fills in itself."""
    body = OFFLOAD.encode(Offload(driver=OffloadDriver.S3, bucket="b", threshold_seconds=0))
    assert body == {
        "managedLedgerOffloadDriver": "S3",
        "managedLedgerOffloadBucket": "b",
        "managedLedgerOffloadThresholdInSeconds": 0,
    }
