"""What a check works with: isolated names, admin REST, clients, waits. One Context a check, one Instance a run."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pulsar

from pulsar_conformance.admin import Admin, AdminError, topic_path
from pulsar_conformance.cleaning import remove_topics
from pulsar_conformance.credentials import Access, Token
from pulsar_conformance.java.client import JavaClient, JavaProcess
from pulsar_conformance.model import CheckFailed, CheckSkipped
from pulsar_conformance.tamper import Tamper, unwrap
from pulsar_conformance.waiting import Interval, eventually

T = TypeVar("T")
_UNFIT = re.compile(r"[^a-z0-9]+")
NEEDS_JAVA = "needs the Java client"
"""What a check says first that is skipped without it."""
PATIENCE = 60
"""Seconds until a client gives up an operation or a send; a busy machine may stall a broker for 20."""


@dataclass(frozen=True)
class Role:
    """A role that is no superuser, with its token: for the checks of permissions."""

    name: str
    token: Token


@dataclass(frozen=True)
class Remote:
    """Another cluster, of this instance or of another one."""

    service_url: str
    admin_url: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """Its brokers' configuration at run time."""
    access: Access = field(default_factory=Access)
    """Of a cluster of another instance: who asks it. Another cluster of this instance is asked as this one is."""

    @property
    def cluster(self) -> str:
        """Its name."""
        return self.settings["clusterName"]


@dataclass
class Instance:
    """The Pulsar under test and what the run found out about it."""

    service_url: str
    admin_url: str
    tenant: str
    run: str
    """A few characters that no other run has: part of every name."""
    access: Access = field(default_factory=Access)
    role: Role | None = None
    remote: Remote | None = None
    """Another cluster of the instance."""
    foreign: Remote | None = None
    """A cluster of another instance."""
    java: JavaProcess | None = None
    java_missing: str = ""
    """Why there is no Java client, when the run does without."""
    client_log: str = "/dev/null"
    """File for the client library's own log."""
    wait_limit: float = 400
    """Seconds a check may wait for the broker's own periodic work."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The brokers' configuration at run time."""
    clusters: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    version: str = ""
    scale: Callable[[int], object] | None = None
    """Changes the number of brokers, where the suite has leave to."""
    fault: Callable[[str, str], str] | None = None
    """Does an action (kill, pause, resume) to a target, where the suite has leave to; says what it has done it to."""
    left: list[str] = field(default_factory=list)
    """Namespaces of checks that have ended, to be removed when no check runs."""


