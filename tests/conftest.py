"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# A timing never decides whether a test passes.
settings.register_profile("project", deadline=None)
settings.load_profile("project")
