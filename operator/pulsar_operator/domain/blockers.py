"""Reasons why an operation is not complete, in the form in which conditions, status and logs report them."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_operator.api.constants import Reason


@dataclass(frozen=True)
class Blocker:
    """A reason and its message."""

    reason: Reason
    message: str
    """State, cause and remedy as sentences, without the last period."""
