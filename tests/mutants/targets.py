"""What is mutated, which tests are asked, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PACKAGE: Final = "operator/pulsar_operator"

FOLDERS: Final = {
    f"{PACKAGE}/domain": "pure decisions",
    f"{PACKAGE}/balance": "pure decisions of what is moved where",
}
"""Mutated with all that is below, by reason."""

CONTROLLERS: Final = {
    "core/actor": "every deletion in Kubernetes goes through it",
    "core/duplicates": "whether a deletion is handed over",
    "core/traffic": "asks Pulsar for moves and splits, and reads who serves what",
    "core/parent_resolution": "whether two objects mean the same place, before a deletion",
    "core/work_queue": "no two passes over one object at once",
    "dataplane/balancing/balancer_record": "what Pulsar's balancer is given back",
    "dataplane/objects/children": "deletes workloads and what is no longer wanted",
    "dataplane/objects/dependents": "what keeps a deletion waiting",
    "dataplane/balancing/broker_drains": "whether brokers may go; makes and deletes drains and fills",
    "dataplane/objects/zookeeper_ensemble": "deletes volumes",
    "dataplane/balancing/load_balancer": "turns Pulsar's own balancer off and on again",
    "dataplane/scaling/scale": "removes brokers",
    "dataplane/cluster/metadata_store": "which components are never taken away",
    "dataplane/rollout/apply": "deletes pods",
    "dataplane/rollout/prepare": "whether a broker has handed its bundles over",
    "dataplane/cluster/teardown": "deletes a cluster and its volumes",
    "logical/topic_inventory": "deletions of topics are decided from its lists",
    "logical/controller": "the order of writes and of deletions of the logical kinds",
    "logical/isolation_policy": "deletes policies, which moves what they held",
    "logical/namespace": "deletes and unloads namespaces",
    "logical/resource_group": "deletes resource groups",
    "logical/shared_brokers": "says when a policy leaves namespaces without a broker",
    "logical/tenant": "deletes tenants",
    "logical/topic": "deletes topics",
    "logical/topic_content": "what of a topic may not be deleted",
    "logical/topic_deletion": "whether a topic may be deleted",
    "rebalance/controller": "begins, stops and ends rebalances",
    "rebalance/execution": "moves and splits bundles",
    "rebalance/proposal": "what is to be moved",
    "rebalance/rebalance_pass": "what a rebalance remembers",
    "topicset/controller": "which topics leave a set",
    "topicset/listing": "which topics there are to leave a set",
    "topicset/removal": "deletes topics that left",
    "topicset/round": "writes to many topics",
    "topicset/topic_schedule": "how often",
}
"""Modules of controllers that move or delete things, or that those decide by."""

TESTS: Final = ("tests/unit", "tests/contract")
NOT_ASKED: Final = {
    "tests/unit/charts": "charts, rendered by Helm",
    "tests/unit/conformance": "the conformance suite itself",
    "tests/unit/counting": "the counting client",
    "tests/unit/docs": "pages",
    "tests/unit/images": "images",
    "tests/unit/machine": "kind, tools",
    "tests/unit/mutants": "this tool",
    "tests/unit/sizing": "the Spark job: minutes of Java",
}
"""Tests that do not execute what is mutated, or hardly, by reason."""


def modules(root: Path) -> list[str]:
    """Files that are mutated, relative to the root, in order."""
    found = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    found += [root / PACKAGE / "controllers" / f"{name}.py" for name in sorted(CONTROLLERS)]
    return [path.relative_to(root).as_posix() for path in found]


def asked_files(root: Path) -> list[str]:
    """Test files that are asked, relative to the root, in order."""
    found = [path.relative_to(root).as_posix() for each in TESTS for path in sorted((root / each).rglob("test_*.py"))]
    return [name for name in found if not any(name.startswith(f"{folder}/") for folder in NOT_ASKED)]
