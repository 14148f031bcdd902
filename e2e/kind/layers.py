"""A stream of images without the layers that its receiver has: a new operator image is then 1 MB instead of 340."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


class UnknownArchiveError(ValueError):
    """What ``docker save`` wrote is not in the form of the engines before 25."""


class OciWriter:
    """Writes an OCI image layout, as a tar, to a stream that cannot seek."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._tar = tarfile.open(fileobj=sink, mode="w|")  # noqa: SIM115 (closed in close)
        self._written: set[str] = set()

    def blob(self, digest: str, size: int, source: IO[bytes]) -> None:
        """Add a blob, once."""
        if digest not in self._written:
            self._written.add(digest)
            self._add("blobs/" + digest.replace(":", "/"), size, source)

    def data(self, document: bytes) -> tuple[str, int]:
        """Add a small blob; its digest and size."""
        digest = "sha256:" + hashlib.sha256(document).hexdigest()
        self.blob(digest, len(document), io.BytesIO(document))
        return digest, len(document)

    def close(self, manifests: list[Mapping[str, Any]]) -> None:
        """Add the index of all manifests and end the archive."""
        index = {"schemaVersion": 2, "manifests": manifests}
        for name, document in (("oci-layout", {"imageLayoutVersion": "1.0.0"}), ("index.json", index)):
            text = json.dumps(document).encode()
            self._add(name, len(text), io.BytesIO(text))
        self._tar.close()

    def _add(self, name: str, size: int, source: IO[bytes]) -> None:
        entry = tarfile.TarInfo(name)
        entry.size = size
        entry.mode = 0o644
        self._tar.addfile(entry, source)


def rewrite(saved: Path, names: Mapping[str, str], have: Collection[str], sink: IO[bytes]) -> list[str]:
    """Turn what ``docker save`` wrote into an OCI archive without the layers in ``have``; the digests that it sends.

    names gives the full name under which each tag is to be known. Raises UnknownArchiveError for an archive of an
    engine that may compress its layers, before anything is written.
    """
    with tarfile.open(saved) as archive:
        images = json.load(_open(archive, "manifest.json"))
        if any(layer.startswith("blobs/") for image in images for layer in image["Layers"]):
            raise UnknownArchiveError("the layers of this archive may be compressed")
        writer = OciWriter(sink)
        manifests: list[Mapping[str, Any]] = []
        sent: list[str] = []
        for image in images:
            config = _open(archive, image["Config"]).read()
            layers = []
            for layer, digest in zip(image["Layers"], json.loads(config)["rootfs"]["diff_ids"], strict=True):
                member = _member(archive, layer)
                layers.append({"mediaType": LAYER, "digest": digest, "size": member.size})
                if digest not in have and digest not in sent:
                    sent.append(digest)
                    writer.blob(digest, member.size, _open(archive, member.name))
            digest, size = writer.data(config)
            manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers}
            manifest["config"] = {"mediaType": CONFIG, "digest": digest, "size": size}
            digest, size = writer.data(json.dumps(manifest).encode())
            for tag in image["RepoTags"]:
                note = {"io.containerd.image.name": names[tag]}
                manifests.append({"mediaType": MANIFEST, "digest": digest, "size": size, "annotations": note})
        writer.close(manifests)
        return sent


def _member(archive: tarfile.TarFile, name: str) -> tarfile.TarInfo:
    member = archive.getmember(name)
    if member.issym():
        # A layer that several images share is there once; the others have a link to it.
        parts: list[str] = list(Path(name).parent.parts)
        for part in Path(member.linkname).parts:
            if part == "..":
                parts.pop()
            else:
                parts.append(part)
        return _member(archive, "/".join(parts))
    return member


def _open(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    opened = archive.extractfile(_member(archive, name))
    if opened is None:
        raise UnknownArchiveError(f"{name} is not a file")
    return opened
