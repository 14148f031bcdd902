"""Loads of brokers as lines of text, which `kubectl describe` shows as they are. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pulsar_operator.balance.model.names import fitted, short_brokers
from pulsar_operator.balance.planner.brokers import together
from pulsar_operator.balance.planner.proposal import BrokerLoad

ENDS: Final = 10
"""Brokers shown at either end."""
NAME: Final = 48
"""Characters of a broker's name."""
WIDEST: Final = 200
"""Characters of a line of a status."""


def load_table(
    brokers: Sequence[BrokerLoad], *, most: int | None = ENDS, planned: bool = True, clients: bool = True
) -> list[str]:
    """Returns a line for each broker, the busiest first, between a header and a line for all together.

    Of more than twice ``most`` brokers (None for all) those in the middle share a line. ``planned``: with the values
    after the steps. ``clients``: whether clients are counted.
    """
    if not brokers:
        return []
    short = short_brokers(each.broker for each in brokers)
    rows = list(brokers)
    if most is not None and len(rows) > 2 * most:
        middle = rows[most : len(rows) - most]
        rows = [*rows[:most], together(middle, f"({len(middle)} between)"), *rows[len(rows) - most :]]
    rows.append(together(brokers, f"(all {len(brokers)})"))
    names = fitted([short.get(each.broker, each.broker) for each in rows], NAME)

    def cells(value: Callable[[BrokerLoad], tuple[float, float]], form: str) -> list[str]:
        pairs = [tuple(format(part, form) for part in value(each)) for each in rows]
        return [f"{first} -> {last}" if planned else first for first, last in pairs]

    columns = [["BROKER", *names], ["LOAD", *cells(lambda each: each.load, ".2f")]]
    columns.append(["BUNDLES", *cells(lambda each: each.bundles, "d")])
    if clients:
        columns.append(["CLIENTS", *cells(lambda each: each.clients, "d")])
    widths = [max(map(len, column)) for column in columns]
    lines = (zip(line, widths, strict=True) for line in zip(*columns, strict=True))
    return ["  ".join(text.ljust(width) for text, width in line).rstrip()[:WIDEST] for line in lines]
