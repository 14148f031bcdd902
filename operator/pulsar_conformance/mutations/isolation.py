"""What breaks the checks of isolated namespaces."""

from __future__ import annotations

from typing import Any

from pulsar_conformance.tamper import Mutation, change_admin, drop_admin

POLICY = r"/namespaceIsolationPolicies/"


def _of_both(policy: Any) -> Any:
    """Namespaces of one check differ in the number at their end."""
    return {**policy, "namespaces": [f"{policy['namespaces'][0][:-1]}."]}


MUTATIONS = (
    Mutation("isolation.primary", "open", "the policy is never set", (drop_admin("POST", POLICY),)),
    Mutation(
        "isolation.primary",
        "both",
        "the policy is for the other namespace too",
        (change_admin("POST", POLICY, _of_both),),
    ),
    Mutation("isolation.secondary", "open", "the policy is never set", (drop_admin("POST", POLICY),)),
    Mutation(
        "isolation.secondary",
        "none",
        "the policy has no secondary brokers",
        (change_admin("POST", POLICY, lambda policy: {**policy, "secondary": []}),),
    ),
)
