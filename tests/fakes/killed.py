"""How a test ends a process in the middle of what it does."""

from __future__ import annotations


class Killed(BaseException):
    """The process under test ends here; a BaseException, so that no handler of errors can catch it."""
