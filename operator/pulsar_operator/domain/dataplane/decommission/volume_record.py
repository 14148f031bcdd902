"""Which volumes bookies have, kept outside of their claims, in a znode beside the cookies. Pure.

A claim does not show that it was created again. A bookie whose cookie the metadata store has, and whose volume is
another than the one on record, has lost its data and does not start (class LegacyCookieValidation of BookKeeper
4.17.2).

The volumes of a bookie that starts on empty ones are recorded under its new id before it comes up: they may be lost
before it is observed to be up.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pulsar_operator.domain.bookkeeper.bookie_ids import OwnBookies
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts
from pulsar_operator.domain.dataplane.decommission.volume_claims import Claim

VOLUMES_PATH: Final = "/pulsar-operator/bookie-volumes"
NONE: Final = "none"
"""Stands for the name of a claim: the bookie has a cookie, and had no claim when it was observed."""


@dataclass(frozen=True)
class Volume:
    """The volume of a claim."""

    claim: str
    """UID of the claim."""
    name: str
    """Name of the PersistentVolume."""


Volumes = Mapping[str, Volume]
"""The volumes of one bookie, by name of the claim."""


def parse_volumes(data: bytes) -> dict[str, dict[str, Volume]]:
    """Parses the znode into volumes by bookie id. Raises UndecodableError: an empty record instead would hide a lost
    volume."""
    try:
        return {
            str(bookie): {str(claim): Volume(str(each["claim"]), str(each["volume"])) for claim, each in of.items()}
            for bookie, of in json.loads(data or b"{}").items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise UndecodableError(
            f"Znode {VOLUMES_PATH} cannot be read, so the operator cannot detect that a bookie lost its volume. "
            "Restore the znode from a backup, or delete it once all bookies are ready. The operator then writes "
            "the znode again"
        ) from None


def volumes_data(volumes: Mapping[str, Volumes]) -> bytes:
    """Returns the content of the znode."""
    found = {
        bookie: {claim: {"claim": each.claim, "volume": each.name} for claim, each in sorted(of.items())}
        for bookie, of in sorted(volumes.items())
    }
    return json.dumps(found).encode()


def lost_volumes(known: Volumes, claims: Iterable[Claim]) -> tuple[str, ...]:
    """Returns what happened to the volumes of a bookie that does not come up, as a message; empty if they are the
    recorded ones, or not known yet. A claim that was created again for the same volume has its data."""
    found = []
    for claim in claims:
        before = known.get(claim.name)
        if NONE in known:
            found.append(f"PersistentVolumeClaim {claim.name} is new and had no predecessor")
        elif claim.lost:
            found.append(f"the PersistentVolume of PersistentVolumeClaim {claim.name} no longer exists")
        elif before is not None and claim.volume and claim.volume != before.name:
            found.append(f"PersistentVolumeClaim {claim.name} has volume {claim.volume}, but had {before.name} before")
    return tuple(found)


@dataclass(frozen=True)
class Recorded:
    """The new record."""

    volumes: Mapping[str, Volumes]
    others: tuple[str, ...] = ()
    """Bookies that came up with other volumes than the recorded ones, as messages."""


def recorded(
    known: Mapping[str, Volumes],
    own: OwnBookies,
    claims: Collection[Claim],
    storage: StorageFacts,
    *,
    replicas: int,
    ready: Collection[int],
    renewed: str | None,
) -> Recorded:
    """Returns the record after an observation.

    Registered bookies have the volumes that they use now. Bookies within the ``replicas`` of the StatefulSet that are
    not registered have the volumes that they may start on, under the id that they get if these are empty. ``ready`` are
    ordinals whose pods are ready, checked after the claims: the registration of a killed process stays until its
    session ends, and by then its pod may have been created again, with other claims. A bookie without a cookie has
    none; ``renewed`` is one that gets a new volume from this operator.
    """
    found = {bookie: volumes for bookie, volumes in known.items() if bookie in storage.cookies}
    others = []
    for ordinal in sorted({claim.ordinal for claim in claims}):
        bookie, own_claims = own.id(ordinal), [claim for claim in claims if claim.ordinal == ordinal]
        if any(claim.going or claim.lost or not claim.volume for claim in own_claims):
            continue
        if bookie not in storage.registered:
            following = own.following_id(ordinal)
            fresh = following not in storage.cookies | storage.registered
            if fresh and ordinal < replicas and not any(claim.mark for claim in own_claims):
                found[following] = _volumes(own_claims)
            continue
        if bookie not in storage.cookies or ordinal not in ready:
            continue
        words = lost_volumes(known.get(bookie, {}), own_claims)
        if words and bookie != renewed and NONE not in known.get(bookie, {}):
            others.append(f"Bookie {bookie} is running, although {words[0]}")
        found[bookie] = _volumes(own_claims)
    with_claims = {claim.ordinal for claim in claims}
    for bookie in storage.missing - known.keys():
        number = own.ordinal(bookie)
        if number is not None and number not in with_claims:
            found[bookie] = {NONE: Volume("", "")}
    return Recorded(found, tuple(others))


def _volumes(claims: Iterable[Claim]) -> dict[str, Volume]:
    return {claim.name: Volume(claim.uid, claim.volume) for claim in claims}
