"""Custom resource definitions from the pydantic models: ``python -m pulsar_operator.crdgen --out crds/``.

Called by developers and by CI (``--check``), never by the running operator. crdschema.py makes the schemas in them.

Source of the rules: Kubernetes documentation, "Extend the Kubernetes API with CustomResourceDefinitions", section on
subresources.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from pulsar_operator.api.constants import CATEGORY, GROUP, PLURALS, SHORT_NAMES, VERSION, Kind
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.api.v1alpha1.base import UNOBSERVED
from pulsar_operator.api.v1alpha1.presentation import AGE, MESSAGE, PRESENTATION, READY, Column
from pulsar_operator.crdschema import UnsupportedSchemaError, structural

Json = dict[str, Any]

MAX_STORED_BYTES = 245_000
"""Client-side apply keeps the manifest in an annotation, and all annotations together may have 262,144 bytes. The
documents and the charts apply on the server's side; a client-side apply must leave room for the user's annotations."""
_ESCAPED = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&"})


def crd(kind: Kind) -> Json:
    """Returns the CustomResourceDefinition of a kind."""
    models, presentation = MODELS[kind], PRESENTATION[kind]
    spec = structural(models.spec)
    status = structural(models.status, defaults=False)
    root: Json = {
        "description": spec["description"],
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "API version of this object."},
            "kind": {"type": "string", "description": "Kind of this object."},
            "metadata": {"type": "object"},
            "spec": {**spec, "description": "Desired state."},
            "status": {
                **status,
                "description": "Observed state, which the operator writes.",
                "default": {"observedGeneration": UNOBSERVED},
            },
        },
    }
    if models.rules:
        root["x-kubernetes-validations"] = [{"rule": rule, "message": message} for rule, message in models.rules]
    subresources: Json = {"status": {}}
    if presentation.scale:
        subresources["scale"] = {
            "specReplicasPath": presentation.scale.spec_replicas,
            "statusReplicasPath": presentation.scale.status_replicas,
            "labelSelectorPath": presentation.scale.selector,
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURALS[kind]}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": str(kind),
                "listKind": f"{kind}List",
                "plural": PLURALS[kind],
                "singular": str(kind).lower(),
                "shortNames": [SHORT_NAMES[kind]],
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": subresources,
                    "additionalPrinterColumns": [
                        _column(column) for column in (*READY, *presentation.columns, MESSAGE, AGE)
                    ],
                    "schema": {"openAPIV3Schema": root},
                }
            ],
        },
    }


def _column(column: Column) -> Json:
    out: Json = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        out["description"] = column.description
    if column.priority:
        out["priority"] = column.priority
    return out


class _Lines(dict[str, Any]):
    """A mapping that is written over several lines even if it has no children."""


class _Dumper(yaml.SafeDumper):
    """Writes shared values in full: kubectl supports YAML aliases, but people and other tools often do not."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    _Lines, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=False)
)


def render(kind: Kind) -> str:
    """Returns the content of the file of a kind. Raises UnsupportedSchemaError if it would be too large for client-side
    apply."""
    found = crd(kind)
    # The operator's chart adds an annotation below that line (templates/crds.yaml).
    found["metadata"] = _Lines(found["metadata"])
    body = yaml.dump(found, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True, default_flow_style=None)
    size = stored_bytes(found)
    if size > MAX_STORED_BYTES:
        raise UnsupportedSchemaError(f"{kind}: {size} bytes, more than {MAX_STORED_BYTES}")
    return f"# Generated from the models by `python -m pulsar_operator.crdgen --out crds/`; do not edit.\n---\n{body}"


def stored_bytes(definition: Json) -> int:
    """Returns the size in bytes of the annotation of client-side apply: JSON without spaces as Go writes it (package
    encoding/json escapes HTML characters)."""
    text = json.dumps(definition, separators=(",", ":"), ensure_ascii=False)
    return len(text.translate(_ESCAPED).encode())


def file_name(kind: Kind) -> str:
    """Returns the name of the file of a kind."""
    return f"{GROUP}_{PLURALS[kind]}.yaml"


def differences(folder: Path) -> list[str]:
    """Returns one entry for each missing, changed or left-over file in the folder, with the lines that differ."""
    texts = {file_name(kind): render(kind) for kind in Kind}
    out = []
    for name, text in texts.items():
        file = folder / name
        if not file.is_file():
            out.append(f"{file}: missing")
            continue
        found = file.read_text(encoding="utf-8")
        if found != text:
            lines = difflib.unified_diff(found.splitlines(), text.splitlines(), "committed", "generated", "", "", 1, "")
            out.append(f"{file}: differs\n" + "\n".join(list(lines)[:40]))
    left_over = {file.name for file in folder.glob(f"{GROUP}_*.yaml")} - set(texts)
    return out + [f"{folder / name}: belongs to no kind" for name in sorted(left_over)]


def write(folder: Path) -> None:
    """Writes every definition into the folder, and removes those of kinds that no longer exist."""
    texts = {file_name(kind): render(kind) for kind in Kind}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    for file in folder.glob(f"{GROUP}_*.yaml"):
        if file.name not in texts:
            file.unlink()


def main(argv: list[str] | None = None) -> int:
    """Writes the files, or compares them with ``--check``. Returns exit status 1 if a check finds a difference."""
    parser = argparse.ArgumentParser(prog="python -m pulsar_operator.crdgen", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("crds"), help="folder of the definitions (default: crds)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is not up to date")
    arguments = parser.parse_args(argv)
    folder: Path = arguments.out
    if arguments.check:
        stale = differences(folder)
        if stale:
            print("\n".join(stale), file=sys.stderr)
            print(f"run: python -m pulsar_operator.crdgen --out {folder}", file=sys.stderr)
        return 1 if stale else 0
    write(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
