"""The tests' own reading of the API server's audit log, which is written while it is read."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.processes.audit import read_audit


def line(name: str) -> bytes:
    event = {"stage": "ResponseComplete", "verb": "get", "objectRef": {"resource": "pods", "name": name}}
    return json.dumps(event, ensure_ascii=False).encode() + b"\n"


def test_lines_end_at_line_feeds_alone_and_unfinished_ones_wait(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    first, second, third = line("a\u0085b"), line("c\u2028d"), line("e")
    log.write_bytes(first + second + third)
    whole = len(first + second + third)

    def names(start: int, end: int) -> list[str]:
        return [event.name for event in read_audit(log, start, end)]

    assert names(0, whole) == ["a\u0085b", "c\u2028d", "e"]
    assert names(0, len(first) + 20) == ["a\u0085b"], "the second is being written"
    assert names(len(first), whole) == ["c\u2028d", "e"]
    assert names(len(first) + 20, whole) == ["e"]
    assert names(whole, whole) == []
