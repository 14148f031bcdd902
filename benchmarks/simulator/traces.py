"""Topic populations with real names, and 24 hours of traffic on them: what the strategies are put through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import cos, exp, pi

from benchmarks.simulator.state import Host, Randomness
from benchmarks.simulator.traffic import Recording, Topic
from benchmarks.simulator.world import Change
from pulsar_operator.balance.model.hashing import partition_name

DAY = 1440
BROKERS = 10
NAMESPACES = 8
PARTITIONS = (8, 10, 16)
SINGLES = 20
MESSAGES = 300_000.0
"""Messages per second published in a quiet hour, in all."""
ZIPF, STEEP = 0.8, 1.1
"""Exponents of the law that the traffic of topics follows; the latter of steep Zipf."""
LOAD = 0.45
"""Mean utilization in a quiet hour, with all brokers."""


def population(
    chance: Randomness, *, striped: bool = False, namespaces: int = NAMESPACES, steep: bool = False
) -> list[Topic]:
    """Topics whose traffic follows Zipf's law over topics, partitions sharing theirs evenly.

    Mixed: each of the namespaces has three partitioned topics and 20 others; partitioned ones tend to be the hot ones.
    Striped: only 8- and 10-partition topics, three to a namespace: with 16 even bundles each lies on 4 of them.
    Steep: a larger exponent, and the hottest ones are partitioned; the first would be more than two brokers' share.
    """
    names: list[tuple[str, int]] = []
    for number in range(namespaces):
        namespace = f"persistent://shop-{number % 3}/team-{number}"
        for kind, partitions in enumerate((8, 10, 8) if striped else PARTITIONS):
            names.append((f"{namespace}/orders-{kind}-{chance.randrange(10_000)}", partitions))
        if not striped:
            names += [(f"{namespace}/events-{chance.randrange(1_000_000)}-{other}", 0) for other in range(SINGLES)]
    ahead, exponent = (0.01, STEEP) if steep else (0.3, ZIPF)
    order = sorted(range(len(names)), key=lambda index: chance.random() * (ahead if names[index][1] else 1.0))
    weights = {index: 1.0 / (rank + 1) ** exponent for rank, index in enumerate(order)}
    scale = MESSAGES / sum(weights.values())
    topics: list[Topic] = []
    for index, (name, partitions) in enumerate(names):
        rate = weights[index] * scale
        size = 300.0 * exp(chance.gauss(1.0, 0.6))
        fanout = float(1 + chance.randrange(3))
        if partitions:
            topics += [
                Topic(partition_name(name, part), rate / partitions, index, size, fanout) for part in range(partitions)
            ]
        else:
            topics.append(Topic(name, rate, index, size, fanout))
    return topics


def with_hidden_costs(topics: Sequence[Topic], chance: Randomness, sigma: float) -> list[Topic]:
    """The topics with a log-normal factor of hidden cost each, one for all partitions of a topic.

    The draws do not depend on `sigma`, the standard deviation of the factor's logarithm: what is dear at one is at all.
    """
    factors = [exp(chance.gauss(0.0, 1.0) * sigma) for _ in range(1 + max(topic.group for topic in topics))]
    return [replace(topic, hidden=factors[topic.group]) for topic in topics]


@dataclass
class Day:
    """Traffic of a day: each namespace has its own hours, each topic its own wobble, and events come on top."""

    topics: Sequence[Topic]
    """In the order of the recording."""
    chance: Randomness
    amplitude: float = 0.15
    """Of the daily wave: 0.6 = between 40 and 160 %."""
    wobble: float = 0.08
    """Standard deviation of the logarithm of a topic's noise."""
    inertia: float = 0.8
    """How much of the noise the next minute keeps."""
    events: Sequence[Callable[[int, list[float]], None]] = ()
    """Each may change the factors of the groups in a minute."""
    _phases: dict[str, float] = field(default_factory=dict)
    _noise: list[float] = field(default_factory=list)
    _namespaces: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        groups = 1 + max(topic.group for topic in self.topics)
        self._noise = [self.chance.gauss(0, self.wobble) for _ in range(groups)]
        self._namespaces = [""] * groups
        for topic in self.topics:
            self._namespaces[topic.group] = topic.namespace
        # Three time zones: a third of the namespaces peaks 8 hours after another.
        self._phases = {
            name: (number % 3) / 3 + 0.05 * self.chance.random()
            for number, name in enumerate(sorted(set(self._namespaces)))
        }

    def factors(self, minute: int) -> Sequence[float]:
        """As Trace."""
        gauss, keep = self.chance.gauss, self.inertia
        fresh = self.wobble * (1 - keep * keep) ** 0.5
        waves = {
            name: 1 - self.amplitude * cos(2 * pi * (minute / DAY + phase)) for name, phase in self._phases.items()
        }
        groups: list[float] = []
        for index, past in enumerate(self._noise):
            self._noise[index] = noise = past * keep + gauss(0, fresh)
            groups.append(waves[self._namespaces[index]] * exp(noise))
        for event in self.events:
            event(minute, groups)
        return [groups[topic.group] for topic in self.topics]


