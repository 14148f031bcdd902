"""Sizes of bookies' volumes. Pure.

A new bookie gets the sizes in the StatefulSet's claim templates, whatever happened to earlier claims.
volumeClaimTemplates are immutable, so a volume that a user expanded is larger than those of bookies that are added
later. BookKeeper spreads new ledgers evenly over all bookies (unless diskWeightBasedPlacementEnabled is set), and the
smallest volume is full first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from typing import Any

from pulsar_operator.api.v1alpha1.quantities import quantity

Json = Mapping[str, Any]
MAX_NAMED = 3
"""Number of claims that a message names."""


def smaller_claims(claims: Iterable[Json], workload: str, replicas: int) -> str | None:
    """Returns which claims of the desired bookies request less than the others of their kind, as a message; None if
    none does."""
    by_volume: dict[str, dict[str, str]] = {}
    for claim in claims:
        name, number = _volume(claim, workload)
        size = _requested(claim)
        if number is not None and number < replicas and size and "deletionTimestamp" not in claim["metadata"]:
            by_volume.setdefault(name, {})[str(claim["metadata"]["name"])] = size
    found = []
    for sizes in by_volume.values():
        largest = max(sizes, key=lambda each: _number(sizes[each]))
        small = [each for each in sorted(sizes) if _number(sizes[each]) < _number(sizes[largest])]
        if small:
            more = f" and {len(small) - MAX_NAMED} others" if len(small) > MAX_NAMED else ""
            names = ", ".join(f"{each} ({sizes[each]})" for each in small[:MAX_NAMED])
            found.append(f"{names}{more} and {largest} ({sizes[largest]})")
    if not found:
        return None
    return (
        f"The PersistentVolumeClaims of bookies differ in size: {'; '.join(found)}. The smallest volume becomes "
        "full first. If their StorageClass allows volume expansion, raise spec.resources.requests.storage of the "
        "smaller claims"
    )


def new_claims(
    templates: Iterable[Json], claims: Collection[Json], workload: str, ordinals: Iterable[int]
) -> list[str]:
    """Returns one message for each claim of a new bookie that will be smaller than the others of its kind."""
    there = {str(claim["metadata"]["name"]): claim for claim in claims}
    found = []
    for ordinal in ordinals:
        for template in templates:
            volume, size = str(template["metadata"]["name"]), _requested(template)
            name = f"{volume}-{workload}-{ordinal}"
            siblings = [each for each in there.values() if _volume(each, workload)[0] == volume and _requested(each)]
            if name in there or not size or not siblings:
                continue
            largest = max(siblings, key=lambda each: _number(_requested(each)))
            if _number(size) < _number(_requested(largest)):
                found.append(
                    f"Bookie {ordinal} gets PersistentVolumeClaim {name} of {size}, but "
                    f"{largest['metadata']['name']} has {_requested(largest)}, because a StatefulSet creates new "
                    "claims with the size in its claim template. If the StorageClass allows volume expansion, "
                    f"raise spec.resources.requests.storage of {name} to {_requested(largest)}"
                )
    return found


def _volume(claim: Json, workload: str) -> tuple[str, int | None]:
    """Returns the name of the claim's template, and its ordinal; None if it is no claim of the workload."""
    volume, found, number = str(claim["metadata"]["name"]).rpartition(f"-{workload}-")
    return (volume, int(number)) if found and number.isascii() and number.isdigit() else ("", None)


def _requested(claim: Json) -> str:
    return str((((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}).get("storage") or "")


def _number(size: str) -> Decimal:
    return Decimal(quantity(size) or 0)
