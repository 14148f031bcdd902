"""Plain calls of the admin REST, as another writer makes them: none of the operator's code."""

from __future__ import annotations

import json
import urllib.request
from typing import Any
from urllib.error import HTTPError

SECONDS = 30


def ask(
    admin_url: str, method: str, path: str, body: object = None, *, token: str = "", seconds: float = SECONDS
) -> Any:
    """One call below ``admin/v2``; its answer decoded, None where that is empty. Raises HTTPError, which is an OSError.

    ``path`` comes with its query, both quoted; ``token`` is for a Pulsar that asks for one.
    """
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(f"{admin_url}/admin/v2/{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            text = answer.read()
    except HTTPError as error:
        said = error.read(500).decode(errors="replace")
        raise HTTPError(error.url, error.code, f"{error.reason} {method} {path}: {said}", error.headers, None) from None
    return json.loads(text) if text.strip() else None


def find(admin_url: str, path: str) -> Any:
    """What GET answers; None where there is nothing. Raises HTTPError for any other refusal."""
    try:
        return ask(admin_url, "GET", path)
    except HTTPError as error:
        if error.code == 404:
            return None
        raise


def look_up(admin_url: str, topic: str) -> None:
    """Give the bundle of a topic, named in full, an owner, as a client does. Raises HTTPError."""
    path = topic.replace("://", "/", 1)
    with urllib.request.urlopen(f"{admin_url}/lookup/v2/topic/{path}", timeout=SECONDS) as answer:
        answer.read()
