"""Tokens of the operator's ServiceAccount: requested for one audience, renewed in time, never told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.adapters.admin_access import Accesses
from pulsar_operator.adapters.service_account_tokens import ServiceAccountTokens
from pulsar_operator.ports import (
    AdminAccess,
    AdminEndpoint,
    AuthenticationError,
    ForbiddenError,
    PortError,
    UnavailableError,
)
from tests.support.core.clocks import SteppingClock
from tests.support.core.recorder import CountingMetrics
from tests.support.secured.server import serving

PATH = "/api/v1/namespaces/ops/serviceaccounts/pulsar-operator/token"


class Api:
    """A KubeClient that answers TokenRequests, each with another token."""

    def __init__(self, clock: SteppingClock, seconds: float = 3600) -> None:
        self.clock, self.seconds = clock, seconds
        self.asked: list[tuple[str, str, Any]] = []
        self.error: PortError | None = None
        self.answer: Any = None

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        """See KubeClient."""
        self.asked.append((method, path, body))
        if self.error is not None:
            raise self.error
        if self.answer is not None:
            return self.answer
        end = self.clock.now() + timedelta(seconds=self.seconds)
        token = f"canary.{body['spec']['audiences'][0]}.{len(self.asked)}"
        return {"status": {"token": token, "expirationTimestamp": end.strftime("%Y-%m-%dT%H:%M:%SZ")}}


def made(seconds: float = 3600) -> tuple[Api, ServiceAccountTokens]:
    clock = SteppingClock()
    api = Api(clock, seconds)
    return api, ServiceAccountTokens(api, clock, namespace="ops", name="pulsar-operator")  # type: ignore[arg-type]


async def test_a_token_is_for_one_audience_and_kept_for_half_its_life() -> None:
    api, tokens = made()
    first, other = await tokens.token("a"), await tokens.token("b")
    assert first != other and [await tokens.token("a"), await tokens.token("b")] == [first, other]
    method, path, body = api.asked[0]
    assert (method, path, body["spec"]["audiences"], body["kind"]) == ("POST", PATH, ["a"], "TokenRequest")
    api.clock.forward(1700)
    assert await tokens.token("a") == first and len(api.asked) == 2
    api.clock.forward(200)
    assert await tokens.token("a") != first and len(api.asked) == 3


async def test_the_old_one_is_used_to_its_end_while_there_is_no_new_one() -> None:
    api, tokens = made()
    first = await tokens.token("a")
    api.error = UnavailableError("the API server is away")
    api.clock.forward(3000)
    assert await tokens.token("a") == first
    api.clock.forward(700)
    with pytest.raises(UnavailableError, match="away"):
        await tokens.token("a")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        {"status": {"token": "two words", "expirationTimestamp": "2027-01-01T00:00:00Z"}},
        {"status": {"token": "a.b.c", "expirationTimestamp": "soon"}},
    ],
)
async def test_an_answer_without_a_token(answer: Any) -> None:
    api, tokens = made()
    api.answer = answer
    with pytest.raises(UnavailableError, match="answered a TokenRequest without a token"):
        await tokens.token("a")


async def test_requests_carry_the_token_of_their_audience_and_a_new_one_after_a_refusal() -> None:
    _, tokens = made()
    admin = AiohttpAdmin(CountingMetrics(), deadline=20, tokens=tokens)
    try:
        async with serving(None, accepted="canary.a.2") as server:
            endpoint = AdminEndpoint("east", server.url(scheme="http"), AdminAccess(("localhost",), audience="a"))
            with pytest.raises(AuthenticationError, match="refused the operator's token for audience a") as caught:
                await admin.call(endpoint, "GET", ("clusters",))
            assert await admin.call(endpoint, "GET", ("clusters",)) == ["a"]
    finally:
        await admin.close()
    assert server.tokens == ["Bearer canary.a.1", "Bearer canary.a.2"]
    assert "canary" not in f"{caught.value}{caught.value!r}{tokens._kept!r}{vars(tokens)!r}"


async def test_refusals_in_a_row_request_one_new_token_a_minute() -> None:
    """Brokers that refuse every token must not become a load on the API server."""
    api, tokens = made()
    first = await tokens.token("a")
    for _ in range(15):
        tokens.refused("a")
        second = await tokens.token("a")
    assert second != first and len(api.asked) == 2
    api.clock.forward(61)
    tokens.refused("a")
    assert await tokens.token("a") != second and len(api.asked) == 3


async def test_what_is_missing_is_said() -> None:
    api, tokens = made()
    access = AdminAccess(("localhost",), audience="a")
    api.error = ForbiddenError("create serviceaccounts/token")
    with pytest.raises(UnavailableError, match="is not permitted to request a token of its ServiceAccount"):
        await Accesses(tokens).headers(access)
    with pytest.raises(UnavailableError, match="PULSAR_OPERATOR_SERVICE_ACCOUNT"):
        await Accesses().headers(access)
