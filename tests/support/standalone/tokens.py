"""JSON Web Tokens as Pulsar's token provider takes them, signed with a secret key (RFC 7515, HS256).

What ``pulsar tokens create-secret-key`` and ``pulsar tokens create`` make, without a JVM for each: the key is bytes, a
file with nothing else in it is a ``tokenSecretKey`` (class AuthTokenUtils), and the role is claim ``sub``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets

KEY_BYTES = 32
"""Pulsar chooses the algorithm by the length of the key: 32 to 47 bytes are HS256."""


def secret_key() -> bytes:
    """A new key."""
    return secrets.token_bytes(KEY_BYTES)


def token(key: bytes, subject: str) -> str:
    """A token of a role, without an end."""
    signed = ".".join(_segment(json.dumps(part).encode()) for part in ({"alg": "HS256"}, {"sub": subject}))
    return f"{signed}.{_segment(hmac.digest(key, signed.encode(), hashlib.sha256))}"


def _segment(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
