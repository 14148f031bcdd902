"""Permissions and properties of the in-memory Pulsar, as seen on Pulsar 4.0.8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.fakes.answers import EMPTY, NO_CONTENT, Answer, RefusalError, Text

ACTIONS = ("produce", "consume", "functions", "sources", "sinks", "packages")
URI_BYTES = 8192
"""Longer addresses are refused by the web server."""


def _known(actions: list[Any]) -> list[Any]:
    """Pulsar keeps null for an action it does not know."""
    return [action if action in ACTIONS else None for action in actions]


def namespace_entries(policies: dict[str, Any], method: str, rest: list[str], body: Any) -> Answer | None:
    """Answer for the lists of a namespace; None when the path is about something else."""
    if any(len(segment) > URI_BYTES for segment in rest):
        raise RefusalError(414, "URI Too Long")
    access, properties = policies["auth_policies"], policies["properties"]
    match method, rest:
        case "GET", ["permissions"]:
            return 200, dict(access["namespace_auth"])
        case "POST", ["permissions", role]:
            access["namespace_auth"][role] = _known(body)
            return NO_CONTENT
        case "DELETE", ["permissions", role]:
            access["namespace_auth"].pop(role, None)
            return NO_CONTENT
        case "POST", ["permissions", "subscription", name]:
            access["subscription_auth_roles"][name] = list(body)
            return NO_CONTENT
        case "DELETE", ["permissions", name, role]:
            return _revoke(access["subscription_auth_roles"], name, role)
        case "GET", ["properties"]:
            return 200, dict(properties)
        case "PUT", ["properties"]:
            properties.update(body)
            return NO_CONTENT
        case "DELETE", ["properties"]:
            properties.clear()
            return NO_CONTENT
        case "DELETE", ["property", key]:
            value = properties.pop(key, None)
            return (200, Text(value)) if value else EMPTY
    return None


def _revoke(held: dict[str, list[str]], name: str, role: str) -> Answer:
    if name not in held:
        raise RefusalError(500, "couldn't find subscription")
    held[name] = [each for each in held[name] if each != role]
    if not held[name]:
        del held[name]
    return NO_CONTENT


def topic_permissions(policies: dict[str, Any], full: str, method: str, role: str, body: Any) -> Answer:
    """Grant or revoke on a topic; kept with the namespace."""
    held = policies["auth_policies"]["destination_auth"]
    if method == "POST":
        held.setdefault(full, {})[role] = _known(body)
    elif role in held.get(full, {}):
        del held[full][role]
        if not held[full]:
            del held[full]
    return NO_CONTENT


def map_of_properties(held: dict[str, str], method: str, query: Mapping[str, str], body: Any) -> Answer:
    """Properties of a topic."""
    if method == "GET":
        return 200, dict(held)
    if method == "PUT":
        held.update(body)
    else:
        held.pop(query["key"], None)
    return NO_CONTENT
