"""Time and randomness of the real world."""

from __future__ import annotations

import secrets
import uuid
from datetime import UTC, datetime


class SystemClock:
    """Implements ports.Clock with the system's clock."""

    def now(self) -> datetime:
        """Returns the current time in UTC, timezone-aware."""
        return datetime.now(UTC)


class SystemEntropy:
    """Implements ports.Entropy with the operating system's random source."""

    def uuid(self) -> str:
        """Returns a random UUID (version 4) as text."""
        return str(uuid.uuid4())

    def token(self, nbytes: int = 24) -> str:
        """Returns a URL-safe random secret of ``nbytes`` random bytes."""
        return secrets.token_urlsafe(nbytes)
