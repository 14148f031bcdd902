"""The outcomes for people (a table), for CI (JUnit) and for programs (JSON)."""

from __future__ import annotations

import json
import textwrap
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pulsar_conformance.context import Instance
from pulsar_conformance.model import Outcome, Status

MARKS = {Status.PASSED: "ok", Status.FAILED: "FAILED", Status.ERROR: "ERROR", Status.SKIPPED: "skipped"}
WIDTH = 160
"""Columns of the table."""


def line(outcome: Outcome) -> str:
    """One outcome in one line, for progress."""
    return f"{MARKS[outcome.status]:>7}  {outcome.seconds:6.1f} s  {outcome.check.id:<44} {outcome.text}"


def table(outcomes: Sequence[Outcome]) -> str:
    """All outcomes by theme: mark, seconds, check, what it proves, and below it the evidence or the reason."""
    lines: list[str] = []
    theme = ""
    for outcome in sorted(outcomes, key=lambda found: found.check.id):
        if outcome.check.theme != theme:
            theme = outcome.check.theme
            lines += ["", theme]
        name = outcome.check.id.removeprefix(f"{theme}.")
        lines.append(f"  {MARKS[outcome.status]:>7} {outcome.seconds:6.1f} s  {name:<32} {outcome.check.proves}")
        indent = " " * 20
        lines += textwrap.wrap(outcome.text, WIDTH, initial_indent=indent, subsequent_indent=indent)[:4]
    return "\n".join(lines).strip("\n")


def summary(outcomes: Sequence[Outcome], seconds: float) -> str:
    """The counts, in one line."""
    counts = Counter(outcome.status for outcome in outcomes)
    parts = [f"{counts[status]} {status.value}" for status in Status if counts[status]]
    return f"{len(outcomes)} checks in {seconds:.0f} s: {', '.join(parts)}"


def good(outcomes: Sequence[Outcome]) -> bool:
    """Whether nothing failed and nothing was left unknown; at least one check must have passed."""
    statuses = {outcome.status for outcome in outcomes}
    return Status.PASSED in statuses and not statuses & {Status.FAILED, Status.ERROR}


def as_json(found: Instance, outcomes: Sequence[Outcome], seconds: float) -> dict[str, Any]:
    """The outcomes and what they were got from; no secrets."""
    return {
        "instance": {
            "serviceUrl": found.service_url,
            "adminUrl": found.admin_url,
            "version": found.version,
            "clusters": list(found.clusters),
            "brokers": list(found.brokers),
        },
        "seconds": round(seconds, 1),
        "counts": {status.value: sum(outcome.status is status for outcome in outcomes) for status in Status},
        "checks": [
            {
                "id": outcome.check.id,
                "proves": outcome.check.proves,
                "concepts": list(outcome.check.concepts),
                "status": outcome.status.value,
                "evidence": outcome.text,
                "seconds": round(outcome.seconds, 2),
            }
            for outcome in outcomes
        ],
    }


def write_json(path: Path, value: dict[str, Any]) -> None:
    """The JSON file."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_junit(path: Path, outcomes: Sequence[Outcome], seconds: float) -> None:
    """The JUnit file: one test case a check, evidence as its output."""
    counts = Counter(outcome.status for outcome in outcomes)
    suite = ET.Element(
        "testsuite",
        name="pulsar-conformance",
        tests=str(len(outcomes)),
        failures=str(counts[Status.FAILED]),
        errors=str(counts[Status.ERROR]),
        skipped=str(counts[Status.SKIPPED]),
        time=f"{seconds:.1f}",
    )
    for outcome in outcomes:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=f"conformance.{outcome.check.theme}",
            name=outcome.check.id,
            time=f"{outcome.seconds:.2f}",
        )
        element = {Status.FAILED: "failure", Status.ERROR: "error", Status.SKIPPED: "skipped"}.get(outcome.status)
        if element:
            ET.SubElement(case, element, message=_printable(outcome.text))
        else:
            ET.SubElement(case, "system-out").text = _printable(outcome.text)
    ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def _printable(text: str) -> str:
    """XML takes no control characters."""
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)
