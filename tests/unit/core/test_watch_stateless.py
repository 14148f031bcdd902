"""What kopf is left to do with an event: nothing that copies or remembers the object."""

from __future__ import annotations

from typing import Any, NoReturn

import aiohttp
import kopf
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from pulsar_operator.adapters.watch_monitor import WatchMonitor, observed_response
from pulsar_operator.handlers.streams import kopf_settings


class Uncopied(dict[str, Any]):
    """A part of an object that must not be copied."""

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise AssertionError("the object of an event was copied")


def test_an_event_costs_no_copy_of_its_object() -> None:
    body = kopf.Body({"metadata": Uncopied(name="t", labels=Uncopied(a="b")), "spec": Uncopied(), "status": Uncopied()})
    storages = kopf_settings().persistence
    essence = storages.diffbase_storage.build(body=body, extra_fields=())
    assert storages.progress_storage.clear(essence=essence) == {}
    assert storages.diffbase_storage.fetch(body=body) is None
    patch = kopf.Patch()
    storages.diffbase_storage.store(body=body, patch=patch, essence=essence)
    storages.progress_storage.touch(body=body, patch=patch, value="now")
    assert patch == {}


@pytest.mark.parametrize("size", [1, 3])
async def test_a_list_is_decoded_without_what_takes_most_of_the_memory(size: int) -> None:
    fields = [{"manager": "m", "fieldsV1": {"f:status": {f"f:{n}": {} for n in range(9)}}}]
    meta = {"name": "t", "resourceVersion": "7", "managedFields": fields}
    item = {"metadata": meta, "status": {"managedFields": ["policies.retention"]}}

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": [item] * size})

    app = web.Application()
    app.router.add_get("/list", answer)
    async with (
        TestServer(app) as server,
        aiohttp.ClientSession(response_class=observed_response(WatchMonitor(lambda: 0.0))) as session,
        session.get(server.make_url("/list")) as response,
    ):
        found = await response.json()
    kept = {"metadata": {"name": "t", "resourceVersion": "7"}, "status": item["status"]}
    assert found == {"metadata": {"resourceVersion": "9"}, "items": [kept] * size}
