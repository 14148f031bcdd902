"""Converts kazoo's exceptions into the errors of ports/errors.py."""

from __future__ import annotations

from kazoo.exceptions import (
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)

from pulsar_operator.ports import ConflictError, NotFoundError, PortError, RefusedError, UnavailableError

_REFUSED = (AuthFailedError, NoAuthError, InvalidACLError, BadArgumentsError)


def port_error(error: KazooException, servers: str, verb: str, full: str) -> PortError:
    """Returns the port error for an exception of an operation on a node."""
    where = f"ZooKeeper node {full} at {servers}"
    if isinstance(error, NoNodeError):
        return NotFoundError(f"{where} does not exist")
    if isinstance(error, NodeExistsError):
        return ConflictError(f"{where} exists already")
    if isinstance(error, BadVersionError):
        return ConflictError(f"{where} was changed by another writer")
    if isinstance(error, NotEmptyError):
        return ConflictError(f"{where} has children")
    if isinstance(error, _REFUSED):
        return RefusedError(f"{verb} of {where} was refused: {type(error).__name__}")
    return UnavailableError(f"{verb} of {where} failed: {type(error).__name__}")
