"""Bundles spread evenly over brokers: the start of what replaces or removes brokers under traffic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.support.skew import BOUNDS, BUNDLES, NAMESPACE, Brokers, skew
from e2e.support.traffic import topics_within


@contextmanager
def even(brokers: Brokers, each: int = 2) -> Iterator[list[str]]:
    """A namespace whose bundles are spread evenly; yields ``each`` topics of every bundle."""
    with skew(brokers):
        yield [
            topic
            for index in range(BUNDLES)
            for topic in topics_within(NAMESPACE, [(BOUNDS[index], BOUNDS[index + 1])], each, prefix="e")
        ]
