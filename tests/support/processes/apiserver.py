"""A real kube-apiserver as tests ask it: requests, definitions, accounts, its audit log. control_plane.py starts it."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import yaml

from e2e.support.eventually import LOCAL, eventually
from tests.support.processes.audit import WRITE_VERBS, AuditEvent, read_audit
from tests.support.processes.keepalive import KeptConnections
from tests.support.yamls import documents

Json = dict[str, Any]

MARK = "audit-mark-"


class ApiServerError(RuntimeError):
    """A request of a helper was refused."""


@dataclass(frozen=True)
class Response:
    """Status code and parsed body of a request."""

    code: int
    body: Json

    @property
    def message(self) -> str:
        """The server's message when it refused."""
        return str(self.body.get("message", ""))


class ApiServer:
    """A running API server. Made by :func:`running_apiserver`."""

    def __init__(self, *, url: str, folder: Path, token: str) -> None:
        self.url = url
        """https://127.0.0.1:port"""
        self.folder = folder
        """Throw-away folder; tests may keep files of their own there."""
        self.token = token
        """Bearer token of a member of system:masters."""
        self.ca_file = folder / "pki" / "apiserver.crt"
        """Certificate authority of the server, PEM."""
        self.audit_log = folder / "audit.log"
        """One JSON document a line."""
        self.kubeconfig = self.write_kubeconfig("admin", token)
        """kubeconfig file with the admin's token."""
        self._connections = KeptConnections(self._connection)

    def _connection(self) -> http.client.HTTPSConnection:
        address = urllib.parse.urlsplit(self.url)
        return http.client.HTTPSConnection(address.hostname or "", address.port, context=self._trust)

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        """Made once: reading certificates takes longer than a request."""
        return ssl.create_default_context(cafile=str(self.ca_file))

    def close(self) -> None:
        """Close the connections that requests keep."""
        self._connections.close()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        token: str | None = None,
        user_agent: str = "tests",
        accept: str = "application/json",
        timeout: float = 30.0,
    ) -> Response:
        """One request, never raising on a refusal, on a connection that is kept for the next one.

        ``path`` begins with /; ``timeout`` in seconds.
        """
        headers = {
            "Authorization": f"Bearer {token or self.token}",
            "Accept": accept,
            "User-Agent": user_agent,
        }
        if body is not None:
            headers["Content-Type"] = content_type
        target = path + (f"?{urllib.parse.urlencode(query)}" if query else "")
        sent = None if body is None else json.dumps(body).encode()
        code, raw = self._connections.request(method, target, sent, headers, timeout=timeout)
        try:
            parsed = json.loads(raw)
        except ValueError:
            parsed = {"message": raw.decode(errors="replace")}
        return Response(code, parsed if isinstance(parsed, dict) else {"value": parsed})

    def apply(self, path: str, manifest: Json, *, manager: str = "tests", strict: bool = True) -> Response:
        """Server-side apply, forced, under strict field validation unless told otherwise."""
        return self.request(
            "PATCH",
            path,
            manifest,
            query={
                "fieldManager": manager,
                "force": "true",
                "fieldValidation": "Strict" if strict else "Ignore",
            },
            content_type="application/apply-patch+yaml",
        )

    def _must(self, response: Response, what: str) -> Json:
        if response.code >= 300:
            raise ApiServerError(f"{what}: {response.code} {response.message}")
        return response.body

    def eventually_code(self, code: int, method: str, path: str, *, token: str | None = None) -> Response:
        """Repeat a request without a body until it is answered with the code: RBAC takes effect a moment later."""

        def answered() -> Response:
            answer = self.request(method, path, token=token)
            assert answer.code == code, answer
            return answer

        return eventually(answered, what=f"{method} {path} to be answered with {code}", every=LOCAL)

    def new_namespace(self, prefix: str = "test", *, labels: Mapping[str, str] | None = None) -> str:
        """Create a Kubernetes namespace with a unique name and return the name."""
        name = f"{prefix}-{uuid.uuid4().hex[:10]}"
        manifest = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": dict(labels or {})},
        }
        self._must(self.request("POST", "/api/v1/namespaces", manifest), f"creating namespace {name}")
        return name

    def install_crds(self, folder: Path) -> list[str]:
        """Apply every definition of the folder, wait until all are served, and return their names."""
        base = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        files = sorted(folder.glob("*.yaml"))
        definitions = [crd for file in files for crd in documents(file.read_text(encoding="utf-8"))]
        if not definitions:
            raise ApiServerError(f"{folder} holds no *.yaml file: run: make crds")
        for crd in definitions:
            name = crd["metadata"]["name"]
            self._must(self.apply(f"{base}/{name}", crd), f"applying the definition {name}")
        for crd in definitions:
            spec = crd["spec"]
            listing = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
            definition = f"{base}/{crd['metadata']['name']}"
            eventually(partial(self._established, definition), what=f"{definition} to be Established", every=LOCAL)
            eventually(partial(self._served, listing), what=f"{listing} to be served", every=LOCAL)
        return [crd["metadata"]["name"] for crd in definitions]

    def _established(self, definition: str) -> bool:
        conditions = (self.request("GET", definition).body.get("status") or {}).get("conditions") or []
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    def _served(self, listing: str) -> bool:
        return self.request("GET", listing).code == 200

    def service_account(self, namespace: str, name: str) -> str:
        """Create a service account (if need be) and return a token of it, valid for an hour.

        Its user name is ``system:serviceaccount:<namespace>:<name>``; it may do nothing until a role is bound to it.
        """
        base = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self._must(self.apply(f"{base}/{name}", account), f"creating service account {namespace}/{name}")
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        answer = self._must(self.request("POST", f"{base}/{name}/token", request), f"token for {namespace}/{name}")
        return str(answer["status"]["token"])

    def write_kubeconfig(self, name: str, token: str, *, namespace: str = "default") -> Path:
        """Write a kubeconfig file for a token and return its path; readable by its owner alone."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)}}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name, "namespace": namespace}}],
        }
        file = self.folder / f"kubeconfig-{name}"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        return file

    def audit_mark(self) -> int:
        """A position in the audit log for ``since``: everything answered before this call lies before it."""
        probe = f"{MARK}{uuid.uuid4().hex}"
        begun = self.audit_log.stat().st_size
        self.request("GET", "/version", user_agent=probe)
        eventually(lambda: probe in self._audit_text(begun), what="the audit log to be written", every=LOCAL)
        return self.audit_log.stat().st_size

    def _audit_text(self, since: int) -> str:
        """What was written after ``since``: the whole grows to what all tests of a run have asked."""
        with self.audit_log.open("rb") as log:
            log.seek(since)
            return log.read().decode(errors="replace")

    def audit_events(
        self, *, since: int = 0, user_agent_prefix: str | None = None, username: str | None = None
    ) -> list[AuditEvent]:
        """Finished requests after ``since`` (from :meth:`audit_mark`), of one client or of all."""
        events = read_audit(self.audit_log, since, self.audit_mark())
        return [
            event
            for event in events
            if (user_agent_prefix is None or event.user_agent.startswith(user_agent_prefix))
            and (username is None or event.username == username)
            and not event.user_agent.startswith(MARK)
        ]

    def audit_writes(
        self, *, since: int = 0, user_agent_prefix: str | None = None, username: str | None = None
    ) -> list[AuditEvent]:
        """Like :meth:`audit_events`, only what asked for a change, whether or not the server accepted it."""
        events = self.audit_events(since=since, user_agent_prefix=user_agent_prefix, username=username)
        return [event for event in events if event.verb in WRITE_VERBS]
