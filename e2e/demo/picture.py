"""An instance of several clusters as text: its store, its clusters, and what each replicates to each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from e2e.support.objects import condition

INDENT = "   "


def picture(instance: Mapping[str, Any]) -> str:
    """What a PulsarInstance says of itself: ConfigurationStoreReady, status.clusters, status.replication and
    ReplicationHealthy. What it does not know yet is a question mark."""
    status = instance.get("status") or {}
    clusters = [_cluster(row) for row in status.get("clusters") or []]
    pairs = [_pair(row) for row in status.get("replication") or []]
    wide = max((len(line) for line in clusters), default=0)
    lines = [
        _told(dict(instance), "ConfigurationStoreReady", "configuration store"),
        "   ".join(f"[ {line:<{wide}} ]" for line in clusters),
        *(pairs or ["nothing is replicated yet"]),
        _told(dict(instance), "ReplicationHealthy", "replication"),
    ]
    return "\n".join(f"{INDENT}{line}" for line in lines if line)


def _cluster(row: Mapping[str, Any]) -> str:
    words = {True: "answers", False: f"no answer since {_clock(row.get('since'))}", None: "no brokers"}
    return f"{row['name']}: {words[row.get('reachable')]}"


def _pair(row: Mapping[str, Any]) -> str:
    arrow = {True: "=====>", False: "==  =>", None: "==??=>"}[row.get("connected")]
    figures = [
        f"{row['backlog']} wait" if "backlog" in row else "",
        f"the oldest for {row['delaySeconds']} s" if row.get("delaySeconds") else "",
        f"{row['rateOut']}/s" if row.get("rateOut") else "",
    ]
    told = ", ".join(figure for figure in figures if figure) or "not known"
    return f"{row['from']} {arrow} {row['to']}   {told}"


def _told(instance: dict[str, Any], kind: str, name: str) -> str:
    row = condition(instance, kind)
    if not row:
        return f"{name}: ?"
    message = f", {row['message']}" if row["status"] != "True" and row.get("message") else ""
    return f"{name}: {row['reason']}{message}"


def _clock(time: str | None) -> str:
    """The time of day of an RFC 3339 time."""
    return time.partition("T")[2].rstrip("Z") if time else "?"
