"""Spark's settings for tables on S3, and the jars that they need."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pulsar_sizing.job import object_storage, session
from pulsar_sizing.place import S3, Place
from requirements import fetch

ROOT = Path(__file__).parents[3]
SERVER = "http://s3.storage:9000"


def s3a(place: Place, scratch: Path | None = None) -> dict[str, str]:
    """The settings of s3a by their short names."""
    given = object_storage.settings(place, scratch)
    prefix = "spark.hadoop.fs.s3a."
    return {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}


@pytest.mark.parametrize("root", ["/data", "file:///data", "gs://bucket/x"])
def test_other_roots_need_none(root: str) -> None:
    assert object_storage.settings(Place(root), event_log="/data/events") == {}


def test_an_event_log_in_a_bucket_beside_tables_in_a_folder() -> None:
    place = Place("/data", S3(SERVER))
    found = object_storage.settings(place, event_log="s3://bucket/events")
    assert found == object_storage.settings(Place("s3://bucket/x", S3(SERVER))) != {}


@pytest.mark.parametrize("root", ["s3://bucket/x", "s3a://bucket/x"])
def test_aws_is_asked_by_its_own_rules(root: str) -> None:
    found = s3a(Place(root))
    assert "endpoint" not in found and "endpoint.region" not in found
    assert found["path.style.access"] == "false"
    assert s3a(Place(root, S3(region="eu-west-1")))["endpoint.region"] == "eu-west-1"


@pytest.mark.parametrize(
    ("s3", "path_style", "tls"),
    [
        (S3(SERVER), "true", "false"),
        (S3(f"{SERVER}/", addressing="path"), "true", "false"),
        (S3("https://s3.storage", addressing="virtual"), "false", "true"),
    ],
)
def test_a_server_of_one_s_own(s3: S3, path_style: str, tls: str, tmp_path: Path) -> None:
    found = s3a(Place("s3://bucket/x", s3), tmp_path)
    assert found["endpoint"] == (s3.endpoint or "").rstrip("/")
    assert (found["path.style.access"], found["connection.ssl.enabled"]) == (path_style, tls)
    assert found["endpoint.region"] == "us-east-1", "as pyarrow signs for the same server"
    assert found["buffer.dir"] == str(tmp_path / "s3a")


def test_no_credentials_are_among_the_settings() -> None:
    """They would be in the log of events, the user interface and every executor's command line."""
    found = object_storage.settings(Place("s3://bucket/x", S3(SERVER)))
    assert not [name for name in found if re.search(r"key|secret|token", name)]
    assert "DefaultCredentialsProvider" in found["spark.hadoop.fs.s3a.aws.credentials.provider"]


def test_plans_follow_the_data_and_skew_is_divided(spark: Any, quick: dict[str, str]) -> None:
    assert session.PLANS["spark.sql.adaptive.skewJoin.enabled"] == "true"
    told = {name: spark.conf.get(name) for name in session.PLANS}
    assert told == {name: quick.get(name, value) for name, value in session.PLANS.items()}


def pyspark_jars() -> set[str]:
    """Names of the jars in the installed package."""
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return {jar.name for jar in (Path(spec.origin).parent / "jars").glob("*.jar")}


def test_hadoop_aws_has_the_version_of_the_hadoop_inside_pyspark() -> None:
    """Of another version it fails with missing methods once it runs."""
    locked = {Path(path).name for _, path in fetch.locked_jars(ROOT / "requirements/s3a.txt")}
    (hadoop,) = [name.removeprefix("hadoop-client-api-") for name in pyspark_jars() if "hadoop-client-api" in name]
    assert f"hadoop-aws-{hadoop}" in locked


def test_no_library_is_there_in_two_versions() -> None:
    """The class path has all jars of both folders, in no order."""
    version = re.compile(r"-\d[\w.]*?(?:\.Final)?\.jar$")
    own = {version.sub("", name) for name in pyspark_jars()}
    added = [version.sub("", Path(path).name) for _, path in fetch.locked_jars(ROOT / "requirements/s3a.txt")]
    assert len(added) == len(set(added)) and not own & set(added)
