"""Server-side apply for the fake API server: ownership of fields by manager, enough for whole applies.

Approximates https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy: maps merge by key, the
lists below merge by entry, every other list and every scalar is one field.
"""

from __future__ import annotations

from typing import Any

from tests.fakes.jsoncopy import deepcopy

Path = tuple[str, ...]

SETS = frozenset({"finalizers"})
"""Lists of scalars merged by value (list-type set)."""
MAPS: dict[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "ownerReferences": ("uid",),
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "env": ("name",),
    "ports": ("port", "containerPort"),
}
"""Lists of objects merged by key (list-type map)."""
IDENTITY = frozenset({("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid")})


def to_tree(value: Any, name: str = "") -> Any:
    """The value with mergeable lists as dictionaries, so that one recursion serves all."""
    if isinstance(value, dict):
        return {key: to_tree(item, key) for key, item in value.items() if item is not None}
    if isinstance(value, list) and name in SETS:
        return _Listed({str(item): item for item in value})
    if isinstance(value, list) and name in MAPS and value and all(_key(item, name) for item in value):
        return _Listed({_key(item, name): to_tree(item) for item in value})
    if isinstance(value, list) and name in MAPS and not value:
        return _Listed()
    return deepcopy(value)


def from_tree(value: Any) -> Any:
    """The inverse of ``to_tree``."""
    if isinstance(value, _Listed):
        return [from_tree(item) for item in value.values()]
    if isinstance(value, dict):
        return {key: from_tree(item) for key, item in value.items()}
    return deepcopy(value)


class _Listed(dict[str, Any]):
    """A list in the shape of a dictionary."""


def _key(item: Any, name: str) -> str:
    if not isinstance(item, dict):
        return ""
    return "/".join(str(item[field]) for field in MAPS[name] if field in item)


def leaves(tree: Any, prefix: Path = ()) -> set[Path]:
    """Paths of all fields; an empty map owns nothing."""
    if isinstance(tree, dict):
        found: set[Path] = set()
        for key, item in tree.items():
            found |= leaves(item, (*prefix, key))
        return found
    return {prefix}


def merge(live: Any, applied: Any) -> Any:
    """Applied laid over live."""
    if isinstance(live, dict) and isinstance(applied, dict):
        result = type(live)(live)
        for key, item in applied.items():
            result[key] = merge(live[key], item) if key in live else deepcopy(item)
        return result
    return deepcopy(applied)


def remove(tree: dict[str, Any], path: Path) -> None:
    """Take a field out, and the maps that become empty by that."""
    head, rest = path[0], path[1:]
    if head not in tree:
        return
    if not rest:
        del tree[head]
        return
    if isinstance(tree[head], dict):
        remove(tree[head], rest)
        if not tree[head]:
            del tree[head]


def apply(
    live: dict[str, Any], applied: dict[str, Any], managers: dict[str, set[Path]], manager: str
) -> dict[str, Any]:
    """Live after the manager applied its whole configuration by force; ``managers`` is updated."""
    tree, wanted = to_tree(live), to_tree(applied)
    owned = {path for path in leaves(wanted) if path not in IDENTITY}
    gone = managers.get(manager, set()) - owned
    others = [paths for name, paths in managers.items() if name != manager]
    tree = merge(tree, wanted)
    for path in sorted(gone, key=len, reverse=True):
        if not any(path in paths for paths in others):
            remove(tree, path)
    # Force: whoever owned a field with another value loses it; same value is shared.
    before = to_tree(live)
    for paths in others:
        paths -= {path for path in owned if _at(before, path) != _at(tree, path)}
    managers[manager] = owned
    result: dict[str, Any] = from_tree(tree)
    return result


def owned(manifest: dict[str, Any]) -> set[Path]:
    """The fields that who wrote this manifest owns."""
    body = {key: value for key, value in manifest.items() if key != "status"}
    return {path for path in leaves(to_tree(body)) if path not in IDENTITY}


def _at(tree: Any, path: Path) -> Any:
    for key in path:
        if not isinstance(tree, dict) or key not in tree:
            return None
        tree = tree[key]
    return tree