def bursts(chance: Randomness, groups: Sequence[int], count: int, minutes: int, height: float) -> Callable[..., None]:
    """Topics that for some minutes get a multiple of their traffic, rising and falling over a tenth of the time."""
    starts = [(60 + chance.randrange(DAY - 120 - minutes), groups[chance.randrange(len(groups))]) for _ in range(count)]

    def apply(minute: int, factors: list[float]) -> None:
        for start, group in starts:
            if start <= minute < start + minutes:
                edge = max(1.0, minutes / 10)
                rise = min(1.0, (minute - start + 1) / edge, (start + minutes - minute) / edge)
                factors[group] *= 1 + (height - 1) * rise

    return apply


def drift(chance: Randomness, groups: Sequence[int], hours: float, height: float) -> Callable[..., None]:
    """One topic is hot at a time; every few hours the heat goes over to another within half an hour."""
    period = int(hours * 60)
    hot = [groups[chance.randrange(len(groups))] for _ in range(DAY // period + 2)]

    def apply(minute: int, factors: list[float]) -> None:
        turn, within = divmod(minute, period)
        share = min(1.0, within / 30)
        factors[hot[turn]] *= 1 + (height - 1) * (1 - share)
        factors[hot[turn + 1]] *= 1 + (height - 1) * share

    return apply


@dataclass(frozen=True)
class Scenario:
    """One case of the benchmark, the same for every strategy."""

    name: str
    about: str
    recording: Recording
    hosts: tuple[Host, ...]
    changes: tuple[Change, ...] = ()
    bundles_per_namespace: int = 16
    allowed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """As State."""


NAMES = (
    "diurnal",
    "flash crowd",
    "jitter",
    "drift",
    "broker loss",
    "5-10-5 brokers",
    "mixed brokers",
    "crc stripes",
    "steep Zipf",
    "spare broker",
    "hot topic",
    "foreign CPU",
)
PLAIN = "plain"
"""A day without events, on which metrics are falsified; not one of NAMES."""
FEW_BROKERS, FEW_NAMESPACES = 5, 4
"""Of the last three, in which one broker is not as the others, day in, day out."""
RESTLESS = 0.3
"""Wobble of topics beside a broker that is idle for good or busy with something else: a reason to move, every minute,
for a balancer that takes any gain."""
SPARE = "broker-spare:8080"
"""Of spare broker: isolation keeps it for one namespace that has next to no traffic."""
ISOLATED = Topic("persistent://ops/checks/heartbeat", 10.0)
HOT_SHARE, HOT_LOAD = 0.7, 0.8
"""Of hot topic: its share of what all topics cost, and of its broker in a quiet hour."""
FOREIGN = 0.66
"""Of foreign CPU: share of its processor that the last broker uses for what is no traffic."""
SIZES = (0.5, 1.0, 1.5)
"""Of mixed brokers, in turn."""


def scenario(
    name: str, chance: Randomness, minutes: int = DAY, sigma: float = 0.0, hidden: Randomness | None = None
) -> Scenario:
    """One of NAMES or PLAIN; raises ValueError for another. With `sigma`, `hidden` draws the topics' hidden costs.

    The traffic of a seed is the same whatever the hidden costs are, and so is the mean utilization in a quiet hour.
    """
    few = name in NAMES[-3:]
    topics = population(
        chance,
        striped=name == "crc stripes",
        namespaces=FEW_NAMESPACES if few else NAMESPACES,
        steep=name == "steep Zipf",
    )
    if name == "spare broker":
        topics.append(replace(ISOLATED, group=1 + max(topic.group for topic in topics)))
    if name == "hot topic":
        topics = _one_hot(topics)
    if sigma and hidden is not None:
        topics = with_hidden_costs(topics, hidden, sigma)
    recording = Recording(topics)
    heads = _heads(recording.topics)
    brokers = FEW_BROKERS if few else BROKERS
    capacity = recording.total_cost() / LOAD / brokers
    hosts = tuple(Host(f"broker-{number}:8080", capacity, capacity) for number in range(brokers))
    changes: tuple[Change, ...] = ()
    allowed: dict[str, frozenset[str]] = {}
    day = Day(recording.topics, chance)
    match name:
        case "plain":
            about = "10 brokers at 45 %, three time zones, 85 to 115 %"
        case "diurnal":
            day.amplitude, about = 0.6, "three time zones, 40 to 160 %"
        case "flash crowd":
            day.events = (bursts(chance, heads, 4, 60, 6.0),)
            about = "four times a hot topic gets 6 times its traffic for an hour"
        case "jitter":
            day.wobble, day.inertia = 0.4, 0.3
            day.events = (bursts(chance, heads, 60, 3, 4.0),)
            about = "40 % noise from minute to minute, 60 spikes of 3 minutes"
        case "drift":
            day.events = (drift(chance, heads, 3.0, 5.0),)
            about = "every 3 hours another hot topic has 5 times its traffic"
        case "broker loss":
            changes = (
                Change(360, fails=("broker-3:8080",)),
                Change(480, joins=(hosts[3],)),
                Change(900, fails=("broker-7:8080",)),
                Change(915, joins=(hosts[7],)),
            )
            about = "one lost for 2 hours, another for 15 minutes"
        case "5-10-5 brokers":
            changes, hosts = _scaling(hosts)
            about = "5 more from 08:00 to 16:00"
        case "mixed brokers":
            day.amplitude, hosts = 0.3, _mixed(hosts)
            about = "brokers of 0.5, 1 and 1.5 times the size"
        case "crc stripes":
            day.amplitude, about = 0.3, "8- and 10-partition topics alone, each on 4 of 16 bundles"
        case "steep Zipf":
            day.amplitude, about = 0.3, "topics follow Zipf's law with 1.1, not 0.8"
        case "spare broker":
            allowed = {each: frozenset(host.id for host in hosts) for each in recording.namespaces}
            allowed[ISOLATED.namespace] = frozenset((SPARE,))
            hosts, day.wobble = (*hosts, Host(SPARE, capacity, capacity)), RESTLESS
            about = "5 brokers and one that isolation keeps empty"
        case "hot topic":
            full = HOT_SHARE * recording.total_cost() / HOT_LOAD
            hosts = tuple(Host(host.id, full, full) for host in hosts)
            about = "5 brokers, 70 % of what all topics cost is one topic's"
        case "foreign CPU":
            hosts, day.wobble = (*hosts[:-1], replace(hosts[-1], foreign=FOREIGN)), RESTLESS
            about = "5 brokers, two thirds of one's processor are no traffic's"
        case _:
            raise ValueError(f"trace is {name!r}: it must be one of {', '.join(NAMES)}")
    recording.record(day, minutes)
    return Scenario(name, about, recording, hosts, changes, allowed=allowed)


def _one_hot(topics: Sequence[Topic]) -> list[Topic]:
    """The topics with the one of the first name so hot that it costs `HOT_SHARE` of what all cost."""
    chosen = min(topics, key=lambda topic: topic.name)
    rest = Recording([topic for topic in topics if topic is not chosen]).total_cost()
    scale = rest * HOT_SHARE / (1 - HOT_SHARE) / Recording([replace(chosen, group=0)]).total_cost()
    hot = replace(chosen, rate=chosen.rate * scale, group=1 + max(topic.group for topic in topics))
    return [*(topic for topic in topics if topic is not chosen), hot]


def _mixed(hosts: tuple[Host, ...]) -> tuple[Host, ...]:
    """Brokers of three sizes in turn, together as large as before."""
    sizes = [SIZES[number % len(SIZES)] for number in range(len(hosts))]
    scale = len(hosts) / sum(sizes)
    return tuple(
        Host(host.id, host.capacity * size * scale, host.nic * size * scale)
        for host, size in zip(hosts, sizes, strict=True)
    )


def _scaling(hosts: tuple[Host, ...]) -> tuple[tuple[Change, ...], tuple[Host, ...]]:
    """Five brokers of 1.5 times the size join five others and leave again, one a minute from five minutes after."""
    large = tuple(Host(host.id, host.capacity * 1.5, host.nic * 1.5) for host in hosts)
    extra = large[5:]
    names = [host.id for host in extra]
    return (
        Change(480, joins=extra),
        Change(960, announces=tuple(names)),
        *(Change(965 + number, leaves=(broker,)) for number, broker in enumerate(reversed(names))),
    ), large[:5]


def _heads(topics: Sequence[Topic]) -> list[int]:
    """The groups with the most traffic, a dozen, without those that one partition of would fill a broker in a burst."""
    totals: dict[int, float] = {}
    widest: dict[int, float] = {}
    for topic in topics:
        totals[topic.group] = totals.get(topic.group, 0.0) + topic.rate
        widest[topic.group] = max(widest.get(topic.group, 0.0), topic.rate)
    fitting = [group for group in totals if widest[group] < MESSAGES / BROKERS / 8]
    return sorted(fitting, key=lambda group: -totals[group])[:12]
