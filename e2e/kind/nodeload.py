"""Getting images from the container engine into a cluster's node, and only those that it does not have yet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.kind.docker import Docker
from e2e.kind.layers import UnknownArchiveError, rewrite
from e2e.kind.shell import CommandError, Log

CTR = ("ctr", "--namespace", "k8s.io")


def containerd_name(tag: str) -> str:
    """The full name under which a node keeps an image that Docker calls by a short one."""
    first = tag.split("/", 1)[0]
    if "/" not in tag:
        return f"docker.io/library/{tag}"
    if "." in first or ":" in first or first == "localhost":
        return tag
    return f"docker.io/{tag}"


def parse_listing(text: str) -> dict[str, str]:
    """Manifest digest by image name, from what ``ctr images ls`` prints."""
    found: dict[str, str] = {}
    for line in text.splitlines()[1:]:
        words = line.split()
        digest = next((word for word in words[1:] if word.startswith("sha256:")), "")
        if words and digest:
            found[words[0]] = digest
    return found


def manifest_ids(digest: str, manifest: Mapping[str, object]) -> set[str]:
    """Every id by which an engine may call the image of this manifest: its own digest and that of its configuration."""
    config = manifest.get("config")
    ids = {digest}
    if isinstance(config, Mapping):
        ids.add(str(config.get("digest", "")))
    children = manifest.get("manifests")
    if isinstance(children, Sequence):
        ids |= {str(child.get("digest", "")) for child in children if isinstance(child, Mapping)}
    return ids


def missing_images(docker: Docker, node: str, tags: Sequence[str]) -> list[str]:
    """Those tags that the node lacks or has in another version than the engine; tags the engine lacks are left out."""
    facts = docker.image_facts(tags)
    listing = parse_listing(docker.capture("exec", node, *CTR, "images", "ls"))
    missing = []
    for tag in tags:
        if tag not in facts:
            continue
        digest = listing.get(containerd_name(tag), "")
        if not digest or facts[tag][0] not in _ids_in_node(docker, node, digest):
            missing.append(tag)
    return missing


def load(docker: Docker, node: str, tags: Sequence[str], log: Log, scratch: Path) -> None:
    """Copy images into a node, all in one stream, and of their layers only those that the node lacks.

    Where that is not possible (another form of archive, a layer that the node has just dropped), everything goes over.
    """
    importer = [docker.program(), "exec", "--interactive", node, *CTR, "images", "import", "-"]
    names = {tag: containerd_name(tag) for tag in tags}
    listing = parse_listing(docker.capture("exec", node, *CTR, "images", "ls"))
    if not listing.keys() & set(names.values()):
        # Nothing to leave out, and a file in between would only cost time.
        log.pipe([docker.program(), "save", *tags], importer)
        return
    saved = scratch / "images.tar"
    docker.run(log, "save", "--output", saved, *tags)
    have = set(docker.capture("exec", node, *CTR, "content", "ls", "--quiet").split())
    try:
        with log.feed(importer) as sink:
            sent = rewrite(saved, names, have, sink)
        log.write(f"sent {len(sent)} layers: {' '.join(sent)}")
        if not missing_images(docker, node, tags):
            return
    except (CommandError, UnknownArchiveError, OSError) as error:
        log.write(f"sending everything: {error}")
    log.pipe(["cat", saved], importer)


def _ids_in_node(docker: Docker, node: str, digest: str) -> set[str]:
    try:
        return manifest_ids(digest, json.loads(docker.capture("exec", node, *CTR, "content", "get", digest)))
    except (CommandError, json.JSONDecodeError):
        return {digest}
