"""Bundle hash ranges: how Pulsar cuts the 32-bit hash space of a namespace."""

from __future__ import annotations

HASH_SPACE = 1 << 32
LAST_BOUNDARY = HASH_SPACE - 1
"""The last boundary is inclusive, all others are exclusive upper bounds (Pulsar's class NamespaceBundles)."""


def even_boundaries(n: int) -> list[str]:
    """The n + 1 boundaries of n even bundles, as Pulsar writes them: ``0x%08x``, the last one 0xffffffff.

    The width of a bundle is 2^32 / n rounded down, and the last bundle takes the rest (Pulsar's class PoliciesUtil,
    method getBundles). Raises ValueError unless 1 <= n <= 2^32 - 1.
    """
    if not 1 <= n <= LAST_BOUNDARY:
        raise ValueError(f"number of bundles is {n}: it must be between 1 and {LAST_BOUNDARY}")
    width = HASH_SPACE // n
    return [f"0x{i * width:08x}" for i in range(n)] + [f"0x{LAST_BOUNDARY:08x}"]
