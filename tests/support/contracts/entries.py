"""Every list of entries on a Pulsar: set, read back, changed, taken back, one entry at a time, with hostile keys.

Run against the fakes and against a real Pulsar; a subclass provides the fixture ``place``, see policies.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from e2e.support.eventually import eventually_async
from pulsar_operator.api.v1alpha1.namespace import PulsarNamespaceSpec
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.domain.policies import Call, Scope
from pulsar_operator.domain.policies.entry_rows import NAMESPACE_ENTRIES, TOPIC_ENTRIES, EntryRow
from pulsar_operator.ports import NotFoundError, RefusedError
from tests.support.contracts.policies import PAUSE_SECONDS, Place
from tests.support.policies.values import HOSTILE, entries_of

KEYS = {"permissions": "role", "subscriptionPermissions": "subscription"}
"""Member of an entry that is its key; properties are a map."""

PATH_SYNTAX = [".", "..", ""]
"""Keys that mean something else, or nothing, as a segment of a path."""
KEYS_IN_NO_PATH = [row for row in TOPIC_ENTRIES if row.field == "properties"]


def rows() -> list[Any]:
    """One case for each list, and for a topic with and without partitions."""
    cases = [pytest.param(row, "n", id=f"{row.scope}-{row.field}") for row in NAMESPACE_ENTRIES]
    for row in TOPIC_ENTRIES:
        cases += [pytest.param(row, kind, id=f"{row.scope}-{row.field}-{kind}") for kind in ("plain", "partitioned")]
    for case in cases:
        row = case.values[0]
        if len(entries_of(row)) < 2 or not set(HOSTILE) <= set(entries_of(row)):
            raise AssertionError(f"list {row.field} needs two examples, and the hostile keys")
    return cases


def declared(row: EntryRow, entries: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of entries written as in a manifest, through the model of the kind."""
    named: Any = entries
    if row.field in KEYS:
        named = [{KEYS[row.field]: key, **entry} for key, entry in entries.items()]
    if row.scope is Scope.NAMESPACE:
        return row.declared(PulsarNamespaceSpec.model_validate({"tenantRef": {"name": "t"}, row.field: named}))
    return row.declared(PulsarTopicSpec.model_validate({"namespaceRef": {"name": "n"}, row.field: named}))


