"""The contract of the store's files on a real server of S3, and what only such a server promises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pulsar_sizing.files import Files, StoreError
from pulsar_sizing.place import S3
from pulsar_sizing.store import Store
from tests.support.contracts.files import FilesContract
from tests.support.processes.s3 import S3Server, running_s3


@pytest.fixture(scope="module", name="server")
def _server() -> Iterator[S3Server]:
    with running_s3() as found:
        yield found


@pytest.fixture(autouse=True)
def credentials(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the server, as a Secret's keys become variables of a pod."""
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(name="root")
def _root(server: S3Server) -> str:
    return f"s3://{server.new_bucket()}/a root/below"


class TestS3Files(FilesContract):
    """A folder of a bucket, opened by the names that pyarrow and Hadoop have for it."""

    @pytest.fixture
    def files(self, root: str, server: S3Server) -> Files:
        return Store(root, s3=server.s3)

    @pytest.fixture
    def again(self, root: str, server: S3Server) -> Files:
        return Store(f"{root.replace('s3://', 's3a://')}/", s3=S3(f"{server.endpoint}/", addressing="path"))


class TestWholeBucket(FilesContract):
    """A bucket without a folder."""

    @pytest.fixture
    def files(self, server: S3Server) -> Files:
        return Store(f"s3://{server.new_bucket()}", s3=server.s3)

    @pytest.fixture
    def again(self, files: Files, server: S3Server) -> Files:
        return Store(f"{files.root}/", s3=server.s3)


def test_wrong_credentials_are_an_error_and_not_an_empty_store(
    server: S3Server, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(root, s3=server.s3).put("a/b", b"x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    store = Store(root, s3=server.s3)
    for read in (lambda: store.get("a/b"), lambda: store.names("a"), lambda: store.put("a/c", b"x")):
        with pytest.raises(OSError, match=r"(?i)signature|access.denied|forbidden"):
            read()


def test_a_bucket_that_is_not_there_is_an_error_and_not_an_empty_store(server: S3Server) -> None:
    store = Store("s3://no-such-bucket/traffic", s3=server.s3)
    with pytest.raises(OSError, match=r"(?i)no-?such-?bucket"):
        store.put("a/c", b"x")


@pytest.mark.parametrize(
    ("root", "s3", "words"),
    [
        ("s3:///x", S3("http://127.0.0.1:1"), "names no bucket"),
        ("s3://bucket/x", S3(addressing="path"), "needs an S3 endpoint"),
        ("s3a://bucket/x", S3("127.0.0.1:1"), "is no URL"),
    ],
)
def test_settings_that_contradict_each_other(root: str, s3: S3, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        Store(root, s3=s3)
