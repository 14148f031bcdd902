"""``python -m pulsar_sizing size|report``: options, environment, exit codes."""

from __future__ import annotations

import argparse
import os
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime

from pulsar_sizing.job.request import Request, RequestError
from pulsar_sizing.job.scratch import scratch
from pulsar_sizing.place import ADDRESSING
from pulsar_sizing.settings import s3_region

PREFIX = "PULSAR_SIZING_"
EXIT_FAILED = 1
EXIT_USAGE = 2


def parser(env: Mapping[str, str]) -> argparse.ArgumentParser:
    """All options of both commands; each may come from the environment as PULSAR_SIZING_<OPTION>."""
    above = argparse.ArgumentParser(
        prog="python -m pulsar_sizing",
        description="Work out bundles from recorded traffic with Spark.",
        epilog=f"Every option is also a variable {PREFIX}<OPTION>; --conf takes several there, separated by spaces.",
    )
    commands = above.add_subparsers(dest="command", required=True)
    for name, purpose in (("size", "store the result for the operator"), ("report", "print a report with plots")):
        one = commands.add_parser(name, help=purpose, description=f"Work out bundles and {purpose}.")
        add = _Options(one, env)
        add("--root", "folder or URL below which the collector wrote", required=True)
        add("--instance", "Pulsar instance", required=True)
        add("--cluster", "cluster of the instance", required=True)
        add("--from", "first hour that counts, ISO 8601, UTC unless it says otherwise", type=moment, dest="start")
        add("--to", "hours from here on do not count", type=moment, dest="end")
        add("--percentile", "of a topic's cost in the busy hours", type=float, default=95.0)
        add("--growth", "factor for the traffic to come", type=float, default=1.2)
        add("--window-days", "days that count, up to the last recorded one", type=int, default=7)
        add("--capacity", "byte-equivalents a second that an average broker carries, for the verdict", type=float)
        capacities_help = "CPU of brokers where they differ, NAME=CPU,...; by the name of a pod, a host or an id"
        add("--capacities", capacities_help, type=capacities, default={})
        add("--target", "wanted utilization of the capacity", type=float, default=0.7)
        add("--tolerance", "the busiest broker may be this much above the bound", type=float, default=0.05)
        add("--min-completeness", "share of the traffic that must be there", type=float, default=0.8)
        words = "hours that must have that share of their samples; below it nothing is recommended"
        add("--min-coverage-hours", words, type=int, default=24)
        add("--batch-hours", "hours at most that one batch makes: what a killed run repeats", type=int, default=256)
        add("--full", "make every hour of the tables again", action="store_true")
        add("--s3-endpoint", "http://host:port of an S3-compatible server; none = AWS")
        add("--s3-region", "region that requests to it are signed for", default=s3_region(env))
        add("--s3-addressing", "bucket in the path or the host name of a URL", choices=ADDRESSING, default="auto")
        add(
            "--master",
            "Spark master: local[*], k8s://..., or sc://HOST:PORT (Spark Connect)",
            default="local[*]",
        )
        add("--driver-memory", "of Spark's driver, such as 2g, if this process starts it", default="")
        add("--scratch", "folder for what Spark writes and may lose", default=None)
        add("--event-log", "folder or URL for what Spark's history server shows; none = no log", default="")
        add("--conf", "Spark setting key=value; may be repeated", action="append", default=[])
        if name == "report":
            add("--out", "folder for report.html and the plots", default="report")
    return above


class _Options:
    """Adds options whose default comes from the environment."""

    def __init__(self, to: argparse.ArgumentParser, env: Mapping[str, str]) -> None:
        self._to = to
        self._env = env

    def __call__(self, flag: str, words: str, *, required: bool = False, **more: object) -> None:
        given = self._env.get(PREFIX + flag.removeprefix("--").replace("-", "_").upper())
        if given:
            action = more.get("action")
            more["default"] = given.split() if action == "append" else _true(flag, given) if action else given
        self._to.add_argument(flag, help=words, required=required and not given, **more)  # type: ignore[arg-type]


def _true(flag: str, text: str) -> bool:
    if text.lower() not in {"true", "false", "1", "0"}:
        raise RequestError(f"{flag} is {text!r} in the environment: must be true or false")
    return text.lower() in {"true", "1"}


def moment(text: str) -> datetime:
    """A moment; UTC when it has no time zone. Raises ValueError."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def capacities(text: str) -> dict[str, str]:
    """Amounts of CPU by name. What is no amount is for the request to refuse. Raises ValueError for a name twice."""
    pairs = [pair.strip().partition("=") for pair in text.split(",") if pair.strip()]
    found = {name: cpu for name, _, cpu in pairs}
    if len(found) < len(pairs):
        raise ValueError(f"{text!r} names a broker twice")
    return found


def settings_of(pairs: Sequence[str]) -> dict[str, str]:
    """Spark settings. Raises RequestError for what is no ``spark.key=value``."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, mark, value = pair.partition("=")
        if not mark or not key.startswith("spark."):
            raise RequestError(f"--conf is {pair!r}: must be spark.<name>=<value>")
        found[key] = value
    return found


def request_of(options: argparse.Namespace) -> Request:
    """The question. Raises RequestError."""
    names = [field.name for field in fields(Request) if hasattr(options, field.name)]
    return Request(**{name: getattr(options, name) for name in names})


def main(argv: Sequence[str]) -> int:
    """Run ``size`` or ``report``; 0, 1 (failed) or 2 (wrong use)."""
    try:
        options = parser(os.environ).parse_args(argv)
        request, conf = request_of(options), settings_of(options.conf)
    except RequestError as error:
        print(f"pulsar-sizing: {error}", file=sys.stderr)
        return EXIT_USAGE
    # Here and not above: Spark and Arrow take seconds to import, which --help and wrong options need not wait for.
    from pulsar_sizing.job.work import FAILURES, work  # noqa: PLC0415

    try:
        with scratch(options.scratch) as folder:
            return work(options, request, conf, folder, datetime.now(UTC), uuid.uuid4().hex[:8], progress())
    except FAILURES as error:
        print(f"pulsar-sizing: {_first_lines(error)}", file=sys.stderr)
        return EXIT_FAILED


def progress() -> Callable[[str], None]:
    """Prints lines with the seconds since now to standard error."""
    began = time.monotonic()
    return lambda text: print(f"{time.monotonic() - began:7.1f} s  {text}", file=sys.stderr, flush=True)


def _first_lines(error: BaseException) -> str:
    return "\n".join(str(error).splitlines()[:4])
