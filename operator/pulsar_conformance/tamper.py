"""Breaking what a check relies on: every client object and admin call of a check goes through a Tamper.

Without rules a call goes straight through. A rule is given by a mutation (pulsar_conformance.mutations) and changes,
drops or replaces calls: a policy that is never set, a consumer of another type, an acknowledgement that does not leave.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Change = Callable[..., Any]
"""``change(call, *args, **kwargs)``: gets the original and its arguments, returns what the check shall see."""


@dataclass(frozen=True)
class Rule:
    """One kind of call that is changed."""

    kind: str
    """admin, brokers, faults, client, producer, consumer, reader; or java. with client, producer, consumer ..."""
    method: str
    """Name of the method: for admin always ``call``."""
    change: Change
    where: Callable[..., bool] = lambda *_args, **_kwargs: True
    """Which calls, by their arguments."""


@dataclass(frozen=True)
class Mutation:
    """One way in which what a check proves is broken."""

    check: str
    """Id of the check that must fail."""
    name: str
    breaks: str
    """What is broken, as a message."""
    rules: tuple[Rule, ...]

    @property
    def id(self) -> str:
        """Check and name."""
        return f"{self.check}/{self.name}"


@dataclass
class Tamper:
    """The rules in force for one check."""

    rules: Sequence[Rule] = ()
    used: list[str] = field(default_factory=list)
    """Rules that changed a call, as kind.method: a mutation that touched nothing proves nothing."""

    def wrap(self, kind: str, target: Any) -> Any:
        """The object itself without rules for its kind, else a proxy of it."""
        rules = [rule for rule in self.rules if rule.kind == kind]
        return Tampered(target, self, rules) if rules else target

    def call(self, rules: Sequence[Rule], original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the original through the first rule that applies."""
        for rule in rules:
            if rule.where(*args, **kwargs):
                self.used.append(f"{rule.kind}.{rule.method}")
                return rule.change(original, *args, **kwargs)
        return original(*args, **kwargs)


class Tampered:
    """A proxy whose methods go through rules; everything else is the target's."""

    def __init__(self, target: Any, tamper: Tamper, rules: Sequence[Rule]) -> None:
        self._target, self._tamper, self._rules = target, tamper, rules

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        rules = [rule for rule in self._rules if rule.method == name]
        if not rules:
            return found
        return lambda *args, **kwargs: self._tamper.call(rules, found, *args, **kwargs)


def unwrap(value: Any) -> Any:
    """The object behind a proxy: for calls that need the real one."""
    return value._target if isinstance(value, Tampered) else value


def override(kind: str, method: str, **changes: Any) -> Rule:
    """The call is made with other keyword arguments."""
    return Rule(kind, method, lambda call, *args, **kwargs: call(*args, **{**kwargs, **changes}))


def without(kind: str, method: str, *names: str) -> Rule:
    """The call is made without these keyword arguments: the client's defaults apply."""
    return Rule(
        kind, method, lambda call, *a, **kw: call(*a, **{key: value for key, value in kw.items() if key not in names})
    )


def drop(kind: str, method: str, result: Any = None) -> Rule:
    """The call is not made; the check sees ``result``."""
    return Rule(kind, method, lambda _call, *_args, **_kwargs: result)


def drop_admin(method: str, path: str, result: Any = None) -> Rule:
    """Admin calls of an HTTP method whose path matches a regular expression (search) are not made."""
    found = re.compile(path)
    return Rule(
        "admin",
        "call",
        lambda _call, *_args, **_kwargs: result,
        lambda verb, where, *_args, **_kwargs: verb == method and bool(found.search(where)),
    )


def change_admin(method: str, path: str, body: Callable[[Any], Any]) -> Rule:
    """Admin calls of an HTTP method whose path matches are made with another body."""
    found = re.compile(path)

    def change(call: Callable[..., Any], verb: str, where: str, sent: Any = None, **query: Any) -> Any:
        return call(verb, where, body(sent), **query)

    return Rule(
        "admin",
        "call",
        change,
        lambda verb, where, *_args, **_kwargs: verb == method and bool(found.search(where)),
    )
