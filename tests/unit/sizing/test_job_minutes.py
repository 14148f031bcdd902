"""Minutes above 85 %: counted from the rows by hand, and by the job."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from pulsar_operator.balance.model.load import CostModel, Load
from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_sizing.job import inventory
from pulsar_sizing.job.conclude import placed
from pulsar_sizing.job.overload import Minutes, minutes_above

INTERVAL = 20.0
"""Minutes between two rounds of the recording."""
Labs = Callable[..., Any]


def minutes(outcome: Any, result: SizingResult | None = None, **question: Any) -> Minutes | None:
    """What a report counts after a run, where the question says more."""
    job = replace(outcome.job, request=replace(outcome.job.request, **question))
    return minutes_above(job, outcome.result if result is None else result)


def by_hand(one: Any, result: SizingResult) -> tuple[dict[Any, dict[str, float]], dict[Any, dict[str, float]]]:
    """Load of each broker by round: as recorded, and with each row at the owner that is recommended for it."""
    model, owners = CostModel(), placed(result)
    sides: tuple[Any, Any] = (defaultdict(Counter), defaultdict(Counter))
    for path in one.files():
        for row in pq.ParquetFile(path).read().to_pylist():
            rates = {name: row[name] for name in ("messages_in", "messages_out", "bytes_in", "bytes_out")}
            # In whole numbers, as all amounts of rows are.
            cost = round(model.cost(Load(**rates, topics=1, sessions=row["producers"] + row["consumers"])))
            wanted = owners.get(row["namespace"])
            at = None
            if wanted is not None:
                inside = [n for n, low in enumerate(wanted.boundaries[:-1]) if low <= row["position"]]
                at = wanted.owners[inside[-1]]
            sides[0][row["sample_time"]][row["broker"]] += cost
            sides[1][row["sample_time"]][at or row["broker"]] += cost
    return sides


@pytest.mark.parametrize(
    "capacities", [{}, {"east-broker-0": "1", "east-broker-1": "2"}], ids=["equal", "one twice the other"]
)
def test_it_is_what_the_rows_say(lab: Labs, capacities: dict[str, str]) -> None:
    one = lab()
    one.record(0, 2)
    outcome = one.run(capacities=capacities)
    result = outcome.result
    assert len({each.capacity for each in result.brokers}) == (2 if capacities else 1)
    now, after = by_hand(one, result)
    size = {each.broker: each.capacity for each in result.brokers}
    levels = sorted(
        load / size[broker] for side in (now, after) for each in side.values() for broker, load in each.items()
    )
    for at in (len(levels) // 2, -1):
        capacity = levels[at] / 0.85 * (1 + 1e-9)
        found = minutes(outcome, capacity=capacity)
        assert found is not None
        assert found.recorded == len(now) * INTERVAL == 120
        for side, told in ((now, found.now), (after, found.recommended)):
            above = Counter(
                b for each in side.values() for b, load in each.items() if load / size[b] > levels[at] * (1 + 1e-9)
            )
            assert told == {broker: above[broker] * INTERVAL for broker in size}
    assert set(found.now.values()) == {0.0}, "at the highest level nobody is above it"


def test_without_capacity_or_rows_there_is_nothing_to_count(lab: Labs) -> None:
    one = lab()
    one.record(0, 1)
    outcome = one.run()
    assert minutes(outcome) is None
    for path in one.files():
        path.unlink()
    found = minutes(outcome, capacity=1.0)
    assert found is not None
    assert (found.recorded, set(found.now.values())) == (0.0, {0.0})


def test_where_nothing_is_recommended_it_stays_as_it_is(lab: Labs) -> None:
    one = lab()
    one.record(0, 1)
    outcome = one.run()
    found = minutes(outcome, outcome.result.model_copy(update={"namespaces": ()}), capacity=1.0)
    assert found is not None
    assert found.now == found.recommended == dict.fromkeys(found.now, 60.0)


def test_a_file_that_turns_out_to_be_damaged_does_not_count(lab: Labs) -> None:
    one = lab()
    one.record(0, 2)
    outcome = one.run()
    whole = minutes(outcome, capacity=1.0)
    path = one.files()[0]
    names = {row["broker"] for row in pq.ParquetFile(path).read(["broker"]).to_pylist()}
    # A sound footer over damaged pages: only found while reading.
    pages = bytearray(path.read_bytes())
    start = pq.read_metadata(path).row_group(0).column(4).data_page_offset
    pages[start : start + 200] = b"\xff" * 200
    path.write_bytes(bytes(pages))
    found = minutes(outcome, capacity=1.0)
    assert whole is not None
    assert found is not None
    assert len(names) == 1, "a round has a file for each broker"
    assert found.recorded == whole.recorded, "the other broker's file of the round is there"
    assert found.now == {name: time - INTERVAL * (name in names) for name, time in whole.now.items()}


def test_a_file_that_goes_meanwhile_is_told(lab: Labs, monkeypatch: pytest.MonkeyPatch) -> None:
    one = lab()
    one.record(0, 1)
    outcome = one.run()
    gone, sound = one.files()[0], inventory.sound

    def and_gone(*listed: Any) -> Any:
        found = sound(*listed)
        gone.unlink()
        return found

    monkeypatch.setattr(inventory, "sound", and_gone)
    with pytest.raises(inventory.VanishedError, match=gone.name):
        minutes(outcome, capacity=1.0)
