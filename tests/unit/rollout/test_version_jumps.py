"""From which version to which a cluster may go, what is said where it may not, and what an image says of its own."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.dataplane.rollout.versions import (
    PLACEHOLDER,
    Jumps,
    JumpsError,
    VersionDecision,
    decide,
    downgrade,
    version_of,
)

CHAIN = Jumps.parse("4.0.6 <-> 4.0.8", "4.0.8 -> 4.0.9, 4.0.9 -> 4.0.10")
"""4.0.6 and 4.0.8 both ways; on to 4.0.10, and not back."""

A, B, C, D, E = VERSIONS = ("4.0.6", "4.0.8", "4.0.9", "4.0.10", "4.1.0-rc.1")
versions = st.sampled_from(VERSIONS)
clusters = st.frozensets(versions, min_size=1, max_size=3)
matrices = st.builds(
    Jumps, st.frozensets(st.tuples(versions, versions).filter(lambda pair: pair[0] != pair[1]), max_size=10)
)
any_version = st.from_regex(r"4\.[0-9]{1,3}\.[0-9]{1,3}(-[A-Za-z0-9.]{1,8})?", fullmatch=True)


# ---------------------------------------------------------------------------------------------------------- matrix


@pytest.mark.parametrize(
    ("texts", "pairs"),
    [
        ((), set()),
        (("",), set()),
        (("4.0.8 -> 4.0.9",), {(B, C)}),
        (("4.0.6 <-> 4.0.8",), {(A, B), (B, A)}),
        (("4.0.6<->4.0.8",), {(A, B), (B, A)}),
        (("4.0.8->4.0.9",), {(B, C)}),
        ((" 4.0.8   ->  4.0.9 ,",), {(B, C)}),
        (("4.0.6 <-> 4.0.8, 4.0.8 -> 4.0.9",), {(A, B), (B, A), (B, C)}),
        (("4.0.6 <-> 4.0.8", "4.0.8 -> 4.0.6"), {(A, B), (B, A)}),
        (("4.0.8-acme.2->4.1.0-rc.1",), {("4.0.8-acme.2", E)}),
    ],
)
def test_entries(texts: tuple[str, ...], pairs: set[tuple[str, str]]) -> None:
    assert Jumps.parse(*texts).pairs == pairs


WRITE = "Write 4.0.8 -> 4.0.9, or 4.0.6 <-> 4.0.8 for both directions"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("4.0.6", f"'4.0.6' is not a jump between versions. {WRITE}"),
        ("4.0.6 4.0.8", f"'4.0.6 4.0.8' is not a jump between versions. {WRITE}"),
        ("4.0.6 => 4.0.8", f"'4.0.6 => 4.0.8' is not a jump between versions. {WRITE}"),
        ("4.0.8 <- 4.0.6", f"'4.0.8 <- 4.0.6' is not a jump between versions. {WRITE}"),
        ("-> 4.0.8", f"'-> 4.0.8' is not a jump between versions. {WRITE}"),
        ("4.0.6 ->", f"'4.0.6 ->' is not a jump between versions. {WRITE}"),
        ("4.0.6 -> 4.0.8 -> 4.0.9", f"'4.0.6 -> 4.0.8 -> 4.0.9' is not a jump between versions. {WRITE}"),
        (
            "4.0 -> 4.0.8",
            "'4.0' in '4.0 -> 4.0.8' is not a version of Pulsar 4. Write the complete version, such as 4.0.8",
        ),
        (
            "4.0.8 -> 5.0.0",
            "'5.0.0' in '4.0.8 -> 5.0.0' is not a version of Pulsar 4. Write the complete version, such as 4.0.8",
        ),
        ("4.0.8->4.0.9->4.0.10", "'4.0.9->4.0.10' in '4.0.8->4.0.9->4.0.10' is not a version of Pulsar 4. Write"),
        (
            "4.0.8 <-> 4.0.8",
            "'4.0.8 <-> 4.0.8' has the same version on both sides. Remove the entry, or correct one of the two "
            "versions",
        ),
    ],
)
def test_what_is_no_entry_is_named_with_the_remedy(entry: str, message: str) -> None:
    with pytest.raises(JumpsError) as refused:
        Jumps.parse("4.0.6 <-> 4.0.8", f"4.0.8 -> 4.0.9, {entry}")
    assert str(refused.value).startswith(message)


@given(matrices)
def test_what_is_written_is_read(jumps: Jumps) -> None:
    texts = [f"{old} -> {new}" for old, new in jumps.pairs]
    assert Jumps.parse(*texts) == Jumps.parse(",".join(texts)) == jumps


@given(any_version, any_version)
def test_every_version_of_the_specification_can_be_an_entry(old: str, new: str) -> None:
    if old != new:
        assert Jumps.parse(f"{old}->{new}").pairs == {(old, new)}
        assert Jumps.parse(f"{old}<->{new}").pairs == {(old, new), (new, old)}


@given(matrices, matrices)
def test_one_list_adds_to_another(one: Jumps, other: Jumps) -> None:
    assert (one | other).pairs == one.pairs | other.pairs


# -------------------------------------------------------------------------------------------------------- decision


def running(*found: str) -> frozenset[str]:
    """Versions that pods run."""
    return frozenset(found)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (running(), "4.3.3"),  # nothing runs yet
        (running(A), A),
        (running("4.3.3"), "4.3.3"),  # whether or not the matrix knows it
        (running(A), B),
        (running(B), A),
        (running(B), C),
        # In the middle of a roll: on, and back.
        (running(A, B), B),
        (running(A, B), A),
        (running(B, C), C),
    ],
)
def test_what_is_allowed(found: frozenset[str], wanted: str) -> None:
    assert decide(found, wanted, CHAIN) == VersionDecision(True)


FIRST = "Set spec.version to 4.0.8 first"
BOTH = "which run at the same time"


@pytest.mark.parametrize(
    ("found", "wanted", "message", "path"),
    [
        (running(A), C, f"4.0.6 in one step. The tested path is 4.0.6 -> 4.0.8 -> 4.0.9. {FIRST}", (B, C)),
        (running(A), D, f"4.0.6 in one step. The tested path is 4.0.6 -> 4.0.8 -> 4.0.9 -> 4.0.10. {FIRST}", (B, C, D)),
        (running(C), B, "4.0.9, because no tested path is known (tested targets from there: 4.0.10). ", ()),
        (running(B), "4.2.0", "4.0.8, because no tested path is known (tested targets from there: 4.0.6, 4.0.9). ", ()),
        (running(D), A, "4.0.10, because no tested path is known. ", ()),
        # In the middle of a roll from 4.0.8 to 4.0.9, whose way back nobody tested.
        (
            running(B, C),
            B,
            f"4.0.8 and 4.0.9, {BOTH}, because no tested path is known (tested targets from there: 4.0.9). ",
            (),
        ),
        (running(A, B), C, f"4.0.6 and 4.0.8, {BOTH} in one step. The tested path is 4.0.8 -> 4.0.9. {FIRST}", (B, C)),
        (running(A, D), C, f"4.0.6 and 4.0.10, {BOTH}, because no tested path is known. ", ()),
    ],
)
def test_what_is_refused_and_what_to_do(
    found: frozenset[str], wanted: str, message: str, path: tuple[str, ...]
) -> None:
    decision = decide(found, wanted, CHAIN)
    assert (decision.allowed, decision.path) == (False, path)
    if not path:
        message += "To allow a path that you have tested, add it to upgradePaths of the chart"
    assert decision.message == f"spec.version {wanted} cannot be reached from {message}"


def test_what_is_not_known_is_neither_allowed_nor_refused() -> None:
    decision = decide(None, B, CHAIN)
    assert decision.allowed is None
    assert (
        decision.message
        == "The rollout of spec.version 4.0.8 has not started, because it is not known yet which versions run"
    )


def test_without_a_matrix_a_cluster_keeps_its_version() -> None:
    assert decide(running(A), A, Jumps()).allowed
    assert decide(running(A), B, Jumps()).allowed is False


@given(clusters, versions, matrices)
def test_every_version_that_runs_must_be_able_to_go_there(found: frozenset[str], wanted: str, jumps: Jumps) -> None:
    steps = [(old, wanted) for old in found if old != wanted]
    decision = decide(found, wanted, jumps)
    assert decision.allowed is (set(steps) <= jumps.pairs)
    assert bool(decision.message) is (not decision.allowed)


def shortest(found: frozenset[str], wanted: str, jumps: Jumps) -> int | None:
    """Length of the shortest path, by trying every sequence of versions."""
    for length in range(1, len(VERSIONS) + 1):
        for tried in itertools.permutations(VERSIONS, length):
            allowed = tried[-1] == wanted and decide(found, tried[0], jumps).allowed
            if allowed and all(pair in jumps.pairs for pair in itertools.pairwise(tried)):
                return length
    return None


@given(clusters, versions, matrices)
def test_the_path_is_the_shortest_and_each_of_its_steps_is_allowed(
    found: frozenset[str], wanted: str, jumps: Jumps
) -> None:
    path = decide(found, wanted, jumps).path
    if decide(found, wanted, jumps).allowed:
        assert path == ()
        return
    assert (len(path) or None) == shortest(found, wanted, jumps)
    at = found
    for step in path:
        assert decide(at, step, jumps).allowed
        at = frozenset({step})
    assert not path or path[-1] == wanted


def test_of_two_paths_of_one_length_it_is_always_the_same() -> None:
    both = Jumps.parse("4.0.6 -> 4.0.10", "4.0.10 -> 4.1.0", "4.0.6 -> 4.0.9", "4.0.9 -> 4.1.0")
    assert decide(running(A), "4.1.0", both).path == ("4.0.9", "4.1.0"), "4.0.9 is older than 4.0.10"


@pytest.mark.parametrize(
    ("found", "wanted", "back"),
    [
        (running(), B, False),
        (running(A), A, False),
        (running(A), B, False),
        (running(B), A, True),
        (running(C), D, False),  # 9 < 10: numbers, not text
        (running(D), C, True),
        # In the middle of a roll: what is newer than the wanted version goes back.
        (running(A, B), B, False),
        (running(A, B), A, True),
        (running(A, C), B, True),
        (running("4.0.8-rc.1"), "4.0.8", False),
        (running("4.0.8"), "4.0.8-rc.1", False),
        (running("4.1.0-rc.1"), "4.0.8", True),
    ],
)
def test_which_way_is_back(found: frozenset[str], wanted: str, back: bool) -> None:
    assert downgrade(found, wanted) is back


# ---------------------------------------------------------------------------------------------------------- images


@pytest.mark.parametrize(
    ("image", "template", "version"),
    [
        ("pulsar-broker:4.0.8", "pulsar-broker:{version}", "4.0.8"),
        ("pulsar-broker:4.0.8-dev", "pulsar-broker:{version}-dev", "4.0.8"),
        ("pulsar-broker:4.0.8-dev", "pulsar-broker:{version}", "4.0.8-dev"),
        ("r.example.com:5000/team/pulsar-broker:4.0.8", "r.example.com:5000/team/pulsar-broker:{version}", "4.0.8"),
        ("r/4.0.8/broker:4.0.8-1", "r/{version}/broker:{version}-1", "4.0.8"),
        ("r/4.0.8/broker:4.0.6", "r/{version}/broker:{version}", None),
        ("r/4.0.8/broker:4.0.10", "r/{version}/broker:{version}", None),
        ("mine/broker:4.0.8", "pulsar-broker:{version}", None),
        ("docker.io/library/pulsar-broker:4.0.8", "pulsar-broker:{version}", None),
        ("pulsar-broker:4.0.8@sha256:0a", "pulsar-broker:{version}", None),
        ("pulsar-broker:latest", "pulsar-broker:{version}", None),
        ("pulsar-broker:5.0.0", "pulsar-broker:{version}", None),
        ("pulsar-broker:", "pulsar-broker:{version}", None),
        ("pulsar", "pulsar-broker:{version}", None),
        ("", "pulsar-broker:{version}", None),
        ("pulsar-broker:4.0.8", "pulsar-broker:4.0.8", None),
        ("pulsar-brokerX4.0.8", "pulsar-broker.{version}", None),
    ],
)
def test_version_of_an_image(image: str, template: str, version: str | None) -> None:
    assert version_of(image, template) == version


@given(any_version, st.lists(st.text("ab/:.-4608", max_size=6), min_size=2, max_size=4))
def test_what_was_put_into_a_template_is_found_again(version: str, parts: list[str]) -> None:
    template = PLACEHOLDER.join(parts)
    assert version_of(template.replace(PLACEHOLDER, version), template) == version


@given(st.text("ab/:.-4608", max_size=20), st.lists(st.text("ab/:.-4608", max_size=3), min_size=1, max_size=3))
def test_what_is_found_makes_the_image(image: str, parts: list[str]) -> None:
    template = PLACEHOLDER.join(parts)
    found = version_of(image, template)
    assert found is None or (PLACEHOLDER in template and template.replace(PLACEHOLDER, found) == image)
