"""Limits of the data of bookies and ZooKeeper by the size of their volumes: full volumes stop all of them together.

Journal (class Journal of BookKeeper 4.17): besides the files that are not checkpointed yet and the one being written,
journalMaxBackups older ones are kept, and a start opens one more. Stock settings keep up to 12 GiB, and a bookie with a
full journal volume neither writes nor starts.

Entry logs (classes DiskChecker, LedgerDirsManager and BookieStateManager): a bookie becomes read-only at
diskUsageThreshold, 0.95 by default. It then still needs 1.2 times logSizeLimit for a new entry log; otherwise it cannot
compact and never becomes writable again (ServerConfiguration.getMinUsableSizeForEntryLogCreation).

ZooKeeper (classes SyncRequestProcessor, FilePadding and PurgeTxnLog): a transaction log grows until a snapshot is due,
after 4 GiB or 100,000 transactions with stock settings, and is never shorter than its preallocation. The hourly purge
keeps autopurge.snapRetainCount snapshots and the logs since the oldest of them. A full volume ends the server.
"""

from __future__ import annotations

from collections.abc import Mapping

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Preset
from pulsar_operator.api.v1alpha1.cluster import BookKeeper
from pulsar_operator.api.v1alpha1.instance import ManagedZooKeeper
from pulsar_operator.api.v1alpha1.quantities import KIBI, MEBI, quantity
from pulsar_operator.domain.render.presets import preset_values

JOURNAL_SIZE = "journalMaxSizeMB"
JOURNAL_BACKUPS = "journalMaxBackups"
LOG_SIZE = "logSizeLimit"
DISK_USAGE = "diskUsageThreshold"
DISK_LOW = "diskUsageLwmThreshold"
DISK_WARN = "diskUsageWarnThreshold"
STOCK = {JOURNAL_SIZE: 2048.0, JOURNAL_BACKUPS: 5.0, LOG_SIZE: float(2**30), DISK_USAGE: 0.95}
"""Values of Pulsar's bookkeeper.conf, or BookKeeper's defaults."""

STOCK_WARN = 0.9
"""BookKeeper's default of diskUsageWarnThreshold. diskUsageLwmThreshold defaults to diskUsageThreshold."""
JOURNALS = 8
"""Minimum number of files that fit on a journal volume."""
NOT_BACKUPS = 3
"""Number of files besides the backups: one being written, one not checkpointed, one that a start opens."""
FILLED = 0.95
"""Share of a volume that files may use. The rest is for the file system."""
LOGS = 32
"""Minimum number of entry logs that fit on a ledger volume: 1.2 of them are less than what diskUsageThreshold leaves
free."""
NEW_LOG = 1.2
"""Free space, in entry logs, that a bookie requires to begin a new one."""
LEAST_LOG = 16 * MEBI

SNAPSHOT_AFTER = "snapSizeLimitInKb"
PREALLOCATED = "preAllocSize"
RETAINED = "autopurge.snapRetainCount"
STOCK_STORE = {SNAPSHOT_AFTER: 4.0 * MEBI, PREALLOCATED: 65536.0, RETAINED: 3.0}
"""ZooKeeper's defaults. The first two are in KiB."""
STORE_LOGS = 32
"""Minimum number of transaction logs that fit on a volume of ZooKeeper."""
LOGS_SHARE = 0.5
"""Share of the volume that the logs after a purge may use. The rest is for snapshots and for an hour of writes."""


