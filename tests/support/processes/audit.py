"""The API server's audit log: what was asked of it, by whom, and which requests were writes."""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})

AUDIT_POLICY: Json = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


@dataclass(frozen=True)
class AuditEvent:
    """One finished request, as the API server's own audit log has it."""

    verb: str
    resource: str
    """Plural, with the subresource: pods, pods/status."""
    namespace: str
    name: str
    code: int
    user_agent: str
    username: str
    field_manager: str


def read_audit(log: Path, start: int, end: int) -> list[AuditEvent]:
    """Finished requests between two positions in the log. A watch counts when it ends, not when it begins.

    A line that is being written at a position belongs to what is before it.
    """
    with log.open("rb") as stream:
        stream.seek(max(0, start - 1))
        content = stream.read(end - max(0, start - 1))
    if start:
        content = content.partition(b"\n")[2]
    # Of bytes: text has more ends of lines than the log has, such as U+0085 in the name of an object.
    documents = map(json.loads, content.split(b"\n")[:-1])
    return [_audit_event(document) for document in documents if document["stage"] != "ResponseStarted"]


def _audit_event(document: Json) -> AuditEvent:
    target = document.get("objectRef") or {}
    resource, subresource = target.get("resource", ""), target.get("subresource", "")
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(document.get("requestURI", "")).query)
    return AuditEvent(
        verb=document["verb"],
        resource=f"{resource}/{subresource}" if subresource else resource,
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=(document.get("responseStatus") or {}).get("code", 0),
        user_agent=document.get("userAgent", ""),
        username=(document.get("user") or {}).get("username", ""),
        field_manager=query.get("fieldManager", [""])[0],
    )
