"""The file system below a root: a local folder, or a bucket of an object store that pyarrow.fs reaches.

Everything in this package that lists, reads, writes or deletes files does it here; Spark alone reads and writes the
same places by :func:`spark_path`. Roots ``s3://`` and ``s3a://`` are reached by pyarrow's S3FileSystem, which is in the
lock already, and looks for credentials where every SDK of AWS looks (variables, files, workload identity).

**A reader sees a file whole or not at all.** On a local disk a file is written under ``_tmp`` (hidden from Spark), its
bytes are brought to the disk, and it is renamed. On an object store, which has no rename, a small file is one request,
and a long one is copied on the server from under ``_tmp``; both appear whole.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from pulsar_sizing import layout
from pulsar_sizing.arrow import fs
from pulsar_sizing.place import S3, S3_SCHEMES, Place, scheme_of

TEMPORARY_AGE = timedelta(hours=1)
"""Age after which a file under ``_tmp`` without writes counts as left by a killed writer."""
OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})


class StoreError(Exception):
    """The store cannot be used as asked; the message says what to do."""


class Files:
    """Reads and writes below one root. Methods block: call them in a thread from async code."""

    def __init__(self, root: str, *, s3: S3 | None = None, filesystem: Any = None) -> None:
        """``root`` is a path or URL; ``s3`` says how the server of an s3:// or s3a:// root is reached.

        Credentials of object stores come from where their SDK looks (environment, files, workload identity).
        ``filesystem`` is a pyarrow FileSystem to use instead, with ``root`` a path in it. Raises StoreError for a root
        that pyarrow does not understand.
        """
        self.root = root.rstrip("/")
        self.place = Place(root, s3 or S3())
        scheme = scheme_of(root)
        self._scheme = S3_SCHEMES[0] if scheme in S3_SCHEMES else None if scheme == "file" else scheme
        if filesystem is not None:
            self._fs, self._base = filesystem, self.root
        else:
            self._fs, self._base = _open(self.place)
        self._has_folders = self._fs.type_name not in OBJECT_STORES

    @property
    def copies(self) -> bool:
        """Whether a file is copied when it is moved to its name: object stores have no rename."""
        return not self._has_folders

    # Paths below are relative to the root.

    def address(self, path: str) -> str:
        """Absolute path or URL of a path below the root."""
        inside = self._at(path)
        return f"{self._scheme}://{inside}" if self._scheme else inside

    def _at(self, path: str) -> str:
        return f"{self._base}/{path}"

    def temporary(self, path: str) -> str:
        """A new name under ``_tmp`` for what will be ``path``."""
        return f"{layout.TEMPORARY}/{uuid.uuid4().hex}-{path.rpartition('/')[2]}"

    def create(self, path: str) -> Any:
        """An output stream to a file, its folder made where folders are."""
        self._make_folder(path)
        return self._fs.open_output_stream(self._at(path))

    def _make_folder(self, path: str) -> None:
        if self._has_folders:
            self._fs.create_dir(self._at(path.rpartition("/")[0]), recursive=True)

    def make_root(self) -> None:
        """Make the root's folder; on an object store a marker of one, unless the root is a bucket."""
        if self._has_folders or "/" in self._base:
            self._fs.create_dir(self._base, recursive=True)

    def publish(self, temporary: str, path: str) -> None:
        """Move a finished file to its name, over what was there; on a local disk its bytes are on the disk before."""
        if isinstance(self._fs, fs.LocalFileSystem):
            _sync(Path(self._at(temporary)))
        self._make_folder(path)
        self._fs.move(self._at(temporary), self._at(path))

    def put(self, path: str, data: bytes) -> None:
        """Write a small file whole, over what was there."""
        if not self._has_folders:
            # What is written in one call appears whole when the stream is closed, or not at all.
            with self.create(path) as stream:
                stream.write(data)
            return
        temporary = self.temporary(path)
        try:
            with self.create(temporary) as stream:
                stream.write(data)
            self.publish(temporary, path)
        except OSError:
            with suppress(OSError):  # on a full volume what was begun would fill what becomes free
                self.delete(temporary)
            raise

    def get(self, path: str) -> bytes | None:
        """Bytes of a small file; None if there is none."""
        try:
            with self._fs.open_input_stream(self._at(path)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> None:
        """Delete a file; one that is gone already is fine."""
        with suppress(FileNotFoundError):
            self._fs.delete_file(self._at(path))

    def delete_folder(self, path: str) -> None:
        """Delete a folder and what is in it; one that is gone already is fine."""
        with suppress(FileNotFoundError):
            self._fs.delete_dir(self._at(path))

    def listing(self, folder: str, *, recursive: bool = False) -> list[Any]:
        """pyarrow FileInfo of what is in a folder, none if it is not there."""
        return list(
            self._fs.get_file_info(fs.FileSelector(self._at(folder), recursive=recursive, allow_not_found=True))
        )

    def folders(self, folder: str) -> list[str]:
        """Names of the folders in a folder, in order."""
        return sorted(info.base_name for info in self.listing(folder) if info.type == fs.FileType.Directory)

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder, in order."""
        return sorted(info.base_name for info in self.listing(folder) if info.type == fs.FileType.File)

    def relative(self, info: Any) -> str:
        """Path below the root of a FileInfo."""
        return str(info.path)[len(self._base) + 1 :]

    def open(self, path: str) -> Any:
        """A random-access stream. Raises FileNotFoundError."""
        return self._fs.open_input_file(self._at(path))

    def clean_temporary(self, now: datetime, *, age: timedelta = TEMPORARY_AGE) -> int:
        """Delete what killed writers left under ``_tmp``; returns how many files."""
        old = [
            info
            for info in self.listing(layout.TEMPORARY)
            if info.type == fs.FileType.File and info.mtime is not None and now - info.mtime > age
        ]
        for info in old:
            self.delete(self.relative(info))
        return len(old)


def spark_path(address: str) -> str:
    """What Spark reads an address as: s3a:// for s3://, file:// for a plain path, others unchanged."""
    scheme, mark, rest = address.partition("://")
    if not mark:
        return "file://" + address
    return f"s3a://{rest}" if scheme == "s3" else address


def _open(place: Place) -> tuple[Any, str]:
    root = place.root
    if not root:
        raise StoreError("the root is empty: give a folder or a URL such as s3://bucket/folder")
    try:
        if place.on_s3:
            bucket = root.partition("://")[2].rstrip("/")
            return _s3(place.s3, bucket.partition("/")[0]), bucket
        if place.s3.endpoint is not None:
            raise StoreError(f"an S3 endpoint is given, but the root is {root!r}: use s3://bucket/folder")
        if "://" in root:
            system, path = fs.FileSystem.from_uri(root)
            return system, path.rstrip("/")
        return fs.LocalFileSystem(), str(Path(root).absolute())
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError(f"root {root!r} cannot be used: {error}") from None


def _s3(s3: S3, bucket: str) -> Any:
    """pyarrow's file system of a bucket. Raises StoreError for settings that contradict each other, OSError."""
    if not bucket:
        raise StoreError("the root names no bucket: use s3://bucket/folder")
    if s3.endpoint is None:
        if s3.addressing == "path":
            raise StoreError("addressing by path needs an S3 endpoint: AWS is addressed by host names without one")
        return fs.S3FileSystem(region=s3.region or fs.resolve_s3_region(bucket), allow_delayed_open=True)
    protocol, mark, host = s3.endpoint.rstrip("/").partition("://")
    if not mark or protocol not in {"http", "https"}:
        raise StoreError(f"S3 endpoint {s3.endpoint!r} is no URL: give http://host:port or https://host:port")
    return fs.S3FileSystem(
        endpoint_override=host,
        scheme=protocol,
        region=s3.signed_for(),
        force_virtual_addressing=not s3.by_path,
        # A small file is then one request and not three.
        allow_delayed_open=True,
    )


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
