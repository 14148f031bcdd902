"""Requests to the Kubernetes API server: raw JSON, a deadline for every call, the errors of ports/errors.py.

The module uses the asyncio part of the official client for configuration, TLS, credentials and connections, but none of
its models: deserialization costs seconds of CPU for a few thousand objects. Called by kube.py, kube_events.py and
lease.py.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from pulsar_operator import __version__, ports
from pulsar_operator.adapters.fence import Fence, open_fence
from pulsar_operator.adapters.urls import encoded_path, encoded_query
from pulsar_operator.domain.texts import without_refused_values
from pulsar_operator.ports import (
    CUSTOM,
    ConflictError,
    DeadlineError,
    ForbiddenError,
    Json,
    NotFoundError,
    NotServedError,
    PortError,
    RefusedError,
    ResourceType,
    ServerError,
    UnavailableError,
)

USER_AGENT = f"pulsar-operator/{__version__}"
DEADLINE_SECONDS = 15.0
LIST_DEADLINE_SECONDS = 45.0
"""Deadline for one page in seconds."""
NO_LIMIT = aiohttp.ClientTimeout(total=None)
"""The client has no separate limit: the deadline of the request is the only one."""
JSON_TYPE = "application/json"
APPLY_TYPE = "application/apply-patch+yaml"
MERGE_TYPE = "application/merge-patch+json"
JSON_PATCH_TYPE = "application/json-patch+json"

_CONFLICT = frozenset({409, 410})
_REFUSED = frozenset({400, 403, 405, 406, 412, 413, 415, 422})

_TYPES: dict[tuple[str, str], ResourceType] = {
    (value.api_version, value.kind): value
    for value in [*vars(ports).values(), *CUSTOM.values()]
    if isinstance(value, ResourceType)
}


def resource_of(manifest: Json) -> ResourceType:
    """Returns the resource type of a manifest, from those that ports/kube.py declares.

    Raises ValueError for any other, since nothing is discovered at run time.
    """
    found = _TYPES.get((manifest["apiVersion"], manifest["kind"]))
    if found is None:
        raise ValueError(
            f"{manifest['apiVersion']} {manifest['kind']} is not a resource type of the operator. Declare it in "
            "ports/kube.py"
        )
    return found


def of_status(pointers: Sequence[str]) -> bool:
    """Whether JSON pointers refer to the status, which is written separately. Raises ValueError if only some do."""
    found = {pointer.startswith("/status/") for pointer in pointers}
    if len(found) > 1:
        raise ValueError("the status and the rest of an object cannot be written together")
    return True in found


def resource_path(
    kind: ResourceType, namespace: str | None, name: str | None = None, subresource: str | None = None
) -> str:
    """Returns the URL path of an object or a collection. Each segment is percent-encoded.

    https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris
    """
    parts = ["apis", kind.group, kind.version] if kind.group else ["api", kind.version]
    if namespace:
        parts += ["namespaces", namespace]
    parts.append(kind.plural)
    parts += [part for part in (name, subresource) if part]
    return encoded_path(parts)


async def load_configuration(kubeconfig: Path | None) -> Configuration:
    """Returns the server address and credentials, from a kubeconfig file or (None) from the pod's service account.

    Raises RuntimeError with a one-sentence message if there is neither.
    """
    configuration = Configuration()
    # Proxy variables of the environment are not for the API server of the cluster the operator runs in.
    configuration.client_session_kwargs = {"trust_env": False}
    configuration.connection_pool_maxsize = 32
    try:
        if kubeconfig is None:
            kube_config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        else:
            await kube_config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig), client_configuration=configuration, persist_config=False
            )
    except (kube_config.ConfigException, OSError) as error:
        where = f"kubeconfig file {kubeconfig}" if kubeconfig else "the pod's service account"
        raise RuntimeError(
            f"cannot connect to Kubernetes with {where} ({error}). Outside of a pod set KUBECONFIG to a kubeconfig file"
        ) from error
    return configuration


async def bearer(configuration: Configuration) -> str | None:
    """Returns the current Authorization header, which is read again if the token file is a minute old; None with
    certificates."""
    value = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    return str(value) if value else None


class KubeClient:
    """A client of one API server. It is created inside the event loop and safe for concurrent use."""

    def __init__(
        self, configuration: Configuration, *, deadline: float = DEADLINE_SECONDS, fence: Fence = open_fence
    ) -> None:
        """``deadline`` is the default time limit of one request in seconds, from connecting to the last byte."""
        self.configuration = configuration
        """Address and credentials."""
        self._rest = RESTClientObject(configuration)
        self._deadline = deadline
        self._fence = fence

    def fenced(self, fence: Fence) -> KubeClient:
        """Returns a client with the same connections that checks ``fence`` before each write."""
        other = copy.copy(self)
        other._fence = fence
        return other

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON_TYPE,
        accept: str = JSON_TYPE,
        deadline: float | None = None,
    ) -> Json:
        """Makes one request without a retry and returns the decoded answer. Raises the errors of ports/errors.py."""
        url = self.configuration.host + path + (f"?{encoded_query(query.items())}" if query else "")
        headers = {"Content-Type": content_type, "Accept": accept, "User-Agent": USER_AGENT}
        limit = deadline or self._deadline
        try:
            authorization = await bearer(self.configuration)
            if authorization:
                headers["Authorization"] = authorization
            if method != "GET":
                self._fence(f"{method} {path}")
            async with asyncio.timeout(limit):
                response = await self._rest.request(  # type: ignore[no-untyped-call]
                    method, url, headers=headers, body=body, _request_timeout=NO_LIMIT
                )
                try:
                    raw = await response.read()
                finally:
                    response.response.release()
        except TimeoutError as error:
            raise DeadlineError(f"{method} {path} got no answer within {limit:g} s") from error
        except (aiohttp.ClientError, OSError, kube_config.ConfigException) as error:
            raise UnavailableError(f"{method} {path} failed ({type(error).__name__}: {error})") from error
        if response.status >= 300:
            raise error_of(response.status, response.headers, raw, f"{method} {path}")
        return _decode(raw, f"{method} {path}")

    async def close(self) -> None:
        """Closes the connections."""
        await self._rest.close()


class GoneError(ConflictError):
    """HTTP 410: the continue token or resourceVersion is too old."""


class BudgetError(UnavailableError):
    """HTTP 429 to an eviction: a PodDisruptionBudget does not allow it now. The message is that of the budget."""


def error_of(status: int, headers: Mapping[str, str], raw: bytes, call: str) -> PortError:
    """Returns the port error of an HTTP status, with the server's message."""
    details: Json = {}
    answered = False
    """Whether the API server itself answers, with a Status, as opposed to a proxy before it."""
    try:
        answer = json.loads(raw)
        answered = answer.get("kind") == "Status"
        message = str(answer.get("message") or answer.get("reason") or "")
        found = answer.get("details")
        details = found if isinstance(found, dict) else {}
    except (ValueError, AttributeError, RecursionError):
        message = raw[:500].decode("utf-8", "replace").strip()
    message = without_refused_values(message or f"HTTP {status} to {call}")[:2000]
    if answered and _BY_ADMISSION.search(message) is not None:
        # Such an answer is about this request alone, whatever its code says.
        return RefusedError(message, status=status)
    if status == 404:
        # A Status that names an object says that the object is missing; one without says so of the whole type.
        # Only the first may ever be read as "gone".
        return NotFoundError(message) if details.get("name") else NotServedError(f"{call}: {message}")
    if status == 410:
        return GoneError(message)
    # A foreign metadata.uid is a conflict when there is no object of the name, and a 422 when there is another one.
    foreign = status == 422 and any(cause.get("field") == "metadata.uid" for cause in _causes(details))
    if status in _CONFLICT or foreign:
        return ConflictError(message)
    denied = _DENIED.search(message) if status == 403 else None
    if denied is not None:
        return ForbiddenError(_right(denied))
    if status in _REFUSED:
        return RefusedError(message, status=status)
    refusal = _budget(message, details) if status == 429 else None
    if refusal is not None:
        return BudgetError(refusal, retry_after=_retry_after(headers, details))
    retry_after = _retry_after(headers, details)
    if status == 500 and answered:
        return ServerError(f"HTTP 500: {message}", retry_after=retry_after)
    if status == 504 and answered:
        return DeadlineError(f"HTTP 504: {message}", retry_after=retry_after, status=status)
    return UnavailableError(f"HTTP {status}: {message}", retry_after=retry_after, status=status)


