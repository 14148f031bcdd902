"""What the job remembers between runs, so that only hours with new files are read.

The unit of work is an hour of recorded traffic. Below ``state/v2/instance=<i>/cluster=<c>``:

    manifest-<number>.json                         the pointer: for every hour its segment, files read and totals
    segments/<run>/summary/unit=<hour>/...         one row a topic: sums of its samples, histogram of their costs
    segments/<run>/placement/unit=<hour>/...       of the newest hour: bundles and brokers of its last round
    segments/<run>/carried/unit=<hour>/...         one row a heavy topic and broker (carried.py); not in older hours

An hour whose files differ from those the manifest names (by name, size and time of change) is worked out again from all
its files and replaces what was there. So each file counts exactly once, late files and compaction need no care, and an
incremental run equals a full one to the last bit. A run writes its segments first and then one manifest, which appears
whole: killed at any point, the old manifest or the new one counts, and segments that no manifest names are deleted
by a later run. The manifest with the highest number counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from pulsar_sizing import layout
from pulsar_sizing.store import Store, StoreError

STATE_VERSION: Final = 2
SUMMARY: Final = "summary"
PLACEMENT: Final = "placement"
CARRIED: Final = "carried"
KEEP_MANIFESTS: Final = 2
"""A reader that took the one before the last still finds its segments."""
ABANDONED: Final = timedelta(hours=6)
"""Age of segments that no manifest names, after which the run that wrote them is dead."""

_MANIFEST = re.compile(r"manifest-(\d{12})\.json")
_RUN_TIME: Final = "%Y%m%dT%H%M%SZ"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class BrokerHour(_Model):
    """One broker in one hour."""

    expected: int = 0
    """Samples that should be there."""
    answered: int = 0
    cost: int = 0
    """Sum over its rows that count, in byte-equivalents per second."""
    told: int = 0
    """Samples that tell its CPU; 0 in hours that an older job worked out."""
    cpu: int = 0
    """Sum of the shares of its CPU, in millionths."""


class HourState(_Model):
    """One hour as it was worked out."""

    digest: str
    """Of the files it was worked out from."""
    segment: str = ""
    """Run that wrote its rows; empty when no row counted."""
    samples: int = 0
    """Rows that count."""
    duplicates: int = 0
    cost: int = 0
    """Sum over the samples, in byte-equivalents per second."""
    rejected: dict[str, int] = Field(default_factory=dict)
    expected: int = 0
    """Broker samples that should be there."""
    answered: int = 0
    announced: int = 0
    """Rows that the answers had."""
    rounds: int = 0
    brokers: dict[str, BrokerHour] = Field(default_factory=dict)
    placed: bool = False
    """Whether its last round's bundles were looked at."""


class Manifest(_Model):
    """What is known, by hour (hours since 1970)."""

    version: Literal[2] = STATE_VERSION
    parameters: str = ""
    """Of what the state was made with; another value makes it useless."""
    hours: dict[int, HourState] = Field(default_factory=dict)


def completeness(hours: Iterable[HourState]) -> float:
    """Share of the traffic of some hours that is there, by the markers of who answered with how much."""
    found = tuple(hours)
    expected, answered = (sum(getattr(hour, name) for hour in found) for name in ("expected", "answered"))
    announced = sum(hour.announced for hour in found)
    # A broker's answer whose file is gone or damaged, or whose rows were rejected, is no answer.
    there = sum(min(hour.samples + hour.duplicates, hour.announced) for hour in found)
    # All of nothing is there where brokers answered that they have no topics.
    share = there / announced if announced else float(not any(hour.samples for hour in found))
    return (answered / expected if expected else 0.0) * share


class State:
    """The state of one cluster in a store."""

    def __init__(self, store: Store, instance: str, cluster: str) -> None:
        self._store = store
        self._names = f"{layout.partition('instance', instance)}/{layout.partition('cluster', cluster)}"
        self._folder = f"state/v{STATE_VERSION}/{self._names}"
        self.address = store.address(self._folder)

    def load(self, parameters: str) -> Manifest:
        """The manifest that counts; an empty one when there is none or it was made with other parameters.

        Raises StoreError when what is there cannot be read.
        """
        found = next(iter(self._manifests(self._numbers()[-1:])), None)
        return found if found is not None and found.parameters == parameters else Manifest(parameters=parameters)

    def publish(self, manifest: Manifest) -> None:
        """Make a manifest the one that counts, in one step."""
        number = max(self._numbers(), default=0) + 1
        self._store.put(self._manifest(number), manifest.model_dump_json().encode())

    def segment(self, run: str, table: str) -> str:
        """Folder of a table's rows that a run writes, below the store's root."""
        return f"{self._folder}/segments/{run}/{table}"

    def folders(self, manifest: Manifest, table: str, units: Iterable[int]) -> list[str]:
        """Folders with a table's rows of some hours, below the store's root."""
        found = ((unit, manifest.hours.get(unit)) for unit in sorted(set(units)))
        return [f"{self.segment(h.segment, table)}/unit={unit}" for unit, h in found if h is not None and h.segment]

    def paths(self, manifest: Manifest, table: str, units: Iterable[int]) -> list[str]:
        """The same as addresses."""
        return [self._store.address(folder) for folder in self.folders(manifest, table, units)]

    def clean(self, now: datetime) -> int:
        """Delete old manifests and the segments of dead runs that none names any more; how many segments went.

        What a job with an older form of the state left goes too.
        """
        for version in range(1, STATE_VERSION):
            self._store.delete_folder(f"state/v{version}/{self._names}")
        numbers = self._numbers()
        for number in numbers[:-KEEP_MANIFESTS]:
            self._store.delete(self._manifest(number))
        kept = self._manifests(numbers[-KEEP_MANIFESTS:])
        used = {hour.segment for manifest in kept for hour in manifest.hours.values()}
        dead = [run for run in self._store.folders(f"{self._folder}/segments") if run not in used and _old(run, now)]
        for run in dead:
            self._store.delete_folder(f"{self._folder}/segments/{run}")
        return len(dead)

    def _manifests(self, numbers: Sequence[int]) -> list[Manifest]:
        found: list[Manifest] = []
        for path in map(self._manifest, numbers):
            text = self._store.get(path)
            try:
                found += [] if text is None else [Manifest.model_validate_json(text)]
            except ValueError as error:
                raise StoreError(
                    f"{self._store.address(path)} cannot be read ({error}): delete it, and the job works out from the "
                    "recorded files what the manifest before it does not hold"
                ) from None
        return found

    def _numbers(self) -> list[int]:
        found = (_MANIFEST.fullmatch(name) for name in self._store.names(self._folder))
        return sorted(int(match[1]) for match in found if match)

    def _manifest(self, number: int) -> str:
        return f"{self._folder}/manifest-{number:012d}.json"


def run_name(now: datetime, unique: str) -> str:
    """Name of a run: its time and something unique."""
    return f"{now:{_RUN_TIME}}-{unique}"


def _old(run: str, now: datetime) -> bool:
    try:
        began = datetime.strptime(run.partition("-")[0], _RUN_TIME).replace(tzinfo=now.tzinfo)
    except ValueError:
        return False
    return now - began > ABANDONED
