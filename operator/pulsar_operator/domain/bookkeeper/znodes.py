"""BookKeeper's paths in the metadata store, below the cluster's chroot, and the content of their znodes. Pure.

Sources: classes BookKeeperConstants, StringUtils and Cookie of BookKeeper 4.17.2; PulsarLedgerUnderreplicationManager
and PulsarLedgerAuditorManager of Pulsar 4.0.8, which auto-recovery uses.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError, read_text

LEDGERS: Final = "/ledgers"
AVAILABLE: Final = f"{LEDGERS}/available"
"""Has a child for each writable bookie, named by its id, and READONLY."""
READONLY_NAME: Final = "readonly"
READONLY: Final = f"{AVAILABLE}/{READONLY_NAME}"
"""Has a child for each read-only bookie."""
COOKIES: Final = f"{LEDGERS}/cookies"
"""Has a child for each bookie that ever started, until it is deleted."""
UNDER_REPLICATION: Final = f"{LEDGERS}/underreplication"
UNDER_REPLICATED: Final = f"{UNDER_REPLICATION}/ledgers"
"""A tree with a leaf for each under-replicated ledger, marked by the auditor."""
DISABLE: Final = f"{UNDER_REPLICATION}/disable"
"""Exists while replication is disabled."""
AUDITOR: Final = f"{UNDER_REPLICATION}/leader"
"""Exists while there is an auditor."""
LOST_BOOKIE_RECOVERY_DELAY: Final = f"{UNDER_REPLICATION}/lostBookieRecoveryDelay"

SHORT_IDS: Final = 2**31 - 1
"""Ids from here on are stored in the long layout (class StringUtils, getHybridHierarchicalLedgerPath)."""
NOT_LEDGERS: Final = frozenset(
    {"available", "cookies", "underreplication", "idgen", "idgen-long", "INSTANCEID", "LAYOUT", "disableHealthCheck"}
)
"""Children of LEDGERS without ledgers below them."""
_MAX_ID: Final = 2**63 - 1
_LEDGER_PATH: Final = re.compile(
    rf"{LEDGERS}/(?:([0-9]{{2}})/([0-9]{{4}})|([0-9]{{3}})/([0-9]{{4}})/([0-9]{{4}})/([0-9]{{4}}))"
    r"/L([0-9]{4})",
    re.ASCII,
)
_BRANCH_DEPTHS: Final = ((re.compile("[0-9]{2}", re.ASCII), 1), (re.compile("[0-9]{3}", re.ASCII), 3))
_LEVEL: Final = re.compile("[0-9]{4}", re.ASCII)
_MARK: Final = re.compile(r"urL([0-9]{10,19})", re.ASCII)


@dataclass(frozen=True)
class Mark:
    """The auditor's mark of an under-replicated ledger."""

    replicas: tuple[str, ...]
    """Bookies whose copies are missing."""
    ctime: int | None
    """When it was marked, or marked for a further bookie, in milliseconds since 1970; None if unknown."""


def ledger_path(ledger_id: int) -> str:
    """Returns the path of a ledger's znode. Raises ValueError for an invalid id."""
    if not 0 <= ledger_id <= _MAX_ID:
        raise ValueError(f"{ledger_id} is not a ledger id")
    if ledger_id < SHORT_IDS:
        digits = f"{ledger_id:010}"
        return f"{LEDGERS}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
    digits = f"{ledger_id:019}"
    return f"{LEDGERS}/{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


def ledger_id(path: str) -> int:
    """Returns the ledger whose znode has that path, in either layout. Raises UndecodableError."""
    match = _LEDGER_PATH.fullmatch(path)
    number = int("".join(part or "" for part in match.groups())) if match else _MAX_ID + 1
    if number > _MAX_ID:
        raise UndecodableError(f"{path[:120]!r} is not the path of a ledger")
    return number


def levels_below(name: str) -> int | None:
    """Returns the number of levels between a child of LEDGERS and the parents of ledgers; None if it has no ledgers
    below it."""
    return next((depth for pattern, depth in _BRANCH_DEPTHS if pattern.fullmatch(name)), None)


def is_level(name: str) -> bool:
    """Whether a name is one of the levels in between."""
    return _LEVEL.fullmatch(name) is not None


def marked_ledger(name: str) -> int | None:
    """Returns the ledger of a mark, from the name of its znode; None for a level of the tree. Raises
    UndecodableError."""
    if not name.startswith("urL"):
        return None
    match = _MARK.fullmatch(name)
    if match is None or int(match[1]) > _MAX_ID:
        raise UndecodableError(f"{name[:80]!r} is not the mark of a ledger")
    return int(match[1])


def parse_mark(data: bytes) -> Mark:
    """Parses the mark of a ledger. Raises UndecodableError."""
    found = read_text("UnderreplicatedLedgerFormat", data)
    # -1 stands for "not told" in class UnderreplicatedLedger.
    return Mark(tuple(found.replica), found.ctime if found.HasField("ctime") and found.ctime >= 0 else None)


def parse_auditor(data: bytes) -> str:
    """Returns the id of the auditor: a JSON string, as Pulsar's leader election writes it, or plain text; empty if
    there is none."""
    text = data.decode("utf-8", "replace").strip()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, str) else text
