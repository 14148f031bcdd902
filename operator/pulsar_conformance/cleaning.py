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
    """Remove the topics of namespaces; what could not be removed, as a message."""
    return _each(namespaces, partial(_emptied, admin), "emptied")


def remove_namespaces(
    admin: Admin, namespaces: Iterable[str], cluster: str = "", remote: Admin | None = None
) -> list[str]:
    """Remove namespaces with all that is in them; what could not be removed, as a message.

    ``cluster`` is the one that ``admin`` is of, and ``remote`` is of the other one that may have some of them too.
    """
    return _each(namespaces, partial(_removed, admin, cluster, remote), "removed")


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
        for topic in _topics(admin, namespace):
            if not _of_system(topic):
                _delete(admin, topic_path(topic), force=True)
    except AdminError as error:
        if error.status != 404:
            raise
    return True


def _removed(admin: Admin, cluster: str, remote: Admin | None, namespace: str) -> bool:
    """Remove a namespace; True when it is gone. Raises AdminError when Pulsar is not ready for it."""
    if remote is not None:
        _left_by_another(admin, cluster, remote, namespace)
    _emptied(admin, namespace)
    try:
        _delete(admin, f"namespaces/{namespace}")
    except AdminError:
        # Its system topic may have to be loaded anew; see pulsar_operator.controllers.logical.namespace.
        if admin.get(f"namespaces/{namespace}").get("deleted"):
            admin.put(f"namespaces/{namespace}/unload")
        raise
    return True


def _left_by_another(admin: Admin, cluster: str, remote: Admin, namespace: str) -> None:
    """Take the other cluster out of a namespace, once it has nothing of it. Raises AdminError, or CheckFailed while
    topics come back.

    Pulsar deletes no namespace of several clusters. A cluster that is taken out deletes the topics that it has loaded,
    and those alone, where its brokers hear of that: not after their session with the configuration store ended. A topic
    that is deleted in one is made again by the replicator of the other, unless that is forbidden; a system topic is
    made again anyway, and so is loaded.
    """
    try:
        found = admin.get(f"namespaces/{namespace}")
    except AdminError as error:
        if error.status == 404:
            return
        raise
    if len(found["replication_clusters"]) < 2:
        return
    admin.post(f"namespaces/{namespace}/autoTopicCreation", {"allowAutoTopicCreation": False})
    for each in (admin, remote):
        _emptied(each, namespace)
    if again := [topic for each in (admin, remote) for topic in _topics(each, namespace) if not _of_system(topic)]:
        raise CheckFailed(f"{', '.join(sorted(set(again)))} came back")
    for topic in _topics(remote, namespace):
        _delete(remote, topic_path(topic), force=True)
    admin.post(f"namespaces/{namespace}/replication", [cluster])


def _topics(admin: Admin, namespace: str) -> list[str]:
    return list(admin.get(f"namespaces/{namespace}/topics", mode="ALL", includeSystemTopic=True) or [])


def _of_system(topic: str) -> bool:
    return "/__" in topic


def _delete(admin: Admin, path: str, **query: Any) -> None:
    try:
        admin.delete(path, **query)
    except AdminError as error:
        if error.status != 404:
            raise
