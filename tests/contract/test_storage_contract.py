"""Facts about storage on the in-memory ZooKeeper."""

from __future__ import annotations

import pytest

from tests.fakes.zookeeper import FakeZooKeeper
from tests.support.contracts.storage import StorageContract, Store


@pytest.fixture
async def store() -> Store:
    return await Store(await FakeZooKeeper().session("zk:2181", "/c")).set_up()


class TestStorageContract(StorageContract):
    """See tests/support/contracts/storage.py."""
