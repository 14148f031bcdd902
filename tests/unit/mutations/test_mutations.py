"""Every field of the logical kinds, changed and changed back by the controllers on the in-memory Pulsar."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from tests.fakes.admin import FakeAdmin
from tests.fakes.pulsar import FakePulsar
from tests.support.mutations.bench import OTHER, Bench
from tests.support.mutations.chains import CHAINS, FIXED, KINDS, Chain, Mutation
from tests.support.mutations.changes import changes, fields, links, missing, mutations
from tests.support.sampling import spread

ALL = [mutation for kind in KINDS for mutation in mutations(kind)]


def every(mutation: Mutation) -> int:
    """Each run of the tests takes every second, of sets of topics, whose template is planned as a topic, every fourth;
    `make mutations` the others."""
    return 4 if mutation.kind is Kind.TOPIC_SET else 2


def bench() -> Bench:
    """An empty Pulsar of two clusters."""
    return Bench(FakeAdmin(FakePulsar(clusters=["a", OTHER])), "a", "http://a:8080", pause=0)


@pytest.mark.parametrize("mutation", spread(ALL, every, ids=lambda m: f"{m.kind}-{m.id}"))
async def test_made_it_equals_a_fresh_object_and_taken_back_nothing_is_left(mutation: Mutation) -> None:
    """S0 to S1 equals a fresh S1; S0 to S1 to S0 equals S0; exceptions are written at the mutation."""
    assert await bench().check(mutation) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_has_a_mutation(kind: Kind) -> None:
    left = missing(kind)
    assert left == [], f"add a mutation for {left} of {kind}: a Chain in CHAINS of tests/support/mutations/chains.py"


@pytest.mark.parametrize("kind", KINDS)
def test_every_exception_names_a_field(kind: Kind) -> None:
    known = set(fields(kind))
    assert set(FIXED[kind]) <= known
    assert {chain.path for chain in CHAINS[kind]} <= known
    assert not [path for path in FIXED[kind] if any(changes(each, path) for each in mutations(kind))]


def test_names_are_unique() -> None:
    names = [(each.kind, each.id) for each in ALL]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        (Chain("schema", (None, {"type": "String"})), "S0 after S1: /schemas"),
        (Chain("schema.properties", (None, {"a": "b"}), {"schema": {"type": "String"}}), "S1 changes nothing"),
        (Chain("policies.maxProducers", (3, 3)), "S1 changes nothing"),
        (Chain("policies.maxProducers", (3, 4), more={"without_effect": "-"}), "S1 against S0: /policies"),
        (Chain("policies.maxProducers", (3, 4), more={"stays": "-"}), "S0 comes back although"),
    ],
    ids=["stays", "no-effect", "no-change", "effect", "returns"],
)
async def test_the_bench_tells(chain: Chain, words: str) -> None:
    """What would be a defect of the operator, or a wrong exception."""
    (made,) = links(Kind.TOPIC, chain)
    assert any(words in problem for problem in await bench().check(made))
