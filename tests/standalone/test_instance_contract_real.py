"""Resource groups, isolation policies and failure domains on a real Pulsar; see tests/support/contracts/instance.py."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from e2e.kind.paths import paths
from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.ports import AdminEndpoint
from tests.support.contracts.instance import InstanceContract, Site, opened
from tests.support.policies.class_file import field_names

CLASSES = {
    "ResourceGroup": {"publishRateInMsgs", "publishRateInBytes", "dispatchRateInMsgs", "dispatchRateInBytes"},
    "NamespaceIsolationDataImpl": {"namespaces", "primary", "secondary", "autoFailoverPolicy", "unloadScope"},
    "AutoFailoverPolicyDataImpl": {"policyType", "parameters"},
    "FailureDomainImpl": {"brokers"},
}
"""Fields of Pulsar's classes that the definitions have fields for."""


@pytest.fixture
async def site(admin: AiohttpAdmin, endpoint: AdminEndpoint) -> AsyncIterator[Site]:
    """Names of a test's own on the shared Pulsar."""
    async for found in opened(admin, endpoint):
        yield found


class TestInstanceContractReal(InstanceContract):
    """See tests/support/contracts/instance.py."""


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_field_of_the_classes_is_known(name: str) -> None:
    """A field that the distribution the images are made from has, and no definition, fails here by its name."""
    found: set[str] = set()
    for jar in ("pulsar-client-admin-api", "pulsar-common"):
        (file,) = (paths().pulsar_home / "lib").glob(f"*{jar}-[0-9]*.jar")
        try:
            found |= field_names(file, f"org.apache.pulsar.common.policies.data.{name}")
        except KeyError:
            continue
    assert found == CLASSES[name]
