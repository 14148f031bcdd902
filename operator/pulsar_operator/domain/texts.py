"""Text as it may be seen: in logs, events, conditions."""

from __future__ import annotations

import re

_USERINFO = re.compile(r'(?<=://)[^/@\s"]+@')


def without_userinfo(text: str) -> str:
    """A text whose URLs have nothing in front of their hosts: there is a name, and a password or token."""
    return _USERINFO.sub("...@", text)
