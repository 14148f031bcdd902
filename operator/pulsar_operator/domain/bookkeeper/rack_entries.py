"""Racks of bookies in the metadata store: znode /bookies, which brokers and auto-recovery read. Pure.

The content is JSON: a group, then a bookie id, then its entry: ``{"default": {"<id>": {"rack": "/zone", "hostname":
"<host>"}}}`` (class BookiesRackConfiguration of Pulsar 4.0.8). Other writers have entries there too: by Pulsar's own
REST, for bookies that are not pods of the cluster, and in groups for the isolation of namespaces. The operator does not
change entries of others. If several groups name a bookie, brokers use the entry that they process last (class
BookieRackAffinityMapping, updateRacksWithHost), so its rack is written into each of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies, host_of
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError

RACKS_PATH: Final = "/bookies"
RECORD_PATH: Final = "/pulsar-operator/bookie-racks"
"""Path of the record of racks that the operator wrote, by bookie id. It removes no entry of another writer."""
GROUP: Final = "default"
"""Group of a bookie that no group names."""
RACK: Final = "rack"
HOSTNAME: Final = "hostname"

Entries = dict[str, dict[str, dict[str, Any]]]
"""Entries by group and bookie id."""


def parse_entries(data: bytes) -> Entries:
    """Parses the znode; empty if it has no content. Raises UndecodableError if brokers could not parse it either, or if
    writing it again would change it."""
    if not data.strip():
        return {}
    try:
        found = json.loads(data.decode(), parse_constant=_refused)
        json.dumps(found, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise UndecodableError(f"znode {RACKS_PATH} is not JSON: {str(error)[:120]}") from None
    if not isinstance(found, dict):
        raise UndecodableError(f"znode {RACKS_PATH} is not a JSON object")
    for group, bookies in found.items():
        if not isinstance(bookies, dict) or not all(isinstance(each, dict) for each in bookies.values()):
            raise UndecodableError(f"group {str(group)[:80]!r} of znode {RACKS_PATH} is not a JSON object of objects")
    return found


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


def entries_data(entries: Entries) -> bytes:
    """Returns the content of the znode."""
    return json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()


def racks_of(entries: Entries) -> dict[str, str]:
    """Returns the rack of each bookie as brokers interpret it, by id. Bookies without a rack are left out."""
    found: dict[str, str] = {}
    for group in sorted(entries):
        for bookie, each in entries[group].items():
            rack = each.get(RACK)
            if isinstance(rack, str) and rack.strip().strip("/"):
                found[bookie] = rack if rack.startswith("/") else f"/{rack}"
    return found


def merged(entries: Entries, desired: Mapping[str, str], gone: Mapping[str, str]) -> Entries:
    """Returns the entries with the ``desired`` racks, by bookie id, and without those in ``gone``.

    An entry in ``gone`` is only removed if it still has the rack that the operator wrote. In a group of another writer
    the entry is kept without a rack. Nothing else is changed.
    """
    found = {group: dict(bookies) for group, bookies in entries.items()}
    for bookie, rack in desired.items():
        groups = [group for group, bookies in found.items() if bookie in bookies]
        for group in groups or [GROUP]:
            there = found.setdefault(group, {}).get(bookie) or {HOSTNAME: host_of(bookie)}
            found[group][bookie] = {**there, RACK: rack}
    for bookie, rack in gone.items():
        for group in list(found):
            each = found[group].get(bookie)
            if each is None or each.get(RACK) != rack:
                continue
            if group != GROUP:
                found[group][bookie] = {name: value for name, value in each.items() if name != RACK}
                continue
            del found[group][bookie]
            if not found[group]:
                # As Pulsar does (class BookiesRackConfiguration, removeBookie).
                del found[group]
    return found


def inherited(entries: Entries, own: OwnBookies, ordinals: Iterable[int]) -> Entries:
    """Returns the entries in which a later incarnation of these bookies replaces the former one, since a group names a
    bookie by the id that it had at that time.

    A former id that is still present keeps its entry too. Otherwise its entry is removed, so that a later removal of
    the bookie from the group is not reverted.
    """
    found = {group: dict(bookies) for group, bookies in entries.items()}
    for ordinal in ordinals:
        ids = own.ids(ordinal)
        for later in sorted(ids):
            former = _former(found, own, later)
            if former is not None:
                _give(found, former, later, keep=former in own.present or former in ids)
    return found


def _former(entries: Entries, own: OwnBookies, later: str) -> str | None:
    """Returns the last incarnation before a bookie that has an entry where the bookie has none; None if there is none,
    or if a group of another writer already has the bookie."""
    slot = own.slot(later)
    if slot is None or slot[1] == 0 or any(later in bookies for group, bookies in entries.items() if group != GROUP):
        return None
    ids = {each for bookies in entries.values() for each in bookies}
    before = [(of[1], each) for each in ids if (of := own.slot(each)) is not None and of[0] == slot[0]]
    former = max((each for each in before if each[0] < slot[1]), default=None)
    if former is None:
        return None
    return former[1] if any(former[1] in entries[group] and later not in entries[group] for group in entries) else None


def _give(entries: Entries, former: str, later: str, *, keep: bool) -> None:
    groups = [group for group, bookies in entries.items() if former in bookies]
    for group in groups:
        entries[group].setdefault(later, entries[group][former])
        if not keep:
            del entries[group][former]
    if GROUP not in groups and entries.get(GROUP, {}).pop(later, None) is not None and not entries[GROUP]:
        del entries[GROUP]


def parse_record(data: bytes) -> dict[str, str]:
    """Parses the record of racks that the operator wrote, by bookie id; empty if it cannot be parsed."""
    try:
        return {str(bookie): str(rack) for bookie, rack in json.loads(data or b"{}").items()}
    except (ValueError, AttributeError, RecursionError):
        return {}


def record_data(record: Mapping[str, str]) -> bytes:
    """Returns the content of the record."""
    return json.dumps(dict(sorted(record.items()))).encode()


def distinct(racks: Iterable[str]) -> int:
    """Returns the number of different racks."""
    return len(set(racks))
