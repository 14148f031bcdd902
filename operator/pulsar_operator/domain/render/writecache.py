"""Sizes a bookie's write cache for the largest message.

The ledger directories share the cache evenly, and one half of each share is filled while the other is flushed. An entry
larger than a half never fits: the bookie retries until the broker's add times out, and blocks everything else on that
thread (DbLedgerStorage, SingleDirectoryDbLedgerStorage and WriteCache of BookKeeper 4.17; seen with 8 MiB messages and
16 MB of cache). The same class refuses to start if both caches exceed the direct memory.
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
"""Default maxMessageSize of a broker, in bytes."""
FRAME_PADDING = 10 * 1024
"""Bytes by which a frame may exceed a message (Commands.MESSAGE_SIZE_FRAME_PADDING of Pulsar)."""
STOCK_SHARE = 0.25
"""Default share of the direct memory of each of the two caches."""
COMFORT = 2
"""Number of largest messages that a half has room for."""


def write_cache(keeper: BookKeeper, preset: Preset, max_message_bytes: int | None) -> dict[str, str]:
    """Returns the setting with room for the largest message; empty if the preset has enough room."""
    given = preset_values(preset).config.get(Component.BOOKIE, {}).get(WRITE_CACHE)
    direct = direct_mebibytes(Component.BOOKIE, preset, keeper.jvm)
    present = float(given) if given else (direct or 0) * STOCK_SHARE
    desired = _mebibytes(keeper, max_message_bytes, COMFORT)
    return {} if present >= desired else {WRITE_CACHE: str(desired)}


def write_cache_problems(keeper: BookKeeper, preset: Preset, max_message_bytes: int | None) -> list[str]:
    """Returns why the largest message would not fit, or why the bookie would not start."""
    size = STOCK_MESSAGE_BYTES if max_message_bytes is None else max_message_bytes
    least = _mebibytes(keeper, max_message_bytes, 1)
    found: list[str] = []
    config = keeper.config or {}
    chosen = _number(config.get(WRITE_CACHE))
    if chosen is not None and chosen < least:
        found.append(
            f"spec.bookkeeper.config.{WRITE_CACHE} = {chosen:g} has no room for a message of {size} bytes, "
            f"because half the share of each of {keeper.ledgers.count} ledger volumes must hold one message. Set "
            f"it to {least} or more, or remove it"
        )
    direct = direct_mebibytes(Component.BOOKIE, preset, keeper.jvm)
    if direct is None:
        return found
    defaults = {**preset_values(preset).config.get(Component.BOOKIE, {}), **write_cache(keeper, preset, size)}
    caches = [_number({**defaults, **config}.get(key)) for key in (WRITE_CACHE, READ_CACHE)]
    together = sum(direct * STOCK_SHARE if cache is None else cache for cache in caches)
    if together > direct:
        found.append(
            f"spec.broker.maxMessageSize = {size} with {keeper.ledgers.count} ledger volumes needs {together:.0f} "
            f"MiB of write and read-ahead cache in a bookie, but the direct memory of a bookie is {direct:.0f} "
            f"MiB. Set spec.bookkeeper.jvm.directMemory to {math.ceil(together * 1.25)}m or more"
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
