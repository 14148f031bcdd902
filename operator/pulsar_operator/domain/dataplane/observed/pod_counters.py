"""The counters of errors of each component, and a parser of Prometheus' text format. Pure.

Names, labels and causes of each counter were observed on Pulsar 4.0.8, BookKeeper 4.17.2 and ZooKeeper 3.9.4, each
component started as its pods start it (tests/unit/rollout/counters has their pages):

| component | counter | seen to count | |---|---|---| | broker | log4j2_appender_total by level | 0 -> 1433 errors while
the only bookie was read-only | | broker | topic_load_failed_total | each load of a topic whose ledger's bookie was
gone: 16 | | broker | pulsar_broker_lookup_failures_total | was not provoked; see class NamespaceService | | broker |
jetty_responses_total, code 5xx | each request while ZooKeeper was gone: 6 | | bookie |
bookkeeper_server_ADD_ENTRY_REQUEST_count, success false | an entry refused by a read-only bookie | | bookie |
bookkeeper_server_ADD_ENTRY_count | every entry that went through the journal; those are in no _REQUEST_ | | bookie |
bookkeeper_server_READ_ENTRY_REQUEST_count | every read: 444; its success false was not provoked | | proxy |
pulsar_proxy_rejected_connections_total | each connection above maxConcurrentInboundConnections: 5 of 8 | | proxy |
jetty_responses_total, code 5xx | a request while no broker was there (502) | | proxy | log4j2_appender_total by level |
11 errors while ZooKeeper was gone | | ZooKeeper | connection_rejected_total | each connection above maxClientCnxns: 24
of 75 | | ZooKeeper | log4j2_appender_total by level | lines of each level; no error was provoked |

Left out although their names mean errors: pulsar_ml_AddEntryErrors and ReadEntriesErrors, gauges of the last minute
(306, and 0 a minute later); pulsar_topic_load_times_count, which returns to 0; a "fail" of
pulsar_metadata_store_ops_latency_ms, which counts deletions of absent nodes and nothing while ZooKeeper is gone.
Auto-recovery has no counter of which a healthy cluster is free: a copy that fails for a bookie is that bookie's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pulsar_operator.api.constants import Component
from pulsar_operator.domain.dataplane.objects.pods import PodFacts
from pulsar_operator.domain.render.listeners import HTTP, HTTPS, pod_url


@dataclass(frozen=True)
class Sample:
    """One line of a page of metrics."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Series:
    """Samples of one name, restricted to some values of a label if one is given."""

    name: str
    label: str = ""
    values: frozenset[str] = frozenset()

    def has(self, sample: Sample) -> bool:
        """Whether a sample belongs to the series."""
        return sample.name == self.name and (not self.label or sample.labels.get(self.label) in self.values)


@dataclass(frozen=True)
class Sort:
    """A kind of operation that can fail."""

    name: str
    """Short name, stored in the status."""
    words: str
    """What failed, to follow two numbers: "3 of 200 ..."."""
    errors: tuple[Series, ...]
    operations: tuple[Series, ...]
    """Series that count all operations, failed ones included."""


@dataclass(frozen=True)
class Tally:
    """Number of operations, and how many of them failed."""

    operations: int
    errors: int


Counts = Mapping[str, Tally]
"""Tallies by name of the kind; a kind that the page does not have is left out."""

_LINES = Series("log4j2_appender_total")
_LOG: Final = Sort(
    "log",
    "lines of the log are errors",
    (Series("log4j2_appender_total", "level", frozenset({"error", "fatal"})),),
    (_LINES,),
)
_WEB: Final = Sort(
    "web",
    "web requests were answered 5xx",
    (Series("jetty_responses_total", "code", frozenset({"5xx"})),),
    (Series("jetty_responses_total"),),
)
_LOOKUP, _REJECTED = "pulsar_broker_lookup_", "pulsar_proxy_rejected_connections_total"
_LOOKUP_FAILURES: Final = (Series(f"{_LOOKUP}failures_total"), Series("topic_load_failed_total"))
_ADDED: Final = ("bookkeeper_server_ADD_ENTRY_count", "bookkeeper_server_ADD_ENTRY_REQUEST_count")
_READ: Final = ("bookkeeper_server_READ_ENTRY_REQUEST_count",)
_FAILED: Final = frozenset({"false"})


def _bookkeeper(name: str, words: str, names: Sequence[str]) -> Sort:
    """Returns the series of a summary of BookKeeper, which has the success in a label."""
    return Sort(
        name, words, tuple(Series(each, "success", _FAILED) for each in names), tuple(Series(each) for each in names)
    )


