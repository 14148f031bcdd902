"""A pause of a producer, cut up by what brokers and the client said."""

from __future__ import annotations

import pytest

from e2e.support.pauses import Pause, broker_marks, client_marks, percentile, stages, table
from e2e.support.podlog import NANOS, Line

TOPIC, BUNDLE = "persistent://shop/skew/e1", "shop/skew/0x00000000_0x15555555"
BROKER = "2026-11-25T02:40:40,323+0000 [metadata-store-10-1] INFO  org.apache.pulsar.broker."
"""As Pulsar 4.0.8 writes it."""


def at(seconds: float) -> int:
    return int(seconds * NANOS)


def test_a_pause_is_cut_at_release_lookup_and_load() -> None:
    marks = [
        *broker_marks(Line(at(10.1), f"{BROKER}namespace.OwnedBundle - Disabling ownership: {BUNDLE}")),
        *client_marks(at(10.15), f"[{TOPIC}, east-0-0] Schedule reconnection in 0.1 s"),
        *client_marks(
            at(10.3),
            f'Lookup failed for {TOPIC}, result Retryable {{"errorMsg":"Namespace bundle {BUNDLE} is being unloaded"}}',
        ),
        *broker_marks(
            Line(
                at(10.4),
                f"{BROKER}namespace.OwnedBundle - Unloading {BUNDLE} namespace-bundle with 1 topics completed in 2 ms",
            )
        ),
        *client_marks(at(10.5), f"Lookup response for {TOPIC}, lookup-broker-url pulsar://b:6650, from [x -> y] "),
        *broker_marks(
            Line(
                at(10.45),
                f"{BROKER}namespace.OwnershipCache - Successfully acquired ownership of OwnedBundle(bundle={BUNDLE}, "
                "isActive=1)",
            )
        ),
        *broker_marks(Line(at(10.75), f"{BROKER}service.BrokerService - Created topic {TOPIC} - dedup is disabled")),
        *client_marks(at(10.9), f"[{TOPIC}, east-0-0] Created producer on broker [x -> y] "),
        *broker_marks(Line(at(10.75), f"{BROKER}service.BrokerService - Created topic {TOPIC}2 - dedup is disabled")),
    ]
    assert [mark.what for mark in sorted(marks)] == [
        *("disabled", "retry", "unloading", "released", "acquired", "found", "loaded", "loaded", "created")
    ]
    found = stages(Pause(at(10), TOPIC, 1.0), BUNDLE, marks)
    lengths = (found.closing, found.finding, found.loading, found.opening)
    assert lengths == pytest.approx((0.4, 0.1, 0.25, 0.25), abs=1e-6)
    assert found.refused == 1 and sum(each or 0 for each in lengths) == pytest.approx(1.0)
    assert "closing     0.40 s    0.40 s  of 1" in table([found])


def test_a_stage_that_nobody_told_is_not_known() -> None:
    found = stages(Pause(at(10), TOPIC, 1.0), BUNDLE, [])
    assert (found.closing, found.finding, found.loading, found.opening, found.refused) == (None,) * 4 + (0,)
    assert "closing" not in table([found])


def test_percentile_is_one_of_the_values() -> None:
    assert [percentile([3.0, 1.0, 2.0], share) for share in (0.0, 0.5, 0.99)] == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
