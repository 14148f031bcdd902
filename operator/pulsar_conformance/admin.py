"""Admin REST as a client of any tool would call it; no code of the operator, which is what is being checked."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pulsar_conformance.credentials import Access
from pulsar_conformance.tamper import Tamper

REDIRECTS = 5
SENT_ON = frozenset({301, 302, 307, 308})


class AdminError(Exception):
    """Pulsar refused a call; status is the HTTP status, the message has Pulsar's reason."""

    def __init__(self, status: int, call: str, reason: str) -> None:
        super().__init__(f"{call}: {status} {reason}")
        self.status = status
        self.reason = reason


@dataclass
class Admin:
    """Calls below ``/admin/v2``, or ``lookup/`` and ``admin/v3/`` when a path says so.

    Paths are given with quoted segments; query values are quoted here. A redirect is followed; to a host that the
    token is not for, or away from TLS, it is refused.
    """

    url: str
    tamper: Tamper
    access: Access = field(default_factory=Access)
    timeout: float = 60

    def get(self, path: str, **query: Any) -> Any:
        """GET, decoded; None for an empty answer."""
        return self.call("GET", path, **query)

    def put(self, path: str, body: Any = None, **query: Any) -> Any:
        """PUT with a JSON body."""
        return self.call("PUT", path, body, **query)

    def post(self, path: str, body: Any = None, **query: Any) -> Any:
        """POST with a JSON body."""
        return self.call("POST", path, body, **query)

    def delete(self, path: str, **query: Any) -> Any:
        """DELETE."""
        return self.call("DELETE", path, **query)

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """One call through the tamper. Raises AdminError, or OSError without an answer."""
        rules = [rule for rule in self.tamper.rules if rule.kind == "admin"]
        return self.tamper.call(rules, self._call, method, path, body, **query)

    def _call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        given = {name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items()}
        text = f"?{urllib.parse.urlencode(given)}" if given else ""
        data = None if body is None else json.dumps(body).encode()
        return _decoded(self._sent(method, path, text, data)[0])

    def headers(self, path: str) -> Mapping[str, str]:
        """Headers of the answer to GET, by lower-case name. Raises as call does."""
        return self._sent("GET", path, "", None)[1]

    def _sent(self, method: str, path: str, query: str, data: bytes | None) -> tuple[bytes, Mapping[str, str]]:
        where = path if path.startswith(("lookup/", "admin/")) else f"admin/v2/{path}"
        url, opener = f"{self.url.rstrip('/')}/{where}{query}", self.access.opener()
        for _ in range(REDIRECTS):
            headers = {"Content-Type": "application/json"}
            if self.access.token is not None:
                headers["Authorization"] = f"Bearer {self.access.token()}"
            request = urllib.request.Request(url, data, headers, method=method)
            try:
                with opener.open(request, timeout=self.timeout) as answer:
                    return answer.read(), {name.lower(): value for name, value in answer.headers.items()}
            except urllib.error.HTTPError as error:
                # Brokers send writes on to the owner with 307.
                target = error.headers.get("Location")
                if error.code in SENT_ON and target:
                    url = urllib.parse.urljoin(url, target)
                    self._check_target(url, f"{method} {path}")
                    continue
                found = _decoded(error.read())
                reason = found.get("reason", "") if isinstance(found, dict) else str(found or error.reason)
                raise AdminError(error.code, f"{method} {path}", reason) from None
        raise AdminError(310, f"{method} {path}", f"more than {REDIRECTS} redirects, the last to {url}")

    def _check_target(self, url: str, call: str) -> None:
        """Raises AdminError for an address that the token is not for."""
        target, own = urllib.parse.urlsplit(url), urllib.parse.urlsplit(self.url)
        host, hosts = target.hostname or "", (own.hostname or "", *self.access.hosts)
        if target.scheme not in ("http", "https"):
            raise AdminError(310, call, f"a redirect to scheme {target.scheme!r}")
        if self.access.token is None:
            return
        if not any(host.endswith(one) if one.startswith(".") else host == one for one in map(str.lower, hosts)):
            raise AdminError(310, call, f"a redirect to {host}, which the token is not for: --token-host {host}")
        if (own.scheme, target.scheme) == ("https", "http"):
            raise AdminError(310, call, f"a redirect to {host} without TLS, which the token is not for")


def _decoded(raw: bytes) -> Any:
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")


def topic_path(topic: str) -> str:
    """A topic's path below /admin/v2."""
    domain, rest = topic.split("://", 1)
    tenant, namespace, name = rest.split("/", 2)
    return f"{domain}/{tenant}/{namespace}/{urllib.parse.quote(name, safe='')}"
