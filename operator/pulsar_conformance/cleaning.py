"""Removes what checks have made: topics when a check ends, namespaces when no check runs.

When a namespace goes, its broker closes the one connection to itself that all namespaces share, and topics that are
being loaded just then fail (seen on 4.0.8: a producer of the namespace's system topic connects again, is answered
ServiceNotReady, and the client drops the connection for that).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pulsar_conformance.admin import Admin, AdminError, topic_path
from pulsar_conformance.model import CheckFailed
from pulsar_conformance.waiting import eventually


def remove_topics(admin: Admin, namespaces: Iterable[str]) -> list[str]:
    """Remove the topics of namespaces; what could not be removed, in words."""
    return _each(namespaces, partial(_emptied, admin), "emptied")


def remove_namespaces(admin: Admin, namespaces: Iterable[str]) -> list[str]:
    """Remove namespaces with all that is in them; what could not be removed, in words."""
    return _each(namespaces, partial(_removed, admin), "removed")


def _each(namespaces: Iterable[str], done: Callable[[str], bool], what: str) -> list[str]:
    kept = []
    for namespace in namespaces:
        try:
            eventually(partial(done, namespace), what, within=40, every=1)
        except CheckFailed as error:
            kept.append(f"{namespace}: {error}")
    return kept


def _emptied(admin: Admin, namespace: str) -> bool:
    """Remove the topics of a namespace; True when they are gone. Raises AdminError when Pulsar is not ready for it."""
    try:
        for domain in ("persistent", "non-persistent"):
            for topic in admin.get(f"{domain}/{namespace}/partitioned") or []:
                _delete(admin, f"{topic_path(topic)}/partitions", force=True)
        for topic in admin.get(f"namespaces/{namespace}/topics", mode="ALL") or []:
            if "/__" not in topic:
                _delete(admin, topic_path(topic), force=True)
    except AdminError as error:
        if error.status != 404:
            raise
    return True


def _removed(admin: Admin, namespace: str) -> bool:
    """Remove a namespace; True when it is gone. Raises AdminError when Pulsar is not ready for it."""
    _emptied(admin, namespace)
    try:
        _delete(admin, f"namespaces/{namespace}")
    except AdminError:
        # Its system topic may have to be loaded anew; see pulsar_operator.controllers.logical.namespace.
        if admin.get(f"namespaces/{namespace}").get("deleted"):
            admin.put(f"namespaces/{namespace}/unload")
        raise
    return True


def _delete(admin: Admin, path: str, **query: Any) -> None:
    try:
        admin.delete(path, **query)
    except AdminError as error:
        if error.status != 404:
            raise
