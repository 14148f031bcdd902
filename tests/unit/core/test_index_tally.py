"""How many objects there are, by kind and reason of Ready: kept while objects come, change and go."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.controllers.core.index import NOTHING, RefIndex, key_of
from tests.support.core.objects import tenant, topic

REASONS = st.sampled_from([None, "Ready", "InvalidSpec", "ParentNotReady", "WordOfALaterVersion"])
STEPS = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.booleans(), st.booleans(), REASONS), max_size=30)


def with_reason(obj: Any, reason: str | None) -> Any:
    """The object as its status was written; None = nobody wrote one."""
    status = {"observedGeneration": -1}
    conditions = [{"type": "Accepted", "status": "True", "reason": "Valid"}, {"type": "Ready", "reason": reason}]
    return {**obj, "status": status if reason is None else {"conditions": conditions}}


@given(STEPS)
def test_the_tally_is_what_a_count_would_say(steps: list[tuple[str, bool, bool, str | None]]) -> None:
    index = RefIndex()
    there: dict[Any, tuple[str, str]] = {}
    for name, of_topic, gone, reason in steps:
        kind = Kind.TOPIC if of_topic else Kind.TENANT
        obj = with_reason(topic("ns", name) if of_topic else tenant("ns", name), reason)
        key = key_of(kind, obj)
        if gone:
            index.remove(key)
            there.pop(key, None)
        else:
            index.update(kind, obj)
            there[key] = kind.value, reason if reason in set(Reason) and reason is not None else "Unknown"
        assert index.tally() == Counter(there.values())


def test_another_reason_runs_nobody() -> None:
    index = RefIndex()
    index.update(Kind.TENANT, with_reason(tenant("ns"), "ParentNotReady"))
    effect = index.update(Kind.TENANT, with_reason(tenant("ns"), "ReferenceNotFound"))
    assert effect == NOTHING
    assert index.tally() == {("PulsarTenant", "ReferenceNotFound"): 1}
