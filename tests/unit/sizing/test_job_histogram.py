"""Histograms: the error they promise, and that merging changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from pulsar_sizing.job.histogram import RELATIVE_ERROR, bucket, merged, quantile

SHARES = (0.0, 0.5, 0.95, 0.99, 1.0)


def samples() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {
        "one value": np.array([17.0]),
        "equal values": np.full(40, 12345.6),
        "uniform": rng.uniform(1.5, 1e6, 400),
        "log-normal": np.exp(rng.normal(12, 2, 400)),
        "pareto": (rng.pareto(0.8, 400) + 1.01) * 1000,
        "powers": 10.0 ** np.arange(0.5, 12, 0.5),
        "two far apart": np.array([1.1] * 94 + [1e12] * 6),
        "just above one": 1 + rng.uniform(1e-9, 1e-3, 50),
    }


@pytest.fixture(scope="module")
def raw(spark: Any) -> Any:
    rows = [(key, float(value), n % 3) for key, values in samples().items() for n, value in enumerate(values)]
    return spark.createDataFrame(rows, "key string, cost double, part int").persist()


def counted(raw: Any) -> Any:
    return raw.select("key", bucket(F.col("cost")).alias("bucket"), F.lit(1).cast("long").alias("count"))


def rows(frame: Any) -> list[Any]:
    return sorted(frame.collect())


def test_every_quantile_is_within_the_relative_error(raw: Any) -> None:
    histograms = raw.transform(counted).transform(merged(["key"])).persist()
    for share in SHARES:
        found = {row["key"]: row["cost"] for row in histograms.transform(quantile(["key"], share)).collect()}
        for key, values in samples().items():
            exact = float(np.quantile(values, share, method="lower"))
            assert abs(found[key] - exact) <= (RELATIVE_ERROR + 1e-9) * exact, (key, share)
    assert histograms.count() < raw.count()


def test_merging_is_associative_and_commutative(raw: Any) -> None:
    a, b, c = (raw.filter(F.col("part") == n).transform(counted).transform(merged(["key"])).persist() for n in range(3))
    together = merged(["key"])
    whole = rows(raw.transform(counted).transform(together))
    assert rows(a.union(b).transform(together).union(c).transform(together)) == whole
    assert rows(c.union(a.union(b).transform(together)).transform(together)) == whole
    assert rows(b.union(c).transform(together).union(a).transform(together)) == whole


def test_what_costs_nothing_answers_nothing(spark: Any) -> None:
    schema = T.StructType([T.StructField("key", T.StringType()), T.StructField("cost", T.DoubleType())])
    frame = spark.createDataFrame([("x", 0.0), ("x", 0.5), ("x", 1.0)], schema)
    histograms = frame.transform(counted).transform(merged(["key"]))
    assert rows(histograms) == [("x", 0, 3)]
    assert histograms.transform(quantile(["key"], 1.0)).collect() == [("x", 0.0)]


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_out_of_range_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        quantile(["key"], share)
