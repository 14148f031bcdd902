"""Entries of topics and their retention against the in-memory Pulsar."""

from __future__ import annotations

import pytest

from pulsar_operator.ports import AdminEndpoint
from tests.fakes.admin import FakeAdmin
from tests.fakes.pulsar import FakePulsar
from tests.support.contracts.content import ContentContract, Publish
from tests.support.contracts.policies import Place, placed, with_other, with_tenant


@pytest.fixture
def pulsar() -> FakePulsar:
    """The one of the test."""
    return FakePulsar()


@pytest.fixture
async def place(pulsar: FakePulsar) -> Place:
    """A namespace and a topic in it."""
    admin, endpoint = FakeAdmin(pulsar), AdminEndpoint("a", "http://fake")
    await with_other(admin, endpoint)
    return await placed(admin, endpoint, await with_tenant(admin, endpoint, "contract"), "n")


@pytest.fixture
def publish(pulsar: FakePulsar) -> Publish:
    """Played by hand."""

    async def send(topic: str, number: int) -> None:
        pulsar.topics["a"][topic].entries += number

    return send


class TestContentContract(ContentContract):
    """See tests/support/contracts/content.py."""