class EntryContract:
    """The contract."""

    async def base(self, place: Place, row: EntryRow, kind: str) -> tuple[str, ...]:
        """Path of the object, made where it is a topic with partitions."""
        if row.scope is Scope.NAMESPACE:
            return place.inside
        if kind == "partitioned":
            await place.ask("PUT", *place.topic("p"), "partitions", body=2)
            return place.topic("p")
        return place.topic("x")

    async def read(self, place: Place, row: EntryRow, base: tuple[str, ...]) -> dict[str, Any]:
        """Live values by key."""
        source = place.inside if row.own_get is None else (*base, *row.own_get)
        this = f"{base[0]}://{'/'.join(base[1:])}"
        return row.read(await place.call(Call("GET", source)), this)

    async def until(
        self, place: Place, row: EntryRow, base: tuple[str, ...], wanted: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Read until these are the entries, and no others; the entries as they were read."""

        def there(found: dict[str, Any]) -> bool:
            return found.keys() == wanted.keys() and all(row.in_sync(wanted[key], found[key]) for key in wanted)

        what = f"{row.field} of {'/'.join(base)}: {wanted!r}"
        return await eventually_async(lambda: self.read(place, row, base), there, what=what, every=PAUSE_SECONDS)

    @pytest.mark.parametrize(("row", "kind"), rows())
    async def test_entries_survive_and_are_taken_back_one_by_one(self, place: Place, row: EntryRow, kind: str) -> None:
        """Exactly the keys and values that were declared, then each gone alone; hostile keys are carried exactly."""
        base = await self.base(place, row, kind)
        assert await self.read(place, row, base) == {}
        values = dict(declared(row, entries_of(row)))
        for _, call in row.set_calls(base, values):
            await place.call(call)
        found = await self.until(place, row, base, values)
        assert found.keys() == values.keys()
        assert all(row.in_sync(values[key], found[key]) for key in values), found
        first, second, *_ = values
        changed = {first: values[second] if values[second] != values[first] else values[list(values)[2]]}
        for keys, call in row.set_calls(base, changed):
            assert keys == (first,)
            await place.call(call)
        values |= changed
        found = await self.until(place, row, base, values)
        assert row.in_sync(values[first], found[first]), "an entry is replaced, the others stay"
        assert found.keys() == values.keys()
        for key in list(values):
            for call in row.remove_calls(base, key, found[key]):
                await place.call(call)
            del values[key]
            left = await self.until(place, row, base, values)
            assert left.keys() == values.keys(), f"{key!r} was removed"

    @pytest.mark.parametrize(("row", "kind"), rows())
    async def test_entries_of_others_stay(self, place: Place, row: EntryRow, kind: str) -> None:
        """One of two is written and removed; the other is as it was."""
        base = await self.base(place, row, kind)
        first, second, *_ = entries_of(row)
        theirs = dict(declared(row, {second: entries_of(row)[second]}))
        mine = dict(declared(row, {first: entries_of(row)[first]}))
        for values in (theirs, mine):
            for _, call in row.set_calls(base, values):
                await place.call(call)
        found = await self.until(place, row, base, {**theirs, **mine})
        assert found.keys() == {first, second}
        for call in row.remove_calls(base, first, found[first]):
            await place.call(call)
        left = await self.until(place, row, base, theirs)
        assert left.keys() == theirs.keys()
        assert row.in_sync(theirs[second], left[second])

    @pytest.mark.parametrize(("row", "kind"), rows())
    async def test_taking_back_what_is_gone_does_no_harm(self, place: Place, row: EntryRow, kind: str) -> None:
        """A removal repeated after a crash; a list of several calls is not repeated once the entry is gone."""
        base = await self.base(place, row, kind)
        key = next(iter(entries_of(row)))
        values = dict(declared(row, {key: entries_of(row)[key]}))
        for _, call in row.set_calls(base, values):
            await place.call(call)
        found = await self.until(place, row, base, values)
        calls = list(row.remove_calls(base, key, found[key]))
        await place.call(calls[0])
        if len(calls) == 1:
            await place.call(calls[0])
        else:
            for call in calls[1:]:
                await place.call(call)
        assert await self.until(place, row, base, {}) == {}

    @pytest.mark.parametrize(("row", "kind"), [case for case in rows() if case.values[0] in KEYS_IN_NO_PATH])
    @pytest.mark.parametrize("key", PATH_SYNTAX)
    async def test_keys_that_are_in_no_path_are_carried_exactly(
        self, place: Place, row: EntryRow, kind: str, key: str
    ) -> None:
        """They are written in a body and taken back in a query."""
        base = await self.base(place, row, kind)
        values = {key: "<it>", "stays": "as it is"}
        for _, call in row.set_calls(base, values):
            await place.call(call)
        assert await self.until(place, row, base, values) == values
        for call in row.remove_calls(base, key, values.pop(key)):
            await place.call(call)
        assert await self.until(place, row, base, values) == values

    async def test_a_role_of_64_kilobytes_is_refused(self, place: Place) -> None:
        """Neither carried in part nor misrouted."""
        row = NAMESPACE_ENTRIES[0]
        base = await self.base(place, row, "n")
        with pytest.raises(RefusedError):
            await place.call(Call("POST", (*base, "permissions", "r" * 65536), body=["produce"]))
        assert await self.read(place, row, base) == {}

    async def test_permissions_go_with_their_topic(self, place: Place) -> None:
        """A topic of the same name that is made later has none."""
        row = TOPIC_ENTRIES[0]
        base = place.topic("short")
        await place.ask("PUT", *base)
        await place.ask("POST", *base, "permissions", "app", body=["produce"])
        assert (await self.read(place, row, base)).keys() == {"app"}
        await place.ask("DELETE", *base)
        with pytest.raises(NotFoundError):
            await place.ask("POST", *base, "permissions", "app", body=["produce"])
        assert await self.until(place, row, base, {}) == {}


__all__ = ["EntryContract"]
