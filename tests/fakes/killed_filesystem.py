"""A local file system for pyarrow on which the process dies at a chosen write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import fs

from tests.fakes.killed import Killed

WRITES = ("create_dir", "delete_dir", "delete_file", "move", "open_output_stream", "write", "close")


class _File:
    """An output stream whose writes count."""

    def __init__(self, owner: KilledFileSystem, stream: Any) -> None:
        self._owner = owner
        self._stream = stream
        self.closed = False

    def write(self, data: Any) -> None:
        self._owner.step("write", lambda: self._stream.write(data))

    def record_event(self) -> int:
        return int(self._stream.tell())

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._owner.step("close", self._stream.close)

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


class KilledFileSystem(fs.FileSystemHandler):  # type: ignore[misc]
    """Counts writes; dies at write ``kill_at`` (from 0), before or after it took effect. -1 = never.

    Nothing has an effect after that.
    """

    def __init__(self, kill_at: int = -1, *, after: bool = False, watch: Callable[[], None] | None = None) -> None:
        """``watch`` is called after every write: a reader that comes at just that moment."""
        self._local = fs.LocalFileSystem()
        self._kill_at = kill_at
        self._after = after
        self._watch = watch
        self.writes: list[str] = []
        self.dead = False

    def filesystem(self) -> Any:
        """The pyarrow FileSystem."""
        return fs.PyFileSystem(self)

    def step(self, name: str, do: Callable[[], Any]) -> Any:
        """One write."""
        if self.dead:
            raise Killed(name)
        at = len(self.writes)
        self.writes.append(name)
        if at == self._kill_at and not self._after:
            self.dead = True
            raise Killed(name)
        result = do()
        if at == self._kill_at:
            self.dead = True
            raise Killed(name)
        if self._watch is not None:
            self._watch()
        return result

    def get_type_name(self) -> str:
        return "killed"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> Any:
        return self._local.get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        return self._local.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self.step("create_dir", lambda: self._local.create_dir(path, recursive=recursive))

    def delete_dir(self, path: str) -> None:
        self.step("delete_dir", lambda: self._local.delete_dir(path))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self.step("delete_file", lambda: self._local.delete_file(path))

    def move(self, src: str, dest: str) -> None:
        self.step("move", lambda: self._local.move(src, dest))

    def copy_file(self, src: str, dest: str) -> None:
        raise NotImplementedError

    def open_input_stream(self, path: str) -> Any:
        return self._local.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        return self._local.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        stream = self.step("open_output_stream", lambda: self._local.open_output_stream(path))
        return pa.PythonFile(_File(self, stream), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError
