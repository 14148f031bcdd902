"""Reserved keys, refused values, layers, JVM arguments, resources and quorums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Jvm, Resources
from pulsar_operator.api.v1alpha1.cluster import Ensemble, Preset
from pulsar_operator.domain.render import QuorumError, check_config, render_cluster, resolve_quorum, spec_problems
from pulsar_operator.domain.render.config import check_jvm, layered, overrides_text
from pulsar_operator.domain.render.presets import PRODUCTION, SMALL, container_resources, jvm_arguments, mebibytes
from pulsar_operator.domain.render.quorum import Quorum, default_quorum
from tests.support.cluster.rendering import container, distributed, inputs, overrides, standalone

RESERVED = [
    (
        Component.BROKER,
        "metadataStoreUrl",
        'spec.broker.config key "metadataStoreUrl" is reserved, because the operator derives it from '
        "spec.metadataStore",
    ),
    (Component.BROKER, "replicatorPrefix", "the operator finds the replication backlog by this prefix"),
    (Component.BROKER, "clusterName", "spec.clusterName"),
    (Component.BROKER, "maxMessageSize", "spec.broker.maxMessageSize"),
    (Component.BROKER, "managedLedgerDefaultAckQuorum", "spec.bookkeeper.ensemble"),
    (Component.BROKER, "loadManagerClassName", "spec.loadBalancing.manager"),
    (Component.BROKER, "tlsKeyFilePath", "spec.tls.edge"),
    (Component.BROKER, "authenticationEnabled", "authentication"),
    (Component.BROKER, "advertisedAddress", "DNS name"),
    (Component.BROKER, "webServicePort", "ports"),
    (Component.BOOKIE, "bookieId", "spec.bookkeeper.config"),
    (Component.BOOKIE, "journalDirectories", "volumes"),
    (Component.BOOKIE, "autoRecoveryDaemonEnabled", "spec.bookkeeper.autoRecovery"),
    (Component.BOOKIE, "httpServerPort", "probes"),
    (Component.PROXY, "brokerServiceURL", "spec.metadataStore"),
    (Component.PROXY, "servicePort", "ports"),
    (Component.ZOOKEEPER, "server.1", "replicas"),
    (Component.ZOOKEEPER, "dataDir", "volumes"),
    (Component.CONFIGURATION_STORE, "clientPort", "spec.configurationStore.managed.config"),
    (Component.STANDALONE, "metadataStoreUrl", "volume"),
    (Component.STANDALONE, "bookieId", "spec.standalone.config"),
]


@pytest.mark.parametrize(("component", "key", "expected"), RESERVED)
def test_a_reserved_key_is_refused_with_what_to_use_instead(component: Component, key: str, expected: str) -> None:
    (problem,) = check_config(component, {key: "x"})
    assert f'key "{key}" is reserved' in problem
    assert expected in problem


@pytest.mark.parametrize(
    ("component", "key"),
    [
        (Component.BROKER, "brokerDeleteInactiveTopicsEnabled"),
        (Component.BROKER, "bookkeeper_customKey"),
        (Component.BOOKIE, "journalSyncData"),
        (Component.BOOKIE, "lostBookieRecoveryDelay"),
        (Component.PROXY, "brokerProxyAllowedHostNames"),
        (Component.ZOOKEEPER, "tickTime"),
        (Component.STANDALONE, "advertisedAddress"),
    ],
)
def test_other_keys_are_free(component: Component, key: str) -> None:
    assert check_config(component, {key: "x"}) == []


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("a=b", "x", "not a configuration key"),
        ("a b", "x", "not a configuration key"),
        ("#a", "x", "not a configuration key"),
        ("", "x", "not a configuration key"),
        ("a\nb", "x", "not a configuration key"),
        ("key", "x\nmetadataStoreUrl=zk:evil", "line break"),
        ("key", "x\rmetadataStoreUrl=zk:evil", "line break"),
        ("key", "x\u2028y", "line break"),
        ("key", "x\x00", "control character"),
        ("key", "x\\", "backslash"),
        ("key", "x\\ ", "backslash"),
    ],
)
def test_what_would_escape_its_line_is_refused(key: str, value: str, word: str) -> None:
    (problem,) = check_config(Component.BROKER, {key: value})
    assert word in problem
    assert "zk:evil" not in problem, "values may be secret"


VALUES = st.text(max_size=12) | st.text("aZ0_.- =:#\\", max_size=12) | st.text("a\n\r\x0b\x85\u2028", max_size=3)
KEYS = st.text("aZ0_.-", min_size=1, max_size=8) | st.text(max_size=12) | st.text("a\n=: ", max_size=4)


@given(st.sampled_from(list(Component)), st.dictionaries(KEYS, VALUES, min_size=1, max_size=6))
def test_whatever_passes_the_check_stays_one_line_each(component: Component, values: dict[str, str]) -> None:
    passed = {key: value for key, value in values.items() if not check_config(component, {key: value})}
    text = overrides_text(passed)
    assert text.splitlines() == [f"{key}={value.strip()}" for key, value in sorted(passed.items())]


SECTIONS = {
    Component.ZOOKEEPER: lambda config: distributed(metadataStore={"managed": {"replicas": 1, "config": config}}),
    Component.BOOKIE: lambda config: distributed(bookkeeper={"replicas": 2, "config": config}),
    Component.AUTORECOVERY: lambda config: distributed(bookkeeper={"replicas": 2, "config": config}),
    Component.BROKER: lambda config: distributed(broker={"maxMessageSize": 2048, "config": config}),
    Component.PROXY: lambda config: distributed(proxy={"replicas": 1, "config": config}),
    Component.STANDALONE: lambda config: standalone(config=config),
}


@pytest.mark.parametrize("manager", ["Modular", "Extensible"])
@pytest.mark.parametrize("component", list(SECTIONS))
def test_a_key_is_either_reserved_or_the_users(component: Component, manager: str) -> None:
    """No value of a user is accepted and then silently overwritten."""

    def render(config: dict[str, str]) -> tuple[dict[str, str], set[str]]:
        spec = SECTIONS[component](config)
        if component is not Component.STANDALONE:
            balancing = spec.load_balancing.model_copy(update={"manager": manager})
            spec = spec.model_copy(update={"load_balancing": balancing})
        manifests = render_cluster(inputs(spec)).of(component)
        names = {entry["name"] for entry in container(manifests)["env"]}
        return overrides(manifests), {n.removeprefix("PULSAR_CONF_") for n in names if n.startswith("PULSAR_CONF_")}

    values, of_the_pod = render({})
    assert values or component is Component.ZOOKEEPER
    for key in sorted(values.keys() | of_the_pod):
        if check_config(component, {key: "theirs"}):
            continue
        theirs, left = render({key: "theirs"})
        assert theirs.get(key, "theirs") == "theirs", key
        assert key not in left, key


@pytest.mark.parametrize(
    ("option", "refused"),
    [
        ("-Xmx4g", True),
        ("-XX:MaxDirectMemorySize=1g", True),
        ("-jar", True),
        ("org.evil.Main", True),
        ("-Dx=1\n-Dy=2", True),
        (" -Dx=1", True),
        ("-XX:+UseZGC", False),
        ("-Dpassword=secret", False),
    ],
)
def test_jvm_options(option: str, refused: bool) -> None:
    problems = check_jvm("spec.broker.jvm", Jvm(options=[option]))
    assert bool(problems) == refused
    assert not any("secret" in problem for problem in problems)


def test_layers_the_last_wins_and_keys_are_sorted() -> None:
    assert list(layered({"b": "1", "a": "1"}, None, {"b": "2"}).items()) == [("a", "1"), ("b", "2")]


def test_the_small_preset_fits_its_promise() -> None:
    """ZooKeeper, bookie, auto-recovery, broker and proxy request less than 1.5 GiB and together half a core."""
    five = (Component.ZOOKEEPER, Component.BOOKIE, Component.AUTORECOVERY, Component.BROKER, Component.PROXY)
    asked = [container_resources(c, Preset.SMALL, None, None)["requests"] for c in five]
    assert sum(int(r["memory"].removesuffix("Mi")) for r in asked) < 1536
    assert sum(int(r["cpu"].removesuffix("m")) for r in asked) <= 500
    assert all("-XX:+UseSerialGC" in jvm_arguments(c, Preset.SMALL, None) for c in Component)


@pytest.mark.parametrize("preset", list(Preset))
@pytest.mark.parametrize("component", list(Component))
def test_limits_hold_what_the_jvm_may_use(preset: Preset, component: Component) -> None:
    values = (SMALL if preset is Preset.SMALL else PRODUCTION).sizing[component]
    memory = container_resources(component, preset, None, None)
    limit, request = (int(memory[k]["memory"].removesuffix("Mi")) for k in ("limits", "requests"))
    assert request <= limit
    assert limit >= values.heap + (values.direct or 0) + 128
    assert "cpu" not in memory["limits"]


def test_a_larger_heap_brings_its_memory() -> None:
    jvm = Jvm(heap="4g", direct_memory="2g", options=["-Dx=y"])
    arguments = jvm_arguments(Component.BROKER, Preset.SMALL, jvm)
    assert arguments[:3] == ["-Xms4g", "-Xmx4g", "-XX:MaxDirectMemorySize=2g"]
    assert arguments[-1] == "-Dx=y"
    memory = container_resources(Component.BROKER, Preset.SMALL, jvm, None)
    assert int(memory["limits"]["memory"].removesuffix("Mi")) > 6 * 1024


def test_a_users_collector_replaces_the_presets() -> None:
    arguments = jvm_arguments(Component.BROKER, Preset.PRODUCTION, Jvm(options=["-XX:+UseZGC"]))
    assert [a for a in arguments if a.endswith("GC")] == ["-XX:+UseZGC"]


def test_given_resources_replace_the_presets_as_a_whole() -> None:
    given_resources = Resources(requests={"cpu": 2, "memory": "8Gi"})
    result = container_resources(Component.BROKER, Preset.SMALL, None, given_resources)
    assert result == {"requests": {"cpu": "2", "memory": "8Gi"}}


@pytest.mark.parametrize(("size", "expected"), [("1g", 1024), ("512m", 512), ("2048K", 2)])
def test_java_sizes(size: str, expected: float) -> None:
    assert mebibytes(size) == expected


@pytest.mark.parametrize(
    ("bookies", "expected"), [(1, (1, 1, 1)), (2, (2, 2, 2)), (3, (2, 2, 2)), (4, (3, 3, 2)), (100, (3, 3, 2))]
)
def test_default_quorums(bookies: int, expected: tuple[int, int, int]) -> None:
    quorum = resolve_quorum(Ensemble(), bookies)
    assert (quorum.ensemble_size, quorum.write_quorum, quorum.ack_quorum) == expected
    assert quorum == default_quorum(bookies)


@pytest.mark.parametrize(
    ("ensemble", "bookies", "expected"),
    [
        ({"writeQuorum": 3}, 3, (3, 3, 2)),
        ({"writeQuorum": 5}, 6, (5, 5, 3)),
        ({"ensembleSize": 5}, 6, (5, 3, 2)),
        ({"ensembleSize": 1}, 6, (1, 1, 1)),
        ({"ackQuorum": 3}, 3, (3, 3, 3)),
        ({"ensembleSize": 3, "writeQuorum": 2, "ackQuorum": 1}, 3, (3, 2, 1)),
    ],
)
def test_open_quorums_follow_the_given_ones(
    ensemble: dict[str, int], bookies: int, expected: tuple[int, int, int]
) -> None:
    quorum = resolve_quorum(Ensemble.model_validate(ensemble), bookies)
    assert (quorum.ensemble_size, quorum.write_quorum, quorum.ack_quorum) == expected


@pytest.mark.parametrize(
    ("ensemble", "bookies", "recorded", "expected"),
    [
        # The number of bookies alone changes nothing.
        ({}, 3, "3/3/2", "3/3/2"),
        ({}, 4, "2/2/2", "2/2/2"),
        ({}, 100, "1/1/1", "1/1/1"),
        ({}, 6, "5/3/2", "5/3/2"),
        # What is set is kept, and the others move only as far as the order demands.
        ({"ensembleSize": 2}, 2, "3/3/2", "2/2/2"),
        ({"ensembleSize": 1}, 2, "3/3/2", "1/1/1"),
        ({"ensembleSize": 3}, 3, "2/2/2", "3/2/2"),
        ({"writeQuorum": 2}, 3, "3/3/2", "3/2/2"),
        ({"writeQuorum": 1}, 3, "3/3/2", "3/1/1"),
        ({"writeQuorum": 4}, 5, "3/3/2", "4/4/2"),
        ({"ackQuorum": 3}, 3, "3/3/2", "3/3/3"),
        ({"ackQuorum": 1}, 3, "3/3/2", "3/3/1"),
        ({"ackQuorum": 3}, 3, "2/2/2", "3/3/3"),
        ({"ensembleSize": 2, "writeQuorum": 2, "ackQuorum": 1}, 2, "5/3/2", "2/2/1"),
    ],
)
def test_open_quorums_stay_as_they_are_on_record(
    ensemble: dict[str, int], bookies: int, recorded: str, expected: str
) -> None:
    found = resolve_quorum(Ensemble.model_validate(ensemble), bookies, Quorum.parse(recorded))
    assert str(found) == expected
    assert str(resolve_quorum(Ensemble(), bookies, found)) == expected, "a field taken out again changes nothing"


@pytest.mark.parametrize("ensemble", [{}, {"writeQuorum": 2}, {"ackQuorum": 1}])
def test_fewer_bookies_than_an_ensemble_on_record_are_refused(ensemble: dict[str, int]) -> None:
    with pytest.raises(QuorumError) as caught:
        resolve_quorum(Ensemble.model_validate(ensemble), 2, Quorum(3, 3, 2))
    assert str(caught.value) == (
        "spec.bookkeeper.replicas = 2 is less than the recorded ensemble size of 3 bookies. Set "
        "spec.bookkeeper.ensemble.ensembleSize to 2 first, or raise replicas to 3"
    )


@pytest.mark.parametrize(
    "text", ["", "3/3", "3/3/2/1", "3/3/0", "2/3/1", "3/2/3", "a/b/c", "3/3/2\n", "-1/1/1", "٣/٣/٢"]
)
def test_quorums_as_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"does not have the form|must satisfy"):
        Quorum.parse(text)
    assert str(Quorum.parse("5/3/2")) == "5/3/2"


OPTIONAL_SIZES = st.none() | st.integers(1, 32)


@st.composite
def recorded_quorums(draw: st.DrawFn) -> Quorum:
    """Any that could be on record."""
    return Quorum(*sorted(draw(st.lists(st.integers(1, 32), min_size=3, max_size=3)), reverse=True))


@given(OPTIONAL_SIZES, OPTIONAL_SIZES, OPTIONAL_SIZES, st.integers(1, 40), st.none() | recorded_quorums())
def test_quorums_are_ordered_and_keep_what_was_given(
    size: int | None, write: int | None, ack: int | None, bookies: int, recorded: Quorum | None
) -> None:
    given_values = [v for v in (ack, write, size) if v is not None]
    possible = given_values == sorted(given_values) and all(v <= bookies for v in given_values)
    ensemble = Ensemble(ensemble_size=size, write_quorum=write, ack_quorum=ack)
    if not possible:
        with pytest.raises(QuorumError, match=r"spec\.bookkeeper\.ensemble\.\w+ = \d+ exceeds .*(raise|lower)"):
            resolve_quorum(ensemble, bookies, recorded)
        return
    if recorded is not None and size is None and recorded.ensemble_size > bookies:
        with pytest.raises(QuorumError, match=f"recorded ensemble size of {recorded.ensemble_size} bookies"):
            resolve_quorum(ensemble, bookies, recorded)
        return
    quorum = resolve_quorum(ensemble, bookies, recorded)
    assert 1 <= quorum.ack_quorum <= quorum.write_quorum <= quorum.ensemble_size <= bookies
    assert size in (None, quorum.ensemble_size)
    assert write in (None, quorum.write_quorum)
    assert ack in (None, quorum.ack_quorum)
    assert resolve_quorum(ensemble, bookies, quorum) == quorum, "on record it says the same"
    if recorded is not None and (size, write, ack) == (None, None, None):
        assert quorum == recorded


def test_all_problems_of_a_spec_are_told_at_once() -> None:
    spec = distributed(
        metadataStore={"managed": {"replicas": 1, "config": {"dataDir": "/x"}}},
        bookkeeper={"replicas": 2, "ensemble": {"ensembleSize": 3}, "config": {"bookiePort": "1"}},
        broker={"config": {"clusterName": "x"}, "maxMessageSize": 1073741824, "jvm": {"options": ["-Xmx1g"]}},
        proxy={"pod": {"env": [{"name": "ZOO_X", "value": ""}]}},
    )
    problems = spec_problems(spec)
    for expected in (
        "spec.metadataStore.managed.config",
        "spec.bookkeeper.ensemble.ensembleSize = 3",
        "spec.bookkeeper.config",
        "spec.broker.config",
        "spec.broker.maxMessageSize",
        "spec.broker.jvm.options",
        "spec.proxy.pod.env",
    ):
        assert any(expected in problem for problem in problems), expected
    assert spec_problems(distributed()) == []
    assert spec_problems(standalone(config={"clusterName": "x"})) != []


def test_configuration_reaches_the_file_as_written() -> None:
    spec = distributed(broker={"config": {"a.b": " x = y ", "empty": ""}})
    values = overrides(render_cluster(inputs(spec)).of(Component.BROKER))
    assert values["a.b"] == "x = y"
    assert values["empty"] == ""