@dataclass
class Context:
    """One check's view of the instance; what it makes is removed by close(), the namespaces by the runner."""

    instance: Instance
    name: str
    tamper: Tamper = field(default_factory=Tamper)
    _clients: list[Any] = field(default_factory=list)
    _elsewhere: list[Any] = field(default_factory=list)
    _java: JavaClient | None = None
    _namespaces: list[str] = field(default_factory=list)
    _replicated: set[str] = field(default_factory=set)
    _default: str | None = None
    _cleanups: list[Callable[[], object]] = field(default_factory=list)
    # One check may run several times at once, each with a mutation of its own.
    _mark: str = field(default_factory=lambda: secrets.token_hex(2))

    # --- names

    @property
    def admin(self) -> Admin:
        """Admin REST as the suite's own role."""
        return Admin(self.instance.admin_url, self.tamper, self.instance.access)

    def as_role(self, role: Role) -> Access:
        """The access of another role, with the same trust."""
        return replace(self.instance.access, token=role.token)

    @property
    def namespace(self) -> str:
        """This check's own namespace, ``tenant/namespace``; made when first asked for."""
        if self._default is None:
            self._default = self.new_namespace()
        return self._default

    def new_namespace(self, **policies: Any) -> str:
        """Another namespace of this check, made with these policies (JSON names of class Policies).

        The topics of one that several clusters replicate go with it: removed at one of them they come back.
        """
        base = _UNFIT.sub("-", f"{self.instance.run}-{self.name}-{self._mark}".lower()).strip("-")
        found = f"{self.instance.tenant}/{base}-{len(self._namespaces)}"
        self._namespaces.append(found)
        if len(policies.get("replication_clusters") or ()) > 1:
            self._replicated.add(found)
        self.admin.put(f"namespaces/{found}", policies or None)
        return found

    def topic(
        self,
        name: str = "topic",
        *,
        partitions: int | None = None,
        persistent: bool = True,
        create: bool = True,
        namespace: str | None = None,
    ) -> str:
        """Full name of a topic; made by admin REST first unless create is False."""
        domain = "persistent" if persistent else "non-persistent"
        full = f"{domain}://{namespace or self.namespace}/{name}"
        if create and partitions is not None:
            self._make(f"{self.path(full)}/partitions", partitions)
        elif create:
            self._make(self.path(full))
        return full

    def _make(self, path: str, body: Any = None) -> None:
        """PUT a topic. A broker that removes many namespaces loses its own connection at times and answers 500 then."""
        deadline = time.monotonic() + 15
        again = False
        while True:
            try:
                self.admin.put(path, body)
                return
            except AdminError as error:
                if again and error.status == 409:
                    return
                if error.status < 500 or time.monotonic() > deadline:
                    raise
            again = True
            time.sleep(0.5)

    @staticmethod
    def path(topic: str) -> str:
        """The topic's path below /admin/v2."""
        return topic_path(topic)

    def policy(self, name: str, body: Any, *, namespace: str | None = None, method: str = "POST", **query: Any) -> None:
        """Set a policy of the namespace: ``policy("retention", {...})``."""
        self.admin.call(method, f"namespaces/{namespace or self.namespace}/{name}", body, **query)

    def stats(self, topic: str, **query: Any) -> dict[str, Any]:
        """The topic's stats."""
        found = self.admin.get(f"{self.path(topic)}/stats", **query)
        assert isinstance(found, dict)
        return found

    def internal_stats(self, topic: str) -> dict[str, Any]:
        """The topic's internal stats: ledgers, cursors."""
        found = self.admin.get(f"{self.path(topic)}/internalStats")
        assert isinstance(found, dict)
        return found

    # --- what the instance offers

    def setting(self, name: str) -> str:
        """A broker setting at run time; "" when the broker does not know it."""
        return self.instance.settings.get(name, "")

    def number(self, name: str) -> float:
        """A numeric broker setting; 0 when it is not set."""
        text = self.setting(name)
        return float(text) if text else 0.0

    def require(self, condition: object, reason: str) -> None:
        """Skip the check, saying why, when the instance does not offer what it needs."""
        if not condition:
            raise CheckSkipped(reason)

    def within_limit(self, seconds: float, what: str) -> float:
        """``seconds`` when the run may wait that long, else the check is skipped saying so."""
        limit = self.instance.wait_limit
        self.require(seconds <= limit, f"{what}: up to {seconds:.0f} s, this run waits at most {limit:.0f} s")
        return seconds

    def interval(self, setting: str, *, unit: float = 1) -> Interval:
        """A broker setting that says how often brokers do something, in seconds or in ``unit`` of them.

        The check is skipped, saying so, where they never do it or not within what this run may wait.
        """
        text = self.setting(setting)
        self.require(self.number(setting) > 0, f"brokers have {setting}={text}: they never do it automatically")
        found = Interval(self.number(setting) * unit)
        self.within_limit(found.within, f"{setting}={text}")
        return found

    def scale(self, brokers: int) -> None:
        """Ask for another number of brokers; the check is skipped where the suite has no leave to."""
        self.require(
            self.instance.scale, "requires permission to change the number of brokers: --scale-command says how"
        )
        self.tamper.wrap("brokers", self.instance).scale(brokers)

    def may_fault(self) -> None:
        """Skip the check where the suite has no leave to stop processes."""
        self.require(self.instance.fault, "requires permission to stop processes: --fault-command says how")

    def fault(self, action: str, target: str) -> str:
        """Kill, pause or resume a process, see docs/conformance.md; what the command says it has done it to."""
        self.may_fault()
        return str(self.tamper.wrap("faults", self.instance).fault(action, target) or "")

    # --- clients

    def client(self, *, access: Access | None = None, service_url: str | None = None, **options: Any) -> Any:
        """Returns a new client, which is closed with the check. ``access`` and ``service_url`` replace the suite's."""
        options = {**(access or self.instance.access).client_options(), **options}
        options.setdefault("operation_timeout_seconds", PATIENCE)
        log = pulsar.FileLogger(pulsar.LoggerLevel.Warn, self.instance.client_log)
        made = pulsar.Client(service_url or self.instance.service_url, logger=log, **options)
        (self._elsewhere if service_url else self._clients).append(made)
        return self.tamper.wrap("client", made)

    def producer(self, topic: str, *, client: Any = None, **options: Any) -> Any:
        """A producer; keyword arguments as pulsar.Client.create_producer."""
        options.setdefault("send_timeout_millis", 1000 * PATIENCE)
        return self.tamper.wrap("producer", (client or self._shared()).create_producer(topic, **options))

    def consumer(self, topic: Any, subscription: str = "sub", *, client: Any = None, **options: Any) -> Any:
        """A consumer; keyword arguments as pulsar.Client.subscribe, but starting at the earliest message."""
        options.setdefault("initial_position", pulsar.InitialPosition.Earliest)
        return self.tamper.wrap("consumer", (client or self._shared()).subscribe(topic, subscription, **options))

    def reader(self, topic: str, start: Any = None, *, client: Any = None, **options: Any) -> Any:
        """A reader, from the earliest message on; keyword arguments as pulsar.Client.create_reader."""
        start = pulsar.MessageId.earliest if start is None else start
        return self.tamper.wrap("reader", (client or self._shared()).create_reader(topic, start, **options))

    @property
    def java(self) -> Any:
        """The Java client, for what pulsar-client for Python lacks; the check is skipped where there is none."""
        if self._java is None:
            self._java = self.new_java()
        return self.tamper.wrap("java.client", self._java)

    def new_java(self, **conf: Any) -> JavaClient:
        """Returns a new Java client with settings of ClientBuilder.loadConf."""
        process = self.instance.java
        if process is None:
            raise CheckSkipped(f"{NEEDS_JAVA}: {self.instance.java_missing or 'not built'}")
        made = process.client(self.instance.service_url, access=self.instance.access, **conf)
        self._cleanups.append(made.close)
        return made

    def java_producer(self, topic: str, **options: Any) -> Any:
        """A producer of the Java client."""
        return self.tamper.wrap("java.producer", self.java.producer(topic, **options))

    def java_consumer(self, topics: Any, subscription: str = "sub", **options: Any) -> Any:
        """A consumer of the Java client, starting at the earliest message."""
        options.setdefault("initial_position", "Earliest")
        return self.tamper.wrap("java.consumer", self.java.consumer(topics, subscription, **options))

    def _shared(self) -> Any:
        if not self._clients:
            return self.client()
        return self.tamper.wrap("client", self._clients[0])

    # --- sending and receiving

    def send(self, producer: Any, texts: Iterator[str] | list[str], **options: Any) -> list[Any]:
        """Send texts one after another, each acknowledged; the message ids."""
        return [producer.send(text.encode(), **options) for text in texts]

    def receive(self, consumer: Any, count: int, *, within: float = 20, ack: bool = True) -> list[Any]:
        """Exactly the next ``count`` messages of a consumer or reader. Raises CheckFailed when one does not arrive."""
        out: list[Any] = []
        deadline = time.monotonic() + within
        while len(out) < count:
            message = self.next(consumer, max(0.05, deadline - time.monotonic()))
            if message is None:
                raise CheckFailed(f"{len(out)} of {count} messages within {within:.0f} s: {self.texts(out[-5:])}")
            out.append(message)
            if ack and not isinstance(unwrap(consumer), pulsar.Reader):
                consumer.acknowledge(message)
        return out

    def next(self, consumer: Any, within: float) -> Any:
        """Returns the next message, or None if none arrives within this number of seconds."""
        found = unwrap(consumer)
        try:
            if isinstance(found, pulsar.Reader):
                return consumer.read_next(timeout_millis=int(within * 1000))
            return consumer.receive(timeout_millis=int(within * 1000))
        except pulsar.Timeout:
            return None

    def drain(
        self,
        consumer: Any,
        *,
        until: Callable[[list[Any]], bool] | None = None,
        quiet: float = 1.0,
        ack: bool = True,
        within: float = 30,
    ) -> list[Any]:
        """Messages until none came for ``quiet`` seconds.

        A silence alone may be that of a slow machine: ``until`` says of the messages so far whether what must come has
        come. Without it only what has arrived already, or the absence of any message, can be judged.
        """
        out: list[Any] = []
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            message = self.next(consumer, quiet)
            if message is None:
                if until is None or until(out):
                    return out
                continue
            out.append(message)
            if ack and not isinstance(unwrap(consumer), pulsar.Reader):
                consumer.acknowledge(message)
        if until is None or until(out):
            raise CheckFailed(f"messages kept coming for {within:.0f} s: {len(out)} so far")
        raise CheckFailed(f"not all that had to come came within {within:.0f} s: {self.texts(out[-5:])} at the end")

    @staticmethod
    def came(text: str) -> Callable[[list[Any]], bool]:
        """For :meth:`drain`: until a message that begins with that text, the last one, has come."""
        return lambda messages: any(bytes(message.data()).startswith(text.encode()) for message in messages)

    def nothing(self, consumer: Any, during: float, why: str) -> None:
        """Checks that nothing arrives for this number of seconds. Raises CheckFailed with ``why`` and the messages."""
        message = self.next(consumer, during)
        if message is not None:
            raise CheckFailed(f"{why}, but {self.texts([message])} came")

    @staticmethod
    def texts(messages: list[Any]) -> list[str]:
        """The texts of messages."""
        return [bytes(message.data()).decode(errors="replace")[:80] for message in messages]

    # --- judging

    @staticmethod
    def expect(condition: object, otherwise: str) -> None:
        """Raise CheckFailed with ``otherwise`` unless the condition holds."""
        if not condition:
            raise CheckFailed(otherwise)

    def refused(self, error: type[BaseException] | tuple[type[BaseException], ...], call: Callable[[], Any]) -> str:
        """The call must be refused with that error; its text. Raises CheckFailed when it is accepted."""
        try:
            call()
        except error as found:
            return str(found) or type(found).__name__
        expected = error.__name__ if isinstance(error, type) else " or ".join(kind.__name__ for kind in error)
        raise CheckFailed(f"accepted, where {expected} was expected")

    def eventually(self, probe: Callable[[], T], what: str, *, within: float = 20, every: float = 0.2) -> T:
        """See :func:`pulsar_conformance.waiting.eventually`."""
        return eventually(probe, what, within=within, every=every)

    # --- the end

    def defer(self, action: Callable[[], object]) -> None:
        """Run an action when the check ends."""
        self._cleanups.append(action)

    def close(self) -> list[str]:
        """Close every client and remove the topics; what could not be removed, as a message."""
        for action in reversed(self._cleanups):
            with contextlib.suppress(Exception):
                action()
        for client in (*self._clients, *self._elsewhere):
            with contextlib.suppress(Exception):
                client.close()
        self.instance.left.extend(self._namespaces)
        admin = Admin(self.instance.admin_url, Tamper(), self.instance.access)
        return remove_topics(admin, [found for found in self._namespaces if found not in self._replicated])
