"""Every row of the policy table on a real Pulsar; see tests/support/contracts/policies.py."""

from __future__ import annotations

from e2e.kind.paths import paths
from tests.support.contracts.policies import PolicyContract
from tests.support.policies.class_file import field_names
from tests.support.policies.classes import (
    LOCAL_POLICIES_CLASS,
    POLICIES_CLASS,
    TOPIC_POLICIES_CLASS,
    unknown_local,
    unknown_of_namespace,
    unknown_of_topic,
)


class TestPoliciesReal(PolicyContract):
    """See tests/support/contracts/policies.py."""


def test_every_field_of_the_classes_of_policies_is_known() -> None:
    """A policy that the distribution the images are made from has, and no row, fails here by its name."""
    home = paths().pulsar_home
    for jar, class_name, unknown in (
        ("pulsar-client-admin-api", POLICIES_CLASS, unknown_of_namespace),
        ("pulsar-common", LOCAL_POLICIES_CLASS, unknown_local),
        ("pulsar-common", TOPIC_POLICIES_CLASS, unknown_of_topic),
    ):
        (file,) = (home / "lib").glob(f"*{jar}-[0-9]*.jar")
        names = field_names(file, class_name)
        assert names, class_name
        assert unknown(names) == set(), class_name
