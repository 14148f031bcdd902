"""Racks of bookies in the metadata store: znode /bookies, which brokers and auto-recovery read. Pure.

Its content is JSON: a group, then a bookie's id, then what is said of it: ``{"default": {"<id>": {"rack": "/zone",
"hostname": "<host>"}}}`` (class BookiesRackConfiguration of Pulsar 4.0.8). Other writers have entries there too: with
Pulsar's own REST, of bookies that are none of the cluster's pods, and in groups that namespaces are isolated by. What
is not the operator's stays as it is.

Of a bookie that several groups name, brokers take the entry they come to last (class BookieRackAffinityMapping,
updateRacksWithHost), so that its rack is written into each of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies, host_of
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError

RACKS_PATH: Final = "/bookies"
RECORD_PATH: Final = "/pulsar-operator/bookie-racks"
"""Znode with the racks that the operator wrote, by bookie id: it removes no entry of another writer."""
GROUP: Final = "default"
"""Where a bookie is that no group names."""
RACK: Final = "rack"
HOSTNAME: Final = "hostname"

Entries = dict[str, dict[str, dict[str, Any]]]
"""By group and the bookie's id."""


def parse_entries(data: bytes) -> Entries:
    """What the znode says; nothing where it is empty. Raises UndecodableError where brokers could not read it either,
    or writing it again would change something."""
    if not data.strip():
        return {}
    try:
        found = json.loads(data.decode(), parse_constant=_refused)
        json.dumps(found, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise UndecodableError(f"znode {RACKS_PATH} is no JSON: {str(error)[:120]}") from None
    if not isinstance(found, dict):
        raise UndecodableError(f"znode {RACKS_PATH} is no JSON object")
    for group, bookies in found.items():
        if not isinstance(bookies, dict) or not all(isinstance(each, dict) for each in bookies.values()):
            raise UndecodableError(f"group {str(group)[:80]!r} of znode {RACKS_PATH} is no JSON object of objects")
    return found


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def entries_data(entries: Entries) -> bytes:
    """Content of the znode."""
    return json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()


def racks_of(entries: Entries) -> dict[str, str]:
    """The rack of each bookie as brokers take it, by its id; a bookie without one is left out."""
    found: dict[str, str] = {}
    for group in sorted(entries):
        for bookie, each in entries[group].items():
            rack = each.get(RACK)
            if isinstance(rack, str) and rack.strip().strip("/"):
                found[bookie] = rack if rack.startswith("/") else f"/{rack}"
    return found


def merged(entries: Entries, desired: Mapping[str, str], gone: Mapping[str, str]) -> Entries:
    """Returns the entries with these racks, by bookie id, and without those of ``gone`` that still have the rack which
    the operator wrote. An entry in a user's group stays there without a rack. Nothing else is changed."""
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
    """Returns the entries with each later incarnation of these bookies in place of the former one: a user who put a
    bookie into a group named it by its id at that time.

    A former id that is still present keeps its entry too. One that is not loses its entry, so that a user who removes
    the later one from the group has the last word.
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
    """Returns the last incarnation before a bookie that has an entry if the bookie has none; None if there is none, or
    the bookie is in a user's group already."""
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
    """Which racks the operator wrote, by the bookie's id; nothing where it cannot be read."""
    try:
        return {str(bookie): str(rack) for bookie, rack in json.loads(data or b"{}").items()}
    except (ValueError, AttributeError, RecursionError):
        return {}


def record_data(record: Mapping[str, str]) -> bytes:
    """Content of the record."""
    return json.dumps(dict(sorted(record.items()))).encode()


def distinct(racks: Iterable[str]) -> int:
    """How many racks these are."""
    return len(set(racks))
