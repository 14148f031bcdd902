"""The contract of the store's files on a local folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsar_sizing.files import Files
from pulsar_sizing.store import Store
from tests.support.contracts.files import FilesContract


class TestLocalFiles(FilesContract):
    """A folder that is not there before the first file."""

    @pytest.fixture
    def files(self, tmp_path: Path) -> Files:
        return Store(str(tmp_path / "a root" / "below"))

    @pytest.fixture
    def again(self, tmp_path: Path) -> Files:
        return Store((tmp_path / "a root" / "below").as_uri())
