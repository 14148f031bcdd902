"""YAML read by libyaml where PyYAML was built with it: several times as fast, which counts for definitions."""

from __future__ import annotations

from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def document(text: str) -> Any:
    """The one document of a text. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=LOADER)


def documents(text: str) -> list[Any]:
    """The documents of a text that are not empty. Raises yaml.YAMLError."""
    return [found for found in yaml.load_all(text, Loader=LOADER) if found is not None]
