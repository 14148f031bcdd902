"""Tokens of the operator's ServiceAccount for other audiences, from the API server (TokenRequest).

A token is requested for one audience, and kept until half of its life is over. While the API server gives no new one,
the old one is used to its end.
https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pulsar_operator.adapters.admin_access import TOKEN
from pulsar_operator.adapters.kube_http import KubeClient, resource_path
from pulsar_operator.ports import SERVICE_ACCOUNTS, Clock, PortError, UnavailableError

LIFETIME_SECONDS = 3600
"""Requested lifetime in seconds. The API server may choose another one."""
REFUSED_SECONDS = 60
"""Seconds after a refusal in which further refusals request no other token: brokers that refuse every token must not
become a load on the API server."""


@dataclass(frozen=True)
class _Token:
    text: str = field(repr=False)
    renew: datetime
    """Time from which a new one is requested."""
    end: datetime


class ServiceAccountTokens:
    """The tokens of one ServiceAccount."""

    def __init__(self, client: KubeClient, clock: Clock, *, namespace: str, name: str) -> None:
        self._client, self._clock = client, clock
        self._path = resource_path(SERVICE_ACCOUNTS, namespace, name, "token")
        self._kept: dict[str, _Token] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._refused: dict[str, datetime] = {}

    async def token(self, audience: str) -> str:
        """Returns a token for an audience. Raises PortError if there is none."""
        async with self._locks.setdefault(audience, asyncio.Lock()):
            kept, now = self._kept.get(audience), self._clock.now()
            if kept is not None and now < kept.renew:
                return kept.text
            try:
                new = self._kept[audience] = await self._requested(audience)
            except PortError:
                if kept is not None and now < kept.end:
                    return kept.text
                raise
            return new.text

    def refused(self, audience: str) -> None:
        """Forgets a token that a server refused, so that the next call requests another one; once in
        REFUSED_SECONDS."""
        now, before = self._clock.now(), self._refused.get(audience)
        if before is None or (now - before).total_seconds() >= REFUSED_SECONDS:
            self._refused[audience] = now
            self._kept.pop(audience, None)

    async def _requested(self, audience: str) -> _Token:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [audience], "expirationSeconds": LIFETIME_SECONDS},
        }
        began = self._clock.now()
        answer: Any = await self._client.request("POST", self._path, body=body)
        try:
            text = str(answer["status"]["token"])
            end = datetime.fromisoformat(str(answer["status"]["expirationTimestamp"]).replace("Z", "+00:00"))
            renew = began + (end - began) / 2
        except (KeyError, TypeError, ValueError):
            raise UnavailableError("the Kubernetes API server answered a TokenRequest without a token") from None
        if TOKEN.fullmatch(text) is None:
            raise UnavailableError("the Kubernetes API server answered a TokenRequest without a token")
        return _Token(text, renew, end)