_DENIED = re.compile(
    r'User ".*" cannot (?P<verb>\S+) '
    r'(?:resource "(?P<resource>[^"]*)"(?: in API group "(?P<group>[^"]*)")?|path "[^"]*")'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
"""Wording of the API server's authorizers (package responsewriters, forbiddenMessage). A denial by an admission plugin
or a quota has the same code and reason, but another wording."""


_BY_ADMISSION = re.compile(
    r"""admission webhook "[^"]*" denied the request"""
    r"""|ValidatingAdmissionPolicy '[^']*' (?:with binding '[^']*' )?denied request"""
)
"""Wording of the API server for a denial by a webhook or a policy. Code and reason are those that the webhook or policy
chose, such as HTTP 404, 409 or 503 (packages webhook/errors and policy/validating)."""


def _causes(details: Json) -> list[Json]:
    found = details.get("causes")
    return [cause for cause in found if isinstance(cause, dict)] if isinstance(found, list) else []


def _right(denied: re.Match[str]) -> str:
    """Returns a message about the missing permission, without the name of the account."""
    resource, group, namespace = denied["resource"] or "the requested resource", denied["group"], denied["namespace"]
    what = f"{resource}.{group}" if group else resource
    where = f"in Kubernetes namespace {namespace}" if namespace else "in the whole Kubernetes cluster"
    return f"the operator has no permission to {denied['verb']} {what} {where}"


def _budget(message: str, details: Json) -> str | None:
    """Returns a PodDisruptionBudget's refusal of an eviction; None if the answer 429 is not from a budget.

    The cause contains the budget and its numbers (policy/v1, DisruptionBudgetCause); priority and fairness has none. If
    a proxy or another version omits the cause, the wording alone decides.
    """
    causes = [cause for cause in _causes(details) if cause.get("reason") == "DisruptionBudget"]
    if not causes and "disruption budget" not in message:
        return None
    words = "; ".join(text for cause in causes if (text := str(cause.get("message") or "").rstrip(".")))
    return without_refused_values(words)[:2000] or message


def _retry_after(headers: Mapping[str, str], details: Json) -> float | None:
    for value in (headers.get("Retry-After"), details.get("retryAfterSeconds")):
        try:
            if value is not None and float(value) > 0:
                return float(value)
        except (TypeError, ValueError):
            continue  # an HTTP date; Kubernetes sends seconds
    return None


def _decode(raw: bytes, call: str) -> Json:
    if not raw:
        return {}
    try:
        answer = json.loads(raw)
    except ValueError as error:
        raise UnavailableError(f"{call} returned an answer that is not JSON") from error
    if not isinstance(answer, dict):
        raise UnavailableError(f"{call} returned an answer that is not a JSON object")
    return answer
