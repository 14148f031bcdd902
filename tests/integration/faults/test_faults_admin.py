"""Which 404 is Pulsar's, and may be read as "gone"."""

from __future__ import annotations

import pytest
from aiohttp import web

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.ports import AdminEndpoint, NotFoundError, UnavailableError
from tests.fakes.admin import serve
from tests.fakes.pulsar import FakePulsar
from tests.support.faults_http import PAGE
from tests.support.recorder import CountingMetrics

JETTY = {"servlet": "org.glassfish.jersey.servlet.ServletContainer", "message": "Not Found", "status": "404"}


async def ask(answer: web.Response, method: str) -> None:
    """A call that is answered so."""
    admin = AiohttpAdmin(CountingMetrics(), deadline=5)
    try:
        async with serve(FakePulsar(), script=lambda request: answer) as (url, _):
            await admin.call(AdminEndpoint("a", url), method, ("namespaces", "t", "n"))
    finally:
        await admin.close()


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize(
    ("body", "kind"),
    [(PAGE, "text/html"), ("default backend - 404", "text/plain"), ("", "text/plain"), ('"gone"', "application/json")],
    ids=["page", "line", "empty", "a word"],
)
async def test_somebody_elses_404_is_no_answer(method: str, body: str, kind: str) -> None:
    with pytest.raises(UnavailableError, match=r"404.*not from Pulsar"):
        await ask(web.Response(status=404, text=body, content_type=kind), method)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("body", [{"reason": "Namespace does not exist"}, JETTY], ids=["resource", "web server"])
async def test_pulsars_404_is_believed(method: str, body: dict[str, str]) -> None:
    with pytest.raises(NotFoundError):
        await ask(web.json_response(body, status=404), method)
