"""The policy table against the in-memory port and against the real adapter over HTTP."""

from __future__ import annotations

from tests.support.policy_contract import PolicyContract


class TestPolicyContract(PolicyContract):
    """See tests/support/policy_contract.py."""
