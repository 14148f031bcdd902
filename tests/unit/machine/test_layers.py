"""The stream of images to a node: everything that it lacks, nothing that it has."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from e2e.kind.layers import UnknownArchiveError, rewrite

SHARED, OWN_A, OWN_B = b"shared layer", b"layer of a", b"layer of b"


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Saved:
    """Writes an archive as Docker 20 does: a layer of several images is there once, with links for the others."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.images: list[dict[str, Any]] = []
        self.tar = tarfile.open(path, "w")  # noqa: SIM115

    def file(self, name: str, data: bytes) -> None:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        self.tar.addfile(entry, io.BytesIO(data))

    def link(self, name: str, target: str) -> None:
        entry = tarfile.TarInfo(name)
        entry.type = tarfile.SYMTYPE
        entry.linkname = target
        self.tar.addfile(entry)

    def image(self, tag: str, layers: dict[str, bytes]) -> bytes:
        config = json.dumps({"tag": tag, "rootfs": {"diff_ids": [digest(data) for data in layers.values()]}}).encode()
        name = hashlib.sha256(config).hexdigest() + ".json"
        self.file(name, config)
        self.images.append({"Config": name, "RepoTags": [tag], "Layers": list(layers)})
        return config

    def close(self) -> Path:
        self.file("manifest.json", json.dumps(self.images).encode())
        self.tar.close()
        return self.path


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    archive = Saved(tmp_path / "saved.tar")
    archive.file("one/layer.tar", SHARED)
    archive.file("two/layer.tar", OWN_A)
    archive.link("three/layer.tar", "../one/layer.tar")
    archive.file("four/layer.tar", OWN_B)
    archive.image("a:1", {"one/layer.tar": SHARED, "two/layer.tar": OWN_A})
    archive.image("b:1", {"three/layer.tar": SHARED, "four/layer.tar": OWN_B})
    return archive.close()


NAMES = {"a:1": "docker.io/library/a:1", "b:1": "docker.io/library/b:1"}


def contents(sink: io.BytesIO) -> dict[str, bytes]:
    sink.seek(0)
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=sink) as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            assert member.name not in found
            found[member.name] = file.read()
    return found


def test_an_empty_node_gets_every_layer_once(saved: Path) -> None:
    sink = io.BytesIO()
    assert rewrite(saved, NAMES, (), sink) == [digest(SHARED), digest(OWN_A), digest(OWN_B)]
    found = contents(sink)
    for name, data in found.items():
        if name.startswith("blobs/"):
            assert digest(data) == name.removeprefix("blobs/").replace("/", ":")
    index = json.loads(found["index.json"])
    assert [item["annotations"]["io.containerd.image.name"] for item in index["manifests"]] == list(NAMES.values())


def test_what_the_node_has_stays_at_home_but_is_still_named(saved: Path) -> None:
    sink = io.BytesIO()
    assert rewrite(saved, NAMES, {digest(SHARED), digest(OWN_A)}, sink) == [digest(OWN_B)]
    found = contents(sink)
    assert f"blobs/{digest(SHARED).replace(':', '/')}" not in found
    first = json.loads(found["index.json"])["manifests"][0]
    manifest = json.loads(found[f"blobs/{first['digest'].replace(':', '/')}"])
    assert [(layer["digest"], layer["size"]) for layer in manifest["layers"]] == [
        (digest(SHARED), len(SHARED)),
        (digest(OWN_A), len(OWN_A)),
    ]
    assert manifest["config"]["digest"].removeprefix("sha256:") in json.dumps(list(found))


def test_an_archive_of_a_newer_engine_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    archive = Saved(tmp_path / "new.tar")
    archive.file("blobs/sha256/aa", SHARED)
    archive.image("a:1", {"blobs/sha256/aa": SHARED})
    sink = io.BytesIO()
    with pytest.raises(UnknownArchiveError):
        rewrite(archive.close(), NAMES, (), sink)
    assert sink.getvalue() == b""
