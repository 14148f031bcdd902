"""Names of the fields of a Java class, read from a jar (Java Virtual Machine Specification, chapter 4)."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

MAGIC = 0xCAFEBABE
STATIC = 0x0008
UTF8 = 1
SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""Bytes after the tag of each kind of constant but texts."""
TWO_PLACES = (5, 6)
"""Constants that count twice."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, size: int) -> int:
        (found,) = struct.unpack_from({2: ">H", 4: ">I"}[size], self._data, self._at)
        self._at += size
        return int(found)

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]


def field_names(jar: Path, class_name: str) -> set[str]:
    """Names of the fields of a class that are not static. Raises KeyError when the jar has no such class."""
    with zipfile.ZipFile(jar) as archive:
        data = _Reader(archive.read(class_name.replace(".", "/") + ".class"))
    if data.number(4) != MAGIC:
        raise ValueError(f"{class_name} in {jar.name} is no class file")
    data.take(4)
    texts: dict[int, str] = {}
    index, count = 1, data.number(2)
    while index < count:
        tag = data.take(1)[0]
        if tag == UTF8:
            texts[index] = data.take(data.number(2)).decode("utf-8", "replace")
        else:
            data.take(SIZES[tag])
        index += 2 if tag in TWO_PLACES else 1
    data.take(6)
    data.take(2 * data.number(2))
    names = set()
    for _ in range(data.number(2)):
        flags, name = data.number(2), data.number(2)
        data.take(2)
        for _ in range(data.number(2)):
            data.take(2)
            data.take(data.number(4))
        if not flags & STATIC:
            names.add(texts[name])
    return names
