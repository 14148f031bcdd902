"""Attacks on deletions of replicated topics that end halfway."""

from __future__ import annotations

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import UnavailableError
from tests.fakes.admin import AdminCall
from tests.unit.logical.test_replicated_deletion import Replicated, made


async def _halfway(*, restart: bool) -> Replicated:
    """Replication has ended, the deletion got no answer, and nor did the list that was to be given back."""
    found = await made(Kind.TOPIC)
    w = found.w

    def silent(call: AdminCall) -> None:
        deletes = call.method == "DELETE"
        gives_back = deletes and call.path[-1] == "replication"
        if deletes or gives_back:
            raise UnavailableError("no answer")

    w.admin.before.append(silent)
    found.declare("Delete")
    await found.delete()
    if restart:
        w.restart()
    w.admin.before.clear()
    found.declare("Retain")
    await found.work()
    return found


def _own_lists(found: Replicated) -> list[object]:
    held = found.w.pulsar.topic_policies
    return [each.get("replication") for each in held.values() if each.get("replication")]


async def test_a_topic_that_is_retained_after_all_is_replicated() -> None:
    found = await _halfway(restart=False)
    assert found.left() and not _own_lists(found)


async def test_so_it_is_after_a_restart() -> None:
    found = await _halfway(restart=True)
    assert found.left() and not _own_lists(found)
