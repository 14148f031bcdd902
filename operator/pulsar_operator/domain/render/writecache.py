"""A bookie's write cache in step with the largest message.

The cache is shared evenly by the ledger directories, and of each share one half is filled while the other is written to
disk. An entry larger than a half never fits: the bookie tries until the broker's add times out, and with it everything
else on that thread (DbLedgerStorage, SingleDirectoryDbLedgerStorage and WriteCache of BookKeeper 4.17; seen with
8 MiB messages and 16 MB of cache). The same class refuses to start when both caches exceed the direct memory.
"""

from __future__ import annotations

import math

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Preset
from pulsar_operator.api.v1alpha1.cluster import BookKeeper
from pulsar_operator.domain.render.presets import direct_mebibytes, preset_values

WRITE_CACHE = "dbStorage_writeCacheMaxSizeMb"
READ_CACHE = "dbStorage_readAheadCacheMaxSizeMb"
STOCK_MESSAGE_BYTES = 5 * 1024 * 1024
"""maxMessageSize of a stock broker."""
FRAME_PADDING = 10 * 1024
"""Bytes a frame may be larger than a message (Commands.MESSAGE_SIZE_FRAME_PADDING of Pulsar)."""
STOCK_SHARE = 0.25
"""Share of the direct memory each of the two caches has when nothing is configured."""
COMFORT = 2
"""Largest messages a half is made for."""


def write_cache(keeper: BookKeeper, preset: Preset, max_message_bytes: int | None) -> dict[str, str]:
    """The setting that makes room for the largest message; empty where the preset has room anyway."""
    given = preset_values(preset).config.get(Component.BOOKIE, {}).get(WRITE_CACHE)
    direct = direct_mebibytes(Component.BOOKIE, preset, keeper.jvm)
    present = float(given) if given else (direct or 0) * STOCK_SHARE
    desired = _mebibytes(keeper, max_message_bytes, COMFORT)
    return {} if present >= desired else {WRITE_CACHE: str(desired)}


def write_cache_problems(keeper: BookKeeper, preset: Preset, max_message_bytes: int | None) -> list[str]:
    """Why the largest message would not fit, or the bookie not start."""
    size = STOCK_MESSAGE_BYTES if max_message_bytes is None else max_message_bytes
    least = _mebibytes(keeper, max_message_bytes, 1)
    found: list[str] = []
    config = keeper.config or {}
    chosen = _number(config.get(WRITE_CACHE))
    if chosen is not None and chosen < least:
        found.append(
            f"spec.bookkeeper.config.{WRITE_CACHE} = {chosen:g} has no room for a message of {size} bytes: half the "
            f"share of each of {keeper.ledgers.count} ledger volumes must hold one. Set it to {least} or more, or "
            "remove it"
        )
    direct = direct_mebibytes(Component.BOOKIE, preset, keeper.jvm)
    if direct is None:
        return found
    defaults = {**preset_values(preset).config.get(Component.BOOKIE, {}), **write_cache(keeper, preset, size)}
    caches = [_number({**defaults, **config}.get(key)) for key in (WRITE_CACHE, READ_CACHE)]
    together = sum(direct * STOCK_SHARE if cache is None else cache for cache in caches)
    if together > direct:
        found.append(
            f"spec.broker.maxMessageSize = {size} with {keeper.ledgers.count} ledger volumes needs "
            f"{together:.0f} MiB of write and read-ahead cache in a bookie, whose direct memory is {direct:.0f} MiB: "
            f"set spec.bookkeeper.jvm.directMemory to {math.ceil(together * 1.25)}m or more"
        )
    return found


def _mebibytes(keeper: BookKeeper, max_message_bytes: int | None, messages: int) -> int:
    size = STOCK_MESSAGE_BYTES if max_message_bytes is None else max_message_bytes
    return math.ceil(keeper.ledgers.count * 2 * messages * (size + FRAME_PADDING) / 1024**2)


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