SORTS: Final[Mapping[Component, tuple[Sort, ...]]] = MappingProxyType(
    {
        Component.ZOOKEEPER: (
            _LOG,
            Sort(
                "connection",
                "connections were rejected",
                (Series("connection_rejected_total"),),
                (Series("connection_rejected_total"), Series("connection_request_count_total")),
            ),
        ),
        Component.BOOKIE: (
            _bookkeeper("add", "entries could not be added", _ADDED),
            _bookkeeper("read", "entries could not be read", _READ),
        ),
        Component.BROKER: (
            _LOG,
            _WEB,
            # A topic is loaded after a look-up, and loads that end well are counted nowhere for good.
            Sort(
                "lookup",
                "look-ups and loads of topics failed",
                _LOOKUP_FAILURES,
                (*_LOOKUP_FAILURES, Series(f"{_LOOKUP}answers_total"), Series(f"{_LOOKUP}redirects_total")),
            ),
        ),
        Component.PROXY: (
            _LOG,
            _WEB,
            Sort(
                "connection",
                "connections were rejected",
                (Series(_REJECTED),),
                (Series(_REJECTED), Series("pulsar_proxy_new_connections_total")),
            ),
        ),
    }
)
"""Kinds of operations that are compared, by component; a component that is missing is not compared."""

PATHS: Final[Mapping[Component, str]] = MappingProxyType({Component.BROKER: "/metrics/", Component.PROXY: "/metrics/"})
"""Path of the page if it is not /metrics; Jetty answers that with a redirect."""


def names_of(component: Component) -> frozenset[str]:
    """Returns the names of all series that are read from a component's pods."""
    return frozenset(
        series.name for sort in SORTS.get(component, ()) for series in (*sort.errors, *sort.operations) if series.name
    )


def counts(component: Component, samples: Iterable[Sample]) -> Counts:
    """Returns the tallies of a page. A missing series counts 0 if another one of its kind exists: some appear with the
    first operation."""
    found: dict[str, Tally] = {}
    there = list(samples)
    for sort in SORTS.get(component, ()):
        operations = [each.value for each in there if any(series.has(each) for series in sort.operations)]
        errors = [each.value for each in there if any(series.has(each) for series in sort.errors)]
        if operations:
            found[sort.name] = Tally(int(sum(operations)), int(sum(errors)))
    return found


_VALUE_LENGTH: Final = 64
"""Maximum number of characters of a value."""


def parse(lines: Iterable[str], names: frozenset[str]) -> list[Sample]:
    """Parses samples of these names from lines of Prometheus' text format, version 0.0.4.

    Lines that are no samples are left out, and so are values that are no count (NaN, infinite, below 0). The process on
    the pod's port controls the lines, so each character is read a bounded number of times.
    """
    found = []
    for line in lines:
        name = (line.split("{", 1)[0].split(None, 1) or [""])[0]
        sample = _sample(name, line) if name in names and line.startswith(name) else None
        if sample is not None:
            found.append(sample)
    return found


def _sample(name: str, line: str) -> Sample | None:
    """Parses a line that begins with a name."""
    position = _after_spaces(line, len(name))
    labels: dict[str, str] = {}
    if line.startswith("{", position):
        read = _labels(line, position + 1)
        if read is None:
            return None
        labels, position = read
        if position == _after_spaces(line, position):
            return None
    value, *more = line[position:].split(None, 2) or [""]
    if len(more) > 1 or (more and not more[0].removeprefix("-").isdecimal()):
        return None
    count = _count(value)
    return Sample(name, labels, count) if count is not None else None


def _labels(line: str, position: int) -> tuple[dict[str, str], int] | None:
    """Parses labels after the opening brace, and returns them with the position after the closing one; None if these
    are no labels."""
    found: dict[str, str] = {}
    while position < len(line):
        if line[position] == "}":
            return found, position + 1
        if line[position] in ", \t":
            position += 1
            continue
        begin = position
        while position < len(line) and (line[position] == "_" or line[position].isalnum()):
            position += 1
        name = line[begin:position]
        if not name or not line.startswith('="', position):
            return None
        begin = position = position + 2
        while position < len(line) and line[position] != '"':
            position += 2 if line[position] == "\\" else 1
        found[name] = line[begin:position]
        position += 1
    return None


def _after_spaces(line: str, position: int) -> int:
    while position < len(line) and line[position].isspace():
        position += 1
    return position


def _count(text: str) -> float | None:
    try:
        value = float(text) if len(text) <= _VALUE_LENGTH else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def metrics_url(component: Component, pod: PodFacts) -> str | None:
    """Returns the metrics URL of a pod; None if it serves no metrics, as a ZooKeeper server without ``metrics``."""
    address = str((pod.raw.get("status") or {}).get("podIP") or "")
    containers = (pod.raw.get("spec") or {}).get("containers") or ()
    ports = [port for each in containers if each.get("name") == component.value for port in each.get("ports") or ()]
    named = {each.get("name"): each["containerPort"] for each in ports}
    port = named.get(HTTP) or named.get(HTTPS)
    if not address or port is None:
        return None
    return pod_url(address, port, PATHS.get(component, "/metrics"), tls=HTTP not in named)