def volume_limits(keeper: BookKeeper, preset: Preset) -> dict[str, str]:
    """Returns the settings with which journal and entry logs fit on their volumes. They never exceed the preset's or
    the stock ones."""
    given = {**STOCK, **_numbers(preset_values(preset).config.get(Component.BOOKIE, {}))}
    volume = _mebibytes(keeper.journal.size)
    journal = max(1, int(min(given[JOURNAL_SIZE], volume // JOURNALS)))
    backups = int(min(given[JOURNAL_BACKUPS], volume * FILLED // journal - NOT_BACKUPS))
    log = int(min(given[LOG_SIZE], max(LEAST_LOG, _mebibytes(keeper.ledgers.size) * MEBI // LOGS)))
    return {JOURNAL_SIZE: str(journal), JOURNAL_BACKUPS: str(max(1, backups)), LOG_SIZE: str(log)}


def volume_problems(keeper: BookKeeper, preset: Preset) -> list[str]:
    """Returns the settings, or sizes, that are inconsistent, as problems."""
    limits = volume_limits(keeper, preset)
    config = {name: text for name, text in (keeper.config or {}).items() if name in STOCK}
    known = {**STOCK, **_numbers(limits), **_numbers(config)}
    chosen = ", ".join(f"spec.bookkeeper.config.{name} = {config[name]}" for name in sorted(config))
    found = []
    volume, kept = _mebibytes(keeper.journal.size), (known[JOURNAL_BACKUPS] + NOT_BACKUPS) * known[JOURNAL_SIZE]
    if kept > volume * FILLED:
        which = chosen if {JOURNAL_SIZE, JOURNAL_BACKUPS} & config.keys() else "the minimum"
        found.append(
            f"spec.bookkeeper.journal.size = {keeper.journal.size} has no room for the {kept:.0f} MiB that a "
            f"journal keeps ({which}), and a bookie with a full journal volume cannot start. Raise the size, or "
            f"lower or remove {JOURNAL_SIZE} and {JOURNAL_BACKUPS}"
        )
    ledgers = _mebibytes(keeper.ledgers.size) * MEBI
    left = (1 - known[DISK_USAGE]) * ledgers
    if NEW_LOG * known[LOG_SIZE] > left:
        which = chosen if {LOG_SIZE, DISK_USAGE} & config.keys() else "the minimum"
        found.append(
            f"spec.bookkeeper.ledgers.size = {keeper.ledgers.size} leaves {left / MEBI:.0f} MiB to a bookie that "
            f"is read-only because of its disk, which is less than {NEW_LOG} entry logs of "
            f"{known[LOG_SIZE] / MEBI:.0f} MiB ({which}), so the bookie could compact nothing. Raise the size, or "
            f"lower or remove {LOG_SIZE} and {DISK_USAGE}"
        )
    warn = disk_shares(keeper, preset)[2]
    if DISK_USAGE in config and warn > known[DISK_USAGE]:
        found.append(
            f"spec.bookkeeper.config.{DISK_USAGE} = {config[DISK_USAGE]} is less than {DISK_WARN} ({warn:g}), and "
            f"a bookie does not start with such values (class DiskChecker). Set {DISK_WARN} to at most the same "
            "value"
        )
    return found


def disk_shares(keeper: BookKeeper, preset: Preset) -> tuple[float, float, float]:
    """Returns the shares of its ledger disks at which a bookie becomes read-only, below which it is writable again, and
    from which it warns, as in the rendered bookkeeper.conf (classes LedgerDirsMonitor and ServerConfiguration of
    BookKeeper 4.17)."""
    known = {**preset_values(preset).config.get(Component.BOOKIE, {}), **(keeper.config or {})}
    full = _number(known.get(DISK_USAGE), STOCK[DISK_USAGE])
    return full, _number(known.get(DISK_LOW), full), _number(known.get(DISK_WARN), STOCK_WARN)


def _number(text: str | None, otherwise: float) -> float:
    """Returns a setting as a number; ``otherwise`` if it is unset or not a number, which BookKeeper refuses."""
    try:
        return otherwise if text is None else float(text)
    except ValueError:
        return otherwise


def store_limits(store: ManagedZooKeeper) -> dict[str, str]:
    """Returns the settings with which the transaction logs of a ZooKeeper server fit on its volume. They never exceed
    the stock ones."""
    log = int(max(KIBI, min(STOCK_STORE[SNAPSHOT_AFTER], _mebibytes(store.storage.size) * KIBI // STORE_LOGS)))
    return {SNAPSHOT_AFTER: str(log), PREALLOCATED: str(min(log, int(STOCK_STORE[PREALLOCATED])))}


def store_volume_problems(store: ManagedZooKeeper, field: str) -> list[str]:
    """Returns a problem if the logs after a purge do not fit. ``field`` is the path of the ensemble in the spec."""
    config = {name: text for name, text in (store.config or {}).items() if name in STOCK_STORE}
    known = {**STOCK_STORE, **_numbers(store_limits(store)), **_numbers(config)}
    # The one being written, and those since the oldest snapshot that is left.
    kept = (known[RETAINED] + 1) * max(known[SNAPSHOT_AFTER], known[PREALLOCATED]) / KIBI
    volume = _mebibytes(store.storage.size)
    if kept <= volume * LOGS_SHARE:
        return []
    chosen = ", ".join(f"{field}.config.{name} = {config[name]}" for name in sorted(config))
    return [
        f"{field}.storage.size = {store.storage.size} has no room for the {kept:.0f} MiB of transaction logs that "
        f"a purge leaves ({chosen or 'the minimum'}), in addition to snapshots and the logs of an hour, and a "
        f"full volume stops the server. Raise the size, or lower or remove {', '.join(sorted(STOCK_STORE))}"
    ]


def _mebibytes(size: str | int) -> float:
    return float((quantity(size) or 0) / MEBI)


def _numbers(config: Mapping[str, str]) -> dict[str, float]:
    found = {}
    for name in (*STOCK, *STOCK_STORE):
        try:
            found[name] = float(config[name])
        except (KeyError, ValueError):
            continue  # absent; what is no number is BookKeeper's to refuse
    return found
