"""What only a newer Pulsar has, by the operator's controllers, on a standalone of it; ``make newer-pulsar``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from e2e.kind import versions
from e2e.kind.paths import paths
from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.policies import POLICIES, Call, PolicyRow, Scope, too_old
from pulsar_operator.ports import AdminEndpoint
from tests.support.contracts.admin import local_cluster
from tests.support.policies.class_file import field_names
from tests.support.policies.classes import (
    LOCAL_POLICIES_CLASS,
    POLICIES_CLASS,
    TOPIC_POLICIES_CLASS,
    unknown_local,
    unknown_of_namespace,
    unknown_of_topic,
)
from tests.support.policies.values import values_of
from tests.support.standalone.server import open_standalone
from tests.support.standalone.site import Site, asked

pytestmark = pytest.mark.slow

KEYS, EXPIRATION = "policies.allowedTopicPropertyKeysForMetrics", "policies.subscriptionExpirationMinutes"
NEWER = tuple(row for row in POLICIES if too_old(row, versions.PULSAR))


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminEndpoint]:
    """A newer Pulsar without security."""
    with open_standalone(paths().newer_pulsar_home, tmp_path_factory.mktemp("newer")) as running:
        url = running.admin_url
        yield AdminEndpoint(asked(lambda admin: local_cluster(admin, url)), url)


class Rows(Site):
    """The policy of one row at a time."""

    def base(self, row: PolicyRow) -> tuple[str, ...]:
        """Path of the object a row belongs to."""
        return self.path(kind_of(row))

    def declare(self, row: PolicyRow, value: Any) -> None:
        """Apply the object with this value, without the policy where None."""
        more: dict[str, Any] = {} if value is None else {"policies": {row.path.removeprefix("policies."): value}}
        if kind_of(row) is Kind.TOPIC:
            more["policyScope"] = row.field.partition("@")[2] or "Local"
        self.apply(kind_of(row), **more)

    async def shown(self, row: PolicyRow) -> Any:
        """The value as Pulsar shows it, by a plain call rather than the row's own; None = none is set."""
        if row.path == KEYS:
            found = await self.ask("GET", *self.base(row))
            return sorted(found.get("allowed_topic_property_keys_for_metrics") or ()) or None
        whole = "true" if row.field.endswith("@Global") else "false"
        query = {"applied": "false", "isGlobal": whole}
        return await self.ask("GET", *self.base(row), "subscriptionExpirationTime", **query)

    async def has(self, row: PolicyRow, wanted: Any) -> None:
        """Until Pulsar has the value, None = none is set."""
        await self.until(lambda: self.shown(row), lambda shown: shown == in_order(wanted), f"{row.field} is {wanted!r}")

    async def settle(self, row: PolicyRow, wanted: Any) -> None:
        """Apply the object with the value; passes of the operator until it is Ready and Pulsar has the value."""
        self.declare(row, wanted)
        kind = kind_of(row)

        async def look() -> tuple[str, Any]:
            return self.reason(kind), await self.shown(row)

        right = ("Ready", in_order(wanted))
        await self.until(look, lambda seen: seen == right, f"{kind} has {row.field} {wanted!r}", by=kind)


def kind_of(row: PolicyRow) -> Kind:
    """Whose policy it is."""
    return Kind.NAMESPACE if row.scope is Scope.NAMESPACE else Kind.TOPIC


def in_order(value: Any) -> Any:
    """The same without the order of a list, which Pulsar does not keep."""
    return sorted(value) if isinstance(value, list) else value


@pytest.fixture
async def site(newer: AdminEndpoint) -> AsyncIterator[Rows]:
    """The tenant and its namespace."""
    async with Rows.opened(newer, "newer", version=versions.NEWER_PULSAR) as found:
        yield found


@pytest.mark.parametrize("row", NEWER, ids=lambda row: f"{row.scope}-{row.field}")
async def test_set_kept_and_taken_away(site: Rows, row: PolicyRow) -> None:
    """Every example is read back, what others change comes back, and without it nothing is set."""
    one, other = values_of(row)[:2]
    for value in (None, *values_of(row), one):
        await site.settle(row, value)
    for drift in (row.set_call(site.base(row), other), row.remove_call(site.base(row))):
        assert drift is not None
        await site.call(drift)
        await site.has(row, other if drift.method != "DELETE" else None)
        await site.settle(row, one)
    assert "DriftRepaired" in site.world.reasons(kind_of(row))
    await site.settle(row, None)


async def test_every_key_of_a_namespace_is_known(site: Rows) -> None:
    """A policy that it shows, and no row reads, fails here by its name."""
    assert unknown_of_namespace(await site.call(Call("GET", ("namespaces", site.tenant, "n")))) == set()


def test_every_field_of_the_classes_of_policies_is_known() -> None:
    """The same for its classes."""
    for jar, class_name, unknown in (
        ("pulsar-client-admin-api", POLICIES_CLASS, unknown_of_namespace),
        ("pulsar-common", LOCAL_POLICIES_CLASS, unknown_local),
        ("pulsar-common", TOPIC_POLICIES_CLASS, unknown_of_topic),
    ):
        (file,) = (paths().newer_pulsar_home / "lib").glob(f"*{jar}-[0-9]*.jar")
        names = field_names(file, class_name)
        assert names and unknown(names) == set(), class_name


def test_there_are_such_policies() -> None:
    assert {row.field for row in NEWER} == {KEYS, EXPIRATION, f"{EXPIRATION}@Global"}
