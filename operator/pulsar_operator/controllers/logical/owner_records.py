"""Reads and writes which custom resource manages an object of Pulsar; see domain/logical/owners.py for the record.

A record that cannot be read is unknown, not absent. A pass that needs it then writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.controllers.core.stores import configuration_store
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, ObstacleError, Scope
from pulsar_operator.domain.logical.owners import Owner, owner_properties
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import ConflictError, Deps, NotFoundError, PortError, RefusedError, ZooKeeperSession


def parsed(text: object, what: str) -> Owner | None:
    """Returns the owner that a record names; None if there is no record. Raises ObstacleError if it cannot be
    parsed."""
    if not text:
        return None
    try:
        return Owner.parse(text)
    except ValueError as error:
        unreadable(
            what,
            f"the record is {text!r:.200}, {error}. Remove the record, so that the oldest object manages {what}",
            error,
        )


def unreadable(what: str, why: str, cause: Exception) -> NoReturn:
    """Raises ObstacleError with the message that the managing object is unknown."""
    text = (
        f"The operator changes nothing in Pulsar, because the record of the object that manages {what} cannot be "
        f"used: {why}"
    )
    raise ObstacleError(Reason.REJECTED_BY_PULSAR, text) from cause


class TopicRecord:
    """The record of a persistent topic. It is a property, which the clusters share if the topic is partitioned."""

    def __init__(self, scope: Scope, path: tuple[str, ...], clusters: Iterable[str]) -> None:
        self._scope = scope
        self._clusters = sorted(clusters)
        self._call = Call("GET", (*path, "properties"))
        self._what = "://".join((path[0], "/".join(path[1:])))
        self.whole = False

    async def read(self) -> Owner | None:
        """Returns the owner; None if no cluster has a record. Raises ObstacleError, and AdminUnreachableError if a
        cluster that may have a record does not answer."""
        try:
            answers, silent = await self._scope.admin.everywhere(self._clusters, self._call)
        except RefusedError as error:
            unreadable(self._what, str(error), error)
        texts = [answer.get(OWNER_PROPERTY) for answer in answers.values() if answer is not None]
        found = next(filter(None, texts), None)
        self.whole = all(text == found for text in texts)
        if found is None and silent:
            who = "; ".join(self._scope.admin.why(each) for each in silent)
            raise AdminUnreachableError(f"It is not known which object manages {self._what}: {who}")
        return parsed(found, self._what)

    async def write(self, owner: Owner) -> None:
        """Writes this owner in each cluster that has the topic. Raises ObstacleError, AdminUnreachableError."""
        for cluster in self._clusters:
            call = Call("PUT", self._call.path, body=owner_properties(owner))
            try:
                await self._scope.admin.at(cluster, call)
            except NotFoundError:
                continue  # this cluster has no such topic
            except (RefusedError, ConflictError) as error:
                unreadable(self._what, f"the record cannot be written ({error})", error)


class NamespaceRecord:
    """The record of a namespace. It is a property, which all its clusters share."""

    whole = True

    def __init__(self, scope: Scope, path: tuple[str, ...]) -> None:
        self._scope = scope
        self._path = path
        self._what = f"namespace {'/'.join(path[1:])}"

    async def read(self) -> Owner | None:
        """Returns the owner; None if there is no record. Raises ObstacleError, AdminUnreachableError."""
        try:
            found = await self._scope.admin.find(Call("GET", self._path))
        except RefusedError as error:
            unreadable(self._what, str(error), error)
        live = found[1] if found is not None else {}
        return parsed((live.get("properties") or {}).get(OWNER_PROPERTY), self._what)

    async def write(self, owner: Owner) -> None:
        """Writes this owner. Raises ObstacleError, AdminUnreachableError."""
        call = Call("PUT", (*self._path, "properties"), body=owner_properties(owner))
        try:
            await self._scope.admin.anywhere(call)
        except (RefusedError, ConflictError, NotFoundError) as error:
            unreadable(self._what, f"the record cannot be written ({error})", error)


class NodeRecord:
    """The record of an object that has no properties. It is a node of the configuration store."""

    whole = True

    def __init__(self, deps: Deps, scope: Scope, path: str, what: str) -> None:
        self._deps = deps
        self._store = configuration_store(scope.chain[-1])
        self._path = path
        self._what = what

    @property
    def kept(self) -> bool:
        """Whether the status of the instance names its configuration store. Its clusters are usable only after that."""
        return self._store is not None

    async def read(self) -> Owner | None:
        """Returns the owner; None if there is no record. Raises ObstacleError."""
        if not self.kept:
            return None
        try:
            node = await (await self._session()).get(self._path)
        except PortError as error:
            self._raise_unavailable(error)
        return parsed(node.data.decode(errors="replace"), self._what) if node is not None else None

    async def write(self, owner: Owner) -> None:
        """Writes this owner. Raises ObstacleError."""
        if not self.kept:
            return
        data = owner.text.encode()
        try:
            session = await self._session()
            node = await session.get(self._path)
            if node is None:
                await session.create(self._path, data)
            elif node.data != data:
                await session.set(self._path, data, version=node.version)
        except PortError as error:
            self._raise_unavailable(error)

    async def remove(self, owner: Owner) -> None:
        """Removes the record if it names this owner. Raises ObstacleError."""
        if not self.kept:
            return
        try:
            session = await self._session()
            node = await session.get(self._path)
            if node is not None and node.data == owner.text.encode():
                await session.delete(self._path, version=node.version)
        except NotFoundError:
            return
        except PortError as error:
            self._raise_unavailable(error)

    async def _session(self) -> ZooKeeperSession:
        assert self._store is not None
        return await self._deps.zookeeper.session(*self._store)

    def _raise_unavailable(self, error: PortError) -> NoReturn:
        text = (
            f"It is not known which object manages {self._what}, because the configuration store cannot be read: "
            f"{error}"
        )
        raise ObstacleError(Reason.CONFIGURATION_STORE_UNAVAILABLE, text) from error
