"""Colours of the report, for light and dark pages. Text stands out from the page by 4.5 to 1, bars by 3 to 1 (WCAG 2.2,
1.4.3 and 1.4.11)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final


@dataclass(frozen=True)
class Palette:
    """Colours as #rrggbb; no two are the same, so that each can be found again in a drawing."""

    page: str
    ink: str
    """Text, and lines that say something."""
    muted: str
    """Text beside the point."""
    line: str
    """Borders and grids, which say nothing."""
    now: str
    recommended: str

    def variables(self) -> str:
        """The colours as CSS variables."""
        return ";".join(f"--{name}:{colour}" for name, colour in asdict(self).items())


LIGHT: Final = Palette("#ffffff", "#1c2127", "#59626c", "#d5dae0", "#b0540a", "#1f6fb4")
DARK: Final = Palette("#15181c", "#e8ebee", "#a5aeb8", "#3a424b", "#f0984a", "#64aef0")


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2, relative luminance)."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
