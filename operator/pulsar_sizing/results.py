"""Sizing results on the store: one JSON document each, and a pointer to the latest."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Protocol

from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_sizing import layout

KEEP = 20
"""Results kept a cluster; the one pointed to is the newest of them."""


class Files(Protocol):
    """What is needed of the store; paths are relative to its root."""

    def put(self, path: str, data: bytes) -> None:
        """Write a file whole."""

    def get(self, path: str) -> bytes | None:
        """Read it; None if there is none."""

    def delete(self, path: str) -> None:
        """Delete it."""

    def names(self, folder: str) -> list[str]:
        """Files in a folder, in order."""


def result_file(generated: datetime) -> str:
    """Name of a result: sorts by time, to the microsecond."""
    return f"{generated.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}.json"


def store_result(files: Files, result: SizingResult) -> str:
    """Write a result, then the pointer, then delete the oldest; returns the result's path."""
    folder = layout.result_folder(result.instance, result.cluster)
    name = result_file(result.generated_time)
    files.put(f"{folder}/{name}", result.model_dump_json(by_alias=True).encode())
    latest = pointer(files, folder)
    if latest is None or latest <= name or latest not in files.names(folder):
        latest = name
        files.put(f"{folder}/{layout.LATEST}", json.dumps({"file": name}).encode())
    kept = [n for n in files.names(folder) if n.endswith(".json") and n != layout.LATEST]
    for old in kept[:-KEEP]:
        files.delete(f"{folder}/{old}")
    return f"{folder}/{name}"


def pointer(files: Files, folder: str) -> str | None:
    """Name of the latest result; None if there is none or what is there is no pointer."""
    text = files.get(f"{folder}/{layout.LATEST}")
    try:
        name = json.loads(text)["file"] if text is not None else None
    except (ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) and "/" not in name else None


def latest_result_text(files: Files, instance: str, cluster: str) -> bytes | None:
    """The latest result's document.

    A writer may prune the file between the reading of the pointer and of the file: then the pointer is read again.
    """
    folder = layout.result_folder(instance, cluster)
    for _ in range(3):
        name = pointer(files, folder)
        if name is None:
            return None
        text = files.get(f"{folder}/{name}")
        if text is not None:
            return text
    return None
