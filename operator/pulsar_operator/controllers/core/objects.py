"""Parts of custom resources that controllers share: metadata, owner of children, invalid fields, commands for
messages."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pydantic import ValidationError

from pulsar_operator.api.constants import ANNOTATION_DRY_RUN, ANNOTATION_PAUSE, Kind
from pulsar_operator.domain.render import Owner
from pulsar_operator.ports import NAMESPACES, Deps, Json, RefusedError


@dataclass(frozen=True)
class Meta:
    """The parts of metadata that controllers depend on."""

    namespace: str
    name: str
    uid: str
    generation: int
    deleting: bool
    finalizers: tuple[str, ...]
    annotations: dict[str, str]

    @property
    def paused(self) -> bool:
        """Whether the object is paused: it is observed and reported, but nothing is changed."""
        return self.annotations.get(ANNOTATION_PAUSE) == "true"

    @property
    def dry_run(self) -> bool:
        """Whether the object is in dry run: pending actions are shown, but none is performed."""
        return self.annotations.get(ANNOTATION_DRY_RUN) == "true"


def meta_of(obj: Json) -> Meta:
    """Returns the metadata of a raw object."""
    meta = obj["metadata"]
    return Meta(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        uid=meta["uid"],
        generation=meta.get("generation", 0),
        deleting="deletionTimestamp" in meta,
        finalizers=tuple(meta.get("finalizers") or ()),
        annotations=dict(meta.get("annotations") or {}),
    )


def resume(obj: Json) -> str:
    """Returns the command that ends the pause and the dry run of a raw object."""
    meta, name = meta_of(obj), obj["metadata"]["name"]
    marks = [ANNOTATION_PAUSE] if meta.paused else []
    marks += [ANNOTATION_DRY_RUN] if meta.dry_run else []
    off = " ".join(f"{mark}-" for mark in marks)
    return f"kubectl -n {meta.namespace} annotate {obj['kind'].lower()}/{name} {off}"


def patch_spec(obj: Json, spec: Json) -> str:
    """Returns the command that sets fields of a raw object's specification."""
    meta, patch = obj["metadata"], json.dumps({"spec": spec}, separators=(",", ":"))
    return f"kubectl -n {meta['namespace']} patch {obj['kind'].lower()}/{meta['name']} --type merge -p '{patch}'"


def described(obj: Json) -> str:
    """Returns the command that shows the conditions and events of a raw object."""
    meta = obj["metadata"]
    return f"kubectl -n {meta['namespace']} describe {obj['kind'].lower()}/{meta['name']}"


def owner_of(obj: Json, *, part_of: str) -> Owner:
    """Returns the object as owner of rendered children."""
    meta = obj["metadata"]
    return Owner(
        kind=Kind(obj["kind"]),
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        api_version=obj["apiVersion"],
        part_of=part_of,
    )


def invalid_fields(error: ValidationError) -> str:
    """Returns the field and the violated rule of each error. A value is only shown if it is a number or a boolean: any
    text may contain a secret."""
    parts = []
    for item in error.errors(include_url=False)[:5]:
        path, value = ".".join(str(part) for part in item["loc"]), item.get("input")
        shown = f" = {value!r}" if isinstance(value, (int, float)) else ""
        parts.append(f"spec.{path}{shown}: {item['msg']}")
    return "; ".join(parts)


async def is_going(deps: Deps, namespace: str, *, refused: RefusedError) -> bool:
    """Whether the namespace is being deleted, or no longer exists, when a request in it was ``refused`` (HTTP 403).

    The deletion of a namespace removes the operator's permissions in it. But roles are changed for other reasons too,
    and an admission webhook may refuse as well, so the namespace itself is read. Raises RefusedError, including the
    original refusal, if that is not allowed either; UnavailableError.
    """
    try:
        found = await deps.kube.get(NAMESPACES, "", namespace)
    except RefusedError as error:
        text = f"{refused}. It could not be read whether Kubernetes namespace {namespace} is being deleted: {error}"
        raise RefusedError(text, status=refused.status) from refused
    return found is None or "deletionTimestamp" in found["metadata"]
