"""What the sizing job finds in the twenty weeks, and how it is compared with what was found before it wrote tables.

The job of then had no caps of namespaces, so that they are compared without, and the caps are looked at by themselves.

``python -m tests.support.sizing_found [WEEK ...]`` runs the job and writes data/weeks.json.gz anew: do so only when a
difference is intended, and list it in test_sizing_weeks.py.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.support.sizing_weeks import WEEKS, Week

EXPECTED = Path(__file__).resolve().parents[1] / "unit/sizing/data/weeks.json.gz"
TOLERANCE = 1e-9
"""Relative difference of two floats that are the same."""


def same(found: Any, wanted: Any, at: str = "") -> list[str]:
    """Differences between two documents; floats may differ by TOLERANCE."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        keys = [f"{at}: fields {sorted(found)}, not {sorted(wanted)}"] if found.keys() != wanted.keys() else []
        return keys + [text for key in wanted if key in found for text in same(found[key], wanted[key], f"{at}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list):
        many = [f"{at}: {len(found)} entries, not {len(wanted)}"] if len(found) != len(wanted) else []
        pairs = enumerate(zip(found, wanted, strict=False))
        return many + [text for n, (one, other) in pairs for text in same(one, other, f"{at}[{n}]")]
    if isinstance(wanted, float) and isinstance(found, float):
        equal = bool(np.isclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE))
    else:
        equal = type(found) is type(wanted) and found == wanted
    return [] if equal else [f"{at}: {found!r}, not {wanted!r}"]


def document(result: Any, busy_hours: Sequence[int], minutes: Any, hottest: Any) -> dict[str, Any]:
    """What a run found, as JSON tells it, without when it ran."""
    found = {
        "result": result.model_dump(mode="json", by_alias=True, exclude={"generated_time"}),
        "busyHours": list(busy_hours),
        "minutes": minutes
        and {"recorded": minutes.recorded, "now": dict(minutes.now), "recommended": dict(minutes.recommended)},
        "hottest": hottest,
    }
    parsed: dict[str, Any] = json.loads(json.dumps(found))
    return parsed


def expected() -> dict[str, Any]:
    """The committed documents by the name of the week."""
    found: dict[str, Any] = json.loads(gzip.decompress(EXPECTED.read_bytes()))
    return found


def found_in(spark: Any, week: Week, root: Path) -> dict[str, Any]:
    """What the job finds in a week without caps."""
    from pulsar_sizing.job import pipeline, report
    from pulsar_sizing.job.overload import minutes_above

    with patch.object(pipeline, "caps", _no_caps):
        outcome = week.play(root, lambda: run(spark, week, root))
    minutes = minutes_above(outcome.job, outcome.result)
    hottest = pipeline.heat(outcome, report.HOTTEST)
    return document(outcome.result, outcome.busy_hours, minutes, hottest)


def run(spark: Any, week: Week, root: Path) -> Any:
    """One run of the job on what is recorded of a week."""
    from pulsar_sizing.job import pipeline
    from pulsar_sizing.job.request import Request

    request = Request(week.recording.instance, week.recording.cluster, **week.question)
    unique = uuid.uuid4().hex[:8]
    return pipeline.run(spark, week.store(root), request, now=week.now, unique=unique, say=lambda text: None)


def _no_caps(spark: Any, *_: Any) -> Any:
    return spark.createDataFrame([], "namespace string, cap bigint")


def main(names: Sequence[str]) -> int:
    """Write the expected documents of the named weeks anew, or of all, with a line for each."""
    from pulsar_sizing.job import session

    found = expected() if EXPECTED.exists() else {}
    quick = {"spark.sql.shuffle.partitions": "2", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    with tempfile.TemporaryDirectory() as above:
        spark = session.create("local[2]", Path(above) / "scratch", quick, memory="1g")
        for week in WEEKS:
            if week.name in (names or [week.name]):
                found[week.name] = found_in(spark, week, Path(above) / week.name)
                text = json.dumps(found, separators=(",", ":"), sort_keys=True).encode()
                EXPECTED.write_bytes(gzip.compress(text, mtime=0))
                print(f"{week.name}: {_summary(found[week.name])}", flush=True)
        spark.stop()
    return 0


def _summary(found: dict[str, Any]) -> str:
    result = found["result"]
    cost, profile = result["cost"], result["profile"]
    return (
        f"{result['samples']} samples, completeness {result['completeness']:.3f}, rejected {result['rejected']}, "
        f"{len(result['namespaces'])} namespaces, {len(result['partitions'])} topics with advice, "
        f"{cost and cost['factors']} factors, profile {profile and profile['period']}, busy {found['busyHours']}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
