"""Server-side apply for the fake API server: ownership of fields by manager, enough for whole applies.

Approximates https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy: maps merge by key, the
lists below merge by entry, every other list and every scalar is one field. Trees are never changed; what they do not
merge they share with what they were made of, and ``from_tree`` copies it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from tests.fakes.jsoncopy import PLAIN, deepcopy

Path = tuple[str, ...]
Managers: TypeAlias = dict[str, frozenset[Path]]
"""Fields of one object by the manager that owns them."""

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
        return {
            key: item if type(item) in PLAIN else to_tree(item, key) for key, item in value.items() if item is not None
        }
    if isinstance(value, list) and name in SETS:
        return _Listed({str(item): item for item in value})
    if isinstance(value, list) and name in MAPS:
        keys = [_key(item, name) for item in value]
        if all(keys):
            return _Listed({key: to_tree(item) for key, item in zip(keys, value, strict=True)})
    return value


def from_tree(value: Any) -> Any:
    """The inverse of ``to_tree``."""
    if isinstance(value, _Listed):
        return [from_tree(item) for item in value.values()]
    if isinstance(value, dict):
        return {key: item if type(item) in PLAIN else from_tree(item) for key, item in value.items()}
    return deepcopy(value)


class _Listed(dict[str, Any]):
    """A list in the shape of a dictionary."""


def _key(item: Any, name: str) -> str:
    if not isinstance(item, dict):
        return ""
    return "/".join(str(item[field]) for field in MAPS[name] if field in item)


def leaves(tree: Any, prefix: Path = ()) -> Iterator[Path]:
    """Paths of all fields; an empty map owns nothing."""
    if isinstance(tree, dict):
        for key, item in tree.items():
            yield from leaves(item, (*prefix, key))
    else:
        yield prefix


def merge(live: Any, applied: Any) -> Any:
    """Applied laid over live."""
    if isinstance(live, dict) and isinstance(applied, dict):
        result = type(live)(live)
        for key, item in applied.items():
            result[key] = merge(live[key], item) if key in live else item
        return result
    return applied


def without(tree: Any, path: Path) -> Any:
    """The tree without a field, and without the maps that become empty by that."""
    head, rest = path[0], path[1:]
    if not isinstance(tree, dict) or head not in tree:
        return tree
    left = without(tree[head], rest) if rest else {}
    changed = ((key, left if key == head else item) for key, item in tree.items())
    return type(tree)((key, item) for key, item in changed if key != head or item != {})


def apply(live: dict[str, Any], applied: dict[str, Any], managers: Managers, manager: str) -> dict[str, Any]:
    """Live after the manager applied its whole configuration by force, sharing nothing with what was given;
    ``managers`` is updated."""
    before, wanted = to_tree(live), to_tree(applied)
    owned = _owned(wanted)
    gone = managers.get(manager, frozenset()) - owned
    others = {name: paths for name, paths in managers.items() if name != manager}
    tree = merge(before, wanted)
    for path in sorted(gone, key=len, reverse=True):
        if not any(path in paths for paths in others.values()):
            tree = without(tree, path)
    if others:
        # Force: whoever owned a field with another value loses it; same value is shared.
        changed = {path for path in owned if _at(before, path) != _at(tree, path)}
        managers.update({name: paths - changed for name, paths in others.items()})
    managers[manager] = owned
    result: dict[str, Any] = from_tree(tree)
    return result


def owned(manifest: dict[str, Any]) -> frozenset[Path]:
    """The fields that who wrote this manifest owns."""
    return _owned(to_tree({key: value for key, value in manifest.items() if key != "status"}))


def _owned(tree: Any) -> frozenset[Path]:
    return frozenset(leaves(tree)) - IDENTITY


def _at(tree: Any, path: Path) -> Any:
    for key in path:
        if not isinstance(tree, dict) or key not in tree:
            return None
        tree = tree[key]
    return tree
