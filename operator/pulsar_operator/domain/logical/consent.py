"""Decides whether a policy change that lets Pulsar delete stored messages may be made. Pure.

A value that the object itself declares is consent. An inherited value is not: neither after a field was removed from
the object or from the defaults of its tenant, nor if those defaults provide the value. A person must then confirm the
change by an annotation.

A confirmation contains the field, the amounts kept before and after, the generation, and the first characters of the
UID of the annotated object. So its use need not be recorded: another value, another generation and a recreated object
need another confirmation. A confirmation of a tenant also contains a time: it applies to the namespaces created until
then, not to later ones. It ends when a namespace has the confirmed values (status.settledDefaults).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_LOSS
from pulsar_operator.domain.policies.kept import Amount, amount_text, shortens
from pulsar_operator.domain.policies.model import PolicyRow, describe
from pulsar_operator.domain.texts import two_digits

_MOMENT: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z")


@dataclass(frozen=True)
class Asked:
    """A custom resource whose annotation may contain the confirmation."""

    kind: str
    namespace: str
    name: str
    mark: str
    """Its generation and the first characters of its UID."""
    answers: frozenset[str]
    """Confirmations in its annotation."""
    created: str | None = None
    """Creation time of the object that needs consent, if the custom resource may confirm for many such objects;
    otherwise None. See moment_of."""
    until: str = ""
    """Creation time of the youngest of these objects, which the command contains."""

    def answer(self, field_: str, before: str, after: str) -> str:
        """Returns the confirmation that must be given."""
        named = self._named(field_, before, after)
        return named if self.created is None else f"{named}:{max(self.created, self.until)}"

    def answered(self, field_: str, before: str, after: str) -> bool:
        """Whether one of its confirmations applies to the object that needs consent."""
        named = self._named(field_, before, after)
        if self.created is None:
            return named in self.answers
        given = (each.rpartition(":") for each in self.answers)
        moments = [moment for rest, _, moment in given if rest == named and _MOMENT.fullmatch(moment)]
        return bool(self.created) and any(self.created <= moment for moment in moments)

    def _named(self, field_: str, before: str, after: str) -> str:
        return f"{field_}:{before}:{after}:{self.mark}"

    def command(self, answer: str) -> str:
        """Returns the command that gives a confirmation."""
        return (
            f"kubectl -n {self.namespace} annotate --overwrite {self.kind.lower()}/{self.name} "
            f"{ANNOTATION_CONFIRM_LOSS}={answer}"
        )


def moment_of(metadata: Mapping[str, object]) -> str:
    """Returns the creation time of an object in the format of a confirmation: 20261127T092633Z. Empty if it is
    unknown."""
    found = re.sub("[-:]", "", str(metadata.get("creationTimestamp") or ""))
    return found if _MOMENT.fullmatch(found) else ""


def asked_of(
    kind: str, metadata: Mapping[str, object], annotations: Mapping[str, str], *, created: str | None = None
) -> Asked:
    """Parses the metadata of a custom resource. Several confirmations in one annotation are separated by commas."""
    given = annotations.get(ANNOTATION_CONFIRM_LOSS, "")
    return Asked(
        kind,
        str(metadata["namespace"]),
        str(metadata["name"]),
        f"{metadata.get('generation', 0)}-{str(metadata.get('uid', ''))[:8]}",
        frozenset(filter(None, (each.strip() for each in given.split(",")))),
        created,
    )


@dataclass(frozen=True)
class Stored:
    """The bytes that one cluster stores of an object."""

    size: int | None
    """Size in bytes; None if unknown."""
    complete: bool = True
    """False if there is more, which was not counted."""

    @property
    def nothing(self) -> bool:
        """Whether there is certainly no stored data."""
        return self.complete and self.size == 0

    def text(self, cluster: str) -> str:
        """Returns the size as a message. It has two digits, so that a condition does not change with each message
        published."""
        if self.size is None:
            return f"an unknown number of bytes in {cluster}"
        return f"{'' if self.complete else 'at least '}{two_digits(self.size)} bytes in {cluster}"


@dataclass(frozen=True)
class Guard:
    """The consent known in one pass."""

    asked: tuple[Asked, ...]
    """Objects that may consent; the object itself is the first."""
    own: frozenset[str] = frozenset()
    """Fields that the object itself declares."""
    source: str = ""
    """Source of the values that it does not declare, such as "spec.namespaceDefaults of PulsarTenant t"."""
    inherited: Mapping[str, Mapping[str | None, Amount | None]] = field(default_factory=dict)
    """Amounts kept if no value is set, by field and cluster. Missing entries are unknown."""
    stored: Mapping[str, Stored] | None = None
    """Stored bytes by cluster; None if not read yet."""


def consented(
    guard: Guard, row: PolicyRow, value: object | None, found: Mapping[str | None, object], *, new: bool
) -> bool:
    """Whether Pulsar may delete stored messages once a policy has a value (None if it is reset), given that there is no
    question: the object itself declares the value, or a person confirmed the change.

    With ``new`` the object existed before it declared the policy, so that a value replaces an inherited one that is not
    known. ``found``: see question.
    """
    if row.keeps is None:
        return False
    if row.field not in guard.own:
        nothing = guard.stored and all(each.nothing for each in guard.stored.values())
        return bool(_changes(guard, row, value, found)) and not nothing
    return any(
        shortens(row.keeps.of(live, None), row.keeps.of(row.value_in(value, cluster), None))
        for cluster, live in found.items()
        if live is not None or new
    )


@dataclass(frozen=True)
class _Change:
    before: object
    old: Amount | None
    new: Amount | None


def question(guard: Guard, row: PolicyRow, value: object | None, found: Mapping[str | None, object]) -> str | None:
    """Returns the question that a person must answer before a policy gets a value (None if it is reset), as a message;
    None if there is no question.

    ``found`` are the live values in the clusters that would be changed.
    """
    if row.keeps is None or row.field in guard.own:
        return None
    changes = _changes(guard, row, value, found)
    if not changes or (guard.stored and all(each.nothing for each in guard.stored.values())):
        return None
    before = "/".join(dict.fromkeys(amount_text(each.old) for each in changes))
    after = "/".join(dict.fromkeys(amount_text(each.new) for each in changes))
    if any(each.answered(row.field, before, after) for each in guard.asked):
        return None
    return _text(guard, row, value, changes, [(each, each.answer(row.field, before, after)) for each in guard.asked])


def _changes(
    guard: Guard, row: PolicyRow, value: object | None, found: Mapping[str | None, object]
) -> Sequence[_Change]:
    assert row.keeps is not None
    out = []
    for cluster, live in sorted(found.items(), key=lambda item: item[0] or ""):
        inherited = guard.inherited.get(row.field, {}).get(cluster)
        old = row.keeps.of(live, inherited)
        new = row.keeps.of(row.value_in(value, cluster) if value is not None else None, inherited)
        # Neither is known: it is the same one, which is inherited, unless a value is set that cannot be compared.
        differs = old is None and new is None and live is not None and not row.keeps.measures(live)
        if differs or shortens(old, new):
            out.append(_Change(live, old, new))
    return out


def _text(
    guard: Guard,
    row: PolicyRow,
    value: object | None,
    changes: Sequence[_Change],
    answers: Sequence[tuple[Asked, str]],
) -> str:
    was = " or ".join(dict.fromkeys(describe(each.before) for each in changes))
    inherits = "/".join(dict.fromkeys(amount_text(each.new) for each in changes))
    cause = (
        f"spec.{row.path} is no longer declared. Pulsar would then use the inherited value, which keeps "
        f"{inherits} and so less data than the present value {was}"
        if value is None
        else f"{guard.source} sets {row.path} to {describe(value)}. With this value Pulsar would keep less data than "
        f"with {was}, the value in effect"
    )
    first, *others = (each.command(answer) for each, answer in answers)
    for_all = "".join(
        f" or, to confirm it for every existing namespace of the tenant that keeps as much, run: {each}"
        for each in others
    )
    return (
        f"{cause}. {_at_risk(guard.stored)} Pulsar keeps the value in effect until you decide. To choose a value, "
        f"declare it in spec.{row.path} of this object. To confirm the change, run: {first}{for_all}"
    )


def _at_risk(stored: Mapping[str, Stored] | None) -> str:
    if not stored:
        return "The number of stored bytes is unknown."
    listed = ", ".join(each.text(cluster) for cluster, each in sorted(stored.items()))
    return f"Pulsar could delete messages from the stored data ({listed})."
