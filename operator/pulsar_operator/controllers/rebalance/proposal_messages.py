"""Messages for what a proposal's figures do not show: brokers left out, undecided namespaces, overloaded brokers.
Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pulsar_operator.balance.execution.driver import OVERLOADED
from pulsar_operator.balance.model.observation import Observed, Usage

SHOWN = 3
"""Maximum number of namespaces, policies, and expressions of each that a message names."""


def left_out_message(observed: Observed) -> str:
    """Returns the brokers that a proposal leaves out, as a message."""
    if not observed.silent:
        return ""
    named, more = list(observed.silent.values())[:SHOWN], len(observed.silent) - SHOWN
    rest = f" and {more} more" if more > 0 else ""
    return (
        f". {len(observed.silent)} of {len(observed.brokers)} brokers and their bundles are left out, because "
        f"their state is unknown: {'; '.join(named)}{rest}"
    )


def undecided_message(observed: Observed) -> str:
    """Returns the namespaces that are not changed because expressions of isolation policies cannot be evaluated, as a
    message."""
    if not observed.undecided:
        return ""
    named = ", ".join(
        f"{json.dumps(each[:100])} of policy {json.dumps(name)}"
        for name, listed in list(observed.unevaluated.items())[:SHOWN]
        for each in listed[:SHOWN]
    )
    some = ", ".join(sorted(observed.undecided)[:SHOWN])
    why = f"the expressions {named}" if named else "the isolation policies, which have too many expressions"
    return (
        f". {len(observed.undecided)} namespaces (such as {some}) are neither moved nor split, because the "
        f"operator cannot evaluate {why}. Write the expressions without lookaround, back references and other "
        "syntax that RE2 does not share with Java"
    )


def overload_message(usages: Mapping[str, Usage], bases: Mapping[str, float]) -> str:
    """Returns the brokers that are overloaded although the load is even, which moves cannot fix, as a message.
    ``bases`` are the shares of their CPU that they use regardless of their load."""
    over = {broker: used for broker, used in usages.items() if used.share > OVERLOADED}
    if not over:
        return ""
    broker, used = max(over.items(), key=lambda each: each[1].share)
    if used.cpu == used.share and (own := bases.get(broker, 0.0)) > used.share / 2:
        return (
            f". {broker} uses {used.share:.0%} of its CPU, and {own:.0%} is independent of its load. Check which "
            "processes run there"
        )
    more = f" and {len(over) - 1} more" if len(over) > 1 else ""
    return f". {broker}{more} uses {used.share:.0%} of its {used.resource}. More brokers help, and moves do not"


def distrust_message(distrusted: Mapping[str, str]) -> str:
    """Returns the brokers whose CPU figures are ignored, with the reason of the first, as a message."""
    if not distrusted:
        return ""
    first, *more = sorted(distrusted)
    others = f" and those of {len(more)} more brokers" if more else ""
    return (
        f". The operator does not trust the CPU figures of {first}, which {distrusted[first]}{others}, and uses "
        "the traffic of these brokers instead. Compare the figures with the CPU metrics of the pod"
    )
