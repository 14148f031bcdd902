"""Bundle hash ranges: how Pulsar cuts the 32-bit hash space of a namespace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

HASH_SPACE = 1 << 32
LAST_BOUNDARY = HASH_SPACE - 1
"""The last boundary is inclusive, all others are exclusive upper bounds (Pulsar's class NamespaceBundles)."""

_RANGE = re.compile(r"(0x[0-9a-f]{8})_(0x[0-9a-f]{8})")


def even_boundaries(n: int) -> list[str]:
    """Returns the n + 1 boundaries of n even bundles, as Pulsar writes them: ``0x%08x``, the last one 0xffffffff.

    The width of a bundle is 2^32 / n rounded down, and the last bundle takes the rest (Pulsar's class PoliciesUtil,
    method getBundles). Raises ValueError unless 1 <= n <= 2^32 - 1.
    """
    if not 1 <= n <= LAST_BOUNDARY:
        raise ValueError(f"the number of bundles is {n}, but must be between 1 and {LAST_BOUNDARY}")
    width = HASH_SPACE // n
    return [f"0x{i * width:08x}" for i in range(n)] + [f"0x{LAST_BOUNDARY:08x}"]


def boundary_points(boundaries: Sequence[str]) -> list[int]:
    """Returns boundaries as Pulsar writes them (``0x%08x``) as numbers.

    Raises ValueError unless they ascend strictly from 0x00000000 to 0xffffffff (Pulsar's method validateBundlesData).
    """
    try:
        points = [int(text, 16) for text in boundaries]
    except ValueError as error:
        raise ValueError(
            f"the boundaries are not valid ({error}). Write each boundary as 0x and eight hexadecimal digits"
        ) from error
    if len(points) < 2 or points[0] != 0 or points[-1] != LAST_BOUNDARY:
        raise ValueError(
            f"the boundaries are {', '.join(map(str, boundaries)) or 'empty'}, but the first must be 0x00000000 and "
            "the last 0xffffffff"
        )
    for left, right in pairwise(points):
        if left >= right:
            raise ValueError(
                f"boundary 0x{right:08x} follows 0x{left:08x}, but boundaries must ascend without duplicates"
            )
    return points


def boundary_texts(points: Iterable[int]) -> tuple[str, ...]:
    """Returns boundaries as Pulsar writes them."""
    return tuple(f"0x{point:08x}" for point in points)


def range_points(text: str) -> tuple[int, int]:
    """Lower and upper boundary of a bundle's range as Pulsar writes it: ``0x%08x_0x%08x`` (class NamespaceBundle).

    The one way back from ``cluster.BundleId.range``. Raises ValueError for any other text, or where they do not ascend.
    """
    found = _RANGE.fullmatch(text)
    lower, upper = (int(each, 16) for each in found.groups()) if found else (0, 0)
    if lower >= upper:
        raise ValueError(f"{text!r} is not a range of a bundle, such as 0x00000000_0x40000000")
    return lower, upper
