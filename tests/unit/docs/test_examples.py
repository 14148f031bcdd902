"""What every example, page and chart shows is safe to copy: it deletes, opens and retains what its reader means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pulsar_operator.api.constants import Kind
from tests.support.documents import EXAMPLES, PAGES, ROOT, Shown, example, shown, values_of
from tests.support.yamls import documents

Json = dict[str, Any]
INSTANCE = "demo"
"""Name of the PulsarInstance on every page."""
CHART_VALUES = sorted((ROOT / "helm").glob("*/values.yaml"))
RETENTION = {"defaultRetentionTimeInMinutes", "defaultRetentionSizeInMB"}


def our_objects() -> list[Shown]:
    """Of examples and pages, whole ones and fragments."""
    found = [each for file in EXAMPLES for each in example(file)]
    return found + [each for page in PAGES for each in shown(page)]


def commented(file: Path) -> Iterator[Json]:
    """The YAML in comments of a file of values: what it shows to be taken over."""
    for block in re.findall(r"(?:^ *#  +.*\n)+", file.read_text(encoding="utf-8"), re.MULTILINE):
        lines = [re.sub(r"^ *#", "", line) for line in block.splitlines()]
        found = yaml.safe_load("\n".join(lines))
        if isinstance(found, dict):
            yield found


def trees() -> list[tuple[str, Json]]:
    """Everything that may be copied, with where it is."""
    found = [(each.where, each.obj) for each in our_objects()]
    found += [(each.where, each.values) for page in PAGES for each in values_of(page)]
    for file in CHART_VALUES:
        where = str(file.relative_to(ROOT))
        found.append((where, yaml.safe_load(file.read_text(encoding="utf-8"))))
        found += [(f"{where}, in a comment", each) for each in commented(file)]
    return found


def inside(node: object) -> Iterator[Json]:
    """Every mapping in a tree."""
    if isinstance(node, dict):
        yield node
        for each in node.values():
            yield from inside(each)
    elif isinstance(node, list):
        for each in node:
            yield from inside(each)


def test_what_is_looked_at() -> None:
    places = [where for where, _ in trees()]
    for wanted in ("examples/platforms/eks.yaml", "docs/clusters.md:", "helm/pulsar/values.yaml, in a comment"):
        assert any(place.startswith(wanted) for place in places), wanted


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.relative_to(ROOT)))
def test_an_example_that_is_deleted_again_takes_no_kubernetes_namespace_along(file: Path) -> None:
    """With the namespace go the volume claims of everything in it, whatever reclaimPolicy says."""
    kinds = {each["kind"] for each in documents(file.read_text(encoding="utf-8"))}
    assert kinds <= {kind.value for kind in Kind}


def test_no_page_declares_a_kubernetes_namespace() -> None:
    assert [each.where for each in our_objects() if each.obj["kind"] == "Namespace"] == []


def test_nothing_opens_admin_rest_without_authentication_to_everybody() -> None:
    """A proxy serves admin REST; a NodePort opens it on every node, a load balancer to whom its network lets in."""
    found = []
    for where, tree in trees():
        for each in inside(tree):
            if each.get("type") == "NodePort" or "nodePorts" in each:
                found.append(f"{where}: NodePort")
            if each.get("type") == "LoadBalancer" and not (
                each.get("loadBalancerSourceRanges") or "nternal" in str(each.get("annotations"))
            ):
                found.append(f"{where}: LoadBalancer without loadBalancerSourceRanges or an internal address")
    assert found == []


def test_the_instance_has_one_name_in_all_objects() -> None:
    named = {
        (each.where, name)
        for each in our_objects()
        if not each.fragment
        for name in (
            [each.obj["metadata"]["name"]]
            if each.obj["kind"] == Kind.INSTANCE
            else [(each.obj.get("spec") or {}).get("instanceRef", {}).get("name", INSTANCE)]
        )
    }
    assert {(where, name) for where, name in named if name != INSTANCE} == set()


COMMANDS = re.compile(
    r"(?:--instance[ =]|pulsarinstances?[ /](?!status|finalizers)|\binstance\.name=|\bget pi )([a-z][-a-z0-9]*)"
)


@pytest.mark.parametrize(
    "page", [p for p in (*PAGES, *EXAMPLES) if "CHANGELOG" not in p.name], ids=lambda p: str(p.relative_to(ROOT))
)
def test_the_instance_has_one_name_in_all_commands(page: Path) -> None:
    found = COMMANDS.findall(page.read_text(encoding="utf-8"))
    assert set(found) - {INSTANCE} == set()


def test_default_retention_names_both_of_what_pulsar_needs() -> None:
    """Either alone retains nothing: the other one is 0."""
    found = []
    for where, tree in trees():
        for each in inside(tree):
            given = RETENTION & {name.removeprefix("PULSAR_PREFIX_") for name in map(str, each)}
            if given and given != RETENTION:
                found.append(f"{where}: {given} alone")
    assert found == []
