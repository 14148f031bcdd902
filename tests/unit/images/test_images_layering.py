"""Overrides over a stock file: replaced in place, once, secrets never shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulsar_start import layering
from pulsar_start.errors import StartError

STOCK = """\
# broker
clusterName=
#advertisedAddress=commented
numIOThreads = 8
twice=first
\tindented: colon
twice=second
last=kept
"""


def test_replaces_in_place_appends_unknown_and_keeps_everything_else() -> None:
    assert layering.layer(STOCK, {"clusterName": "east", "numIOThreads": "2", "newKey": "a=b # c"}) == (
        "# broker\nclusterName=east\n#advertisedAddress=commented\nnumIOThreads=2\ntwice=first\n"
        "\tindented: colon\nlast=kept\nnewKey=a=b # c\n"
    )


def test_a_commented_key_is_not_a_key() -> None:
    assert "#advertisedAddress=commented\n" in layering.layer(STOCK, {"advertisedAddress": "x"})
    assert layering.layer(STOCK, {"advertisedAddress": "x"}).endswith("advertisedAddress=x\n")


def test_duplicates_of_the_stock_file_are_removed_and_the_first_place_is_overridden() -> None:
    assert dict(layering.parse(layering.layer(STOCK, {})))["twice"] == "first"
    layered = layering.parse(layering.layer(STOCK, {"twice": "mine"}))
    assert [pair for pair in layered if pair[0] == "twice"] == [("twice", "mine")]


def test_a_continued_line_is_replaced_whole() -> None:
    stock = "a=one,\\\n  two,\\\n  three\nb=1\n"
    assert layering.layer(stock, {"a": "x"}) == "a=x\nb=1\n"
    assert layering.layer(stock, {}) == stock


def test_a_comment_that_ends_with_a_backslash_continues_nothing() -> None:
    assert layering.layer("# c \\\na=1\n", {"a": "2"}) == "# c \\\na=2\n"


def test_parse_overrides() -> None:
    text = "# comment\n\n a = 1 \nb=\nurl=zk://h?x=y\na=2\n"
    assert layering.parse_overrides(text, "f") == {"a": "2", "b": "", "url": "zk://h?x=y"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ok=1\nnonsense-of-s3cret\n", "f line 2: not of the form key=value"),
        ("bad key=1\n", "'bad key' is not a configuration key"),
        ("a=x\\\nb=1\n", "the value of a ends with a backslash"),
        ("a=x\x0cy\n", "the value of a contains a line break"),
    ],
)
def test_what_cannot_be_a_line_is_refused(text: str, message: str) -> None:
    with pytest.raises(StartError, match=message) as caught:
        layering.parse_overrides(text, "f")
    assert "s3cret" not in str(caught.value)


def test_environment_values_are_per_pod_and_a_newline_is_refused() -> None:
    environ = {"PULSAR_CONF_advertisedAddress": "broker-0.b.ns.svc", "PULSAR_HOME": "/x", "HOME": "/"}
    assert layering.overrides_of_environment(environ) == {"advertisedAddress": "broker-0.b.ns.svc"}
    with pytest.raises(StartError, match="the value of x contains a line break") as caught:
        layering.overrides_of_environment({"PULSAR_CONF_x": "s3cret\nauthenticationEnabled=false"})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "key",
    [
        "brokerClientTlsTrustStorePassword",
        "tokenSecretKey",
        "brokerClientAuthenticationParameters",
        "authParams",
        "s3ManagedLedgerOffloadCredentialId",
        "DigestAuthenticationProvider.superDigest",
        "zookeeper.ssl.keyStore.passwordPath",
        "tlsKeyPassphrase",
    ],
)
def test_secrets_are_hidden(key: str) -> None:
    assert list(layering.describe({key: "canary"})) == [f"{key}=***"]


def test_what_is_no_secret_is_shown_and_an_empty_secret_is_shown_empty() -> None:
    assert list(layering.describe({"b": "2", "a": "1", "tokenSecretKey": ""})) == ["a=1", "b=2", "tokenSecretKey="]


def test_secret_jvm_arguments_are_hidden() -> None:
    shown = layering.describe_arguments(["-Xmx1g", "-Dzookeeper.ssl.keyStore.password=canary", "-Da=b=c"])
    assert shown == "-Xmx1g -Dzookeeper.ssl.keyStore.password=*** -Da=b=c"


def test_text_beyond_ascii_is_written_as_java_reads_it() -> None:
    assert layering.layer("a=1", {"a": "Zürich 😀"}) == "a=Z\\u00fcrich \\ud83d\\ude00\n"


def test_a_backslash_at_the_end_of_the_stock_file_swallows_nothing() -> None:
    assert layering.layer("a=1\nb=2\\", {"c": "3"}) == "a=1\nb=2\nc=3\n"
    assert layering.layer("a=1\n\\", {"c": "3"}) == "a=1\n\nc=3\n"


KEYS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,8}", fullmatch=True)
VALUES = (
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20)
    .map(lambda value: value.strip().rstrip("\\"))
    .map(str.strip)
)
OVERRIDES = st.dictionaries(KEYS, VALUES, max_size=8)
BASE_LINES = st.lists(
    st.one_of(
        st.tuples(KEYS, st.sampled_from(["=", " = ", ": "]), VALUES).map("".join),
        KEYS.map(lambda key: f"#{key}=x"),
        KEYS.map(lambda key: f"{key}=a,\\\n  b"),
        st.just(""),
        st.text(max_size=20),
    ),
    max_size=12,
)


@given(lines=BASE_LINES, overrides=OVERRIDES)
def test_every_override_is_there_exactly_once_and_nothing_is_lost(lines: list[str], overrides: dict[str, str]) -> None:
    stock = "\n".join(lines)
    layered = layering.parse(layering.layer(stock, overrides))
    keys = [key for key, _ in layered]
    assert len(keys) == len(set(keys))
    assert dict(layered).items() >= overrides.items()
    assert set(keys) == {key for key, _ in layering.parse(stock)} | set(overrides)


@given(lines=BASE_LINES, overrides=OVERRIDES)
def test_layering_twice_changes_nothing(lines: list[str], overrides: dict[str, str]) -> None:
    once = layering.layer("\n".join(lines), overrides)
    assert layering.layer(once, overrides) == once


@given(lines=BASE_LINES, overrides=OVERRIDES)
def test_what_is_not_overridden_stays(lines: list[str], overrides: dict[str, str]) -> None:
    stock = "\n".join(lines)
    first: dict[str, str] = {}
    for key, value in layering.parse(stock):
        first.setdefault(key, value)
    layered = dict(layering.parse(layering.layer(stock, overrides)))
    assert all(layered[key] == value for key, value in first.items() if key not in overrides)


@given(overrides=OVERRIDES)
def test_overrides_round_trip(overrides: dict[str, str]) -> None:
    text = "".join(f"{key}={value}\n" for key, value in overrides.items())
    assert layering.parse_overrides(text, "f") == overrides
