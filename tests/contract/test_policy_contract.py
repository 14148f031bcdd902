"""The policy table against the in-memory port and against the real adapter over HTTP."""

from __future__ import annotations

import pytest

from pulsar_operator.domain.policies import PolicyRow
from tests.support.contracts.policies import Place, PolicyContract, rows


class TestPolicyContract(PolicyContract):
    """See tests/support/contracts/policies.py."""

    @pytest.mark.parametrize("place", ["port"], indirect=True)
    @pytest.mark.parametrize("row", rows())
    async def test_values_survive_the_round_trip_and_the_reset(self, place: Place, row: PolicyRow) -> None:
        """Each row on the port; over HTTP all of them are in one test, and each goes to a real Pulsar."""
        await super().test_values_survive_the_round_trip_and_the_reset(place, row)
