"""Runs checks side by side against one instance and says how each one ended."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pulsar_conformance.admin import Admin, AdminError
from pulsar_conformance.cleaning import remove_namespaces
from pulsar_conformance.context import Context, Instance, Remote, Role
from pulsar_conformance.credentials import Access
from pulsar_conformance.java.client import JavaProcess
from pulsar_conformance.model import Check, CheckFailed, CheckSkipped, Outcome, Status
from pulsar_conformance.tamper import Rule, Tamper

T = TypeVar("T")
JAVA_BUILD = "python -m e2e.kind java-client"
"""What builds the Java client."""


@dataclass(frozen=True)
class Target:
    """Where the instance is and who asks."""

    service_url: str
    admin_url: str
    tenant: str = "conformance"
    access: Access = field(default_factory=Access)
    role: Role | None = None
    wait_limit: float = 400
    client_log: str = os.devnull
    scale: Callable[[int], object] | None = None
    fault: Callable[[str, str], str] | None = None
    remote: Remote | None = None
    """Where another cluster of the instance is; its settings are read."""
    foreign: Remote | None = None
    """Where a cluster of another instance is; its settings are read."""


class RemoteError(RuntimeError):
    """The other cluster, of this instance or of another one, is of no use; the message says why."""


class JavaMissingError(RuntimeError):
    """There is no Java client to run checks with; the message says why and what builds it."""


@contextlib.contextmanager
def instance(target: Target, java: Callable[[], JavaProcess] | None) -> Iterator[Instance]:
    """The instance with its settings read and the suite's tenant there; the tenant is removed again when empty.

    ``java`` starts the Java client; with None the run does without on purpose, and checks that need it are skipped.
    Raises AdminError or OSError when admin REST does not answer as a superuser's, RemoteError when the second cluster
    is none of the instance, the one of another instance has this cluster's name, or either does not answer,
    JavaMissingError when ``java`` fails.
    """
    admin = Admin(target.admin_url, Tamper(), target.access)
    settings = admin.get("brokers/configuration/runtime")
    clusters = tuple(sorted(name for name in admin.get("clusters") if name != "global"))
    local = settings["clusterName"]
    remote = _remote(target.remote, target.access, local, clusters) if target.remote else None
    foreign = _foreign(target.foreign, local) if target.foreign else None
    found = Instance(
        service_url=target.service_url,
        admin_url=target.admin_url,
        tenant=target.tenant,
        run=secrets.token_hex(3),
        access=target.access,
        role=target.role,
        remote=remote,
        foreign=foreign,
        java_missing="" if java else "this run does without",
        client_log=target.client_log,
        wait_limit=target.wait_limit,
        settings=settings,
        clusters=clusters,
        brokers=tuple(sorted(admin.get(f"brokers/{local}"))),
        version=str(admin.get("brokers/version")),
        scale=target.scale,
        fault=target.fault,
    )
    with contextlib.ExitStack() as stack:
        if _ensure_tenant(admin, target.tenant, [local, *([remote.cluster] if remote else [])]):
            stack.callback(_remove_tenant, admin, target.tenant)
        if java:
            found.java = _started(java)
            stack.callback(found.java.close)
        yield found


def _remote(given: Remote, access: Access, local: str, clusters: Sequence[str]) -> Remote:
    """The other cluster of the instance, with its settings. Raises RemoteError."""
    found = _with_settings(given, access, "the other cluster")
    name, url = found.cluster, found.admin_url
    if name == local or name not in clusters:
        raise RemoteError(f"{url} is of cluster {name}, and not of another one of {local}'s: {', '.join(clusters)}")
    return found


def _foreign(given: Remote, local: str) -> Remote:
    """The cluster of another instance, with its settings. Raises RemoteError.

    Whether its instance really is another one is what the check proves.
    """
    found = _with_settings(given, given.access, "the cluster of another instance")
    if found.cluster == local:
        raise RemoteError(f"{found.admin_url} is of a cluster {local} too: name a cluster of another name")
    return found


def _with_settings(given: Remote, access: Access, what: str) -> Remote:
    try:
        settings = Admin(given.admin_url, Tamper(), access).get("brokers/configuration/runtime")
    except (AdminError, OSError) as error:
        raise RemoteError(f"admin REST of {what} at {given.admin_url} does not answer: {error}") from error
    return replace(given, settings=settings)


def _started(java: Callable[[], JavaProcess]) -> JavaProcess:
    try:
        return java()
    except (OSError, RuntimeError) as error:
        hint = "" if JAVA_BUILD in str(error) else f"; {JAVA_BUILD} builds it"
        raise JavaMissingError(f"no Java client: {error}{hint}") from error


def run_checks(
    found: Instance,
    checks: Sequence[Check],
    *,
    workers: int = 8,
    rules: Callable[[Check], Sequence[Rule]] = lambda _check: (),
    on_outcome: Callable[[Outcome], None] = lambda _outcome: None,
    warned: Callable[[str], None] = lambda _text: None,
) -> list[Outcome]:
    """Run the checks, the longest first; outcomes in the order of ``checks``. ``on_outcome`` gets each as it ends.

    Those that must be alone come at the end, one after another.
    """
    outcomes: dict[str, Outcome] = {}
    for together, at_once in batches(checks, lambda check: check, workers):
        with ThreadPoolExecutor(at_once, thread_name_prefix="check") as pool:
            waiting = [pool.submit(run_one, found, check, rules(check), warned) for check in together]
            for done in as_completed(waiting):
                outcome = done.result()[0]
                outcomes[outcome.check.id] = outcome
                on_outcome(outcome)
    clean(found, warned)
    return [outcomes[check.id] for check in checks]


def batches(things: Sequence[T], check: Callable[[T], Check], workers: int) -> list[tuple[list[T], int]]:
    """Batches of things that each run a check, with their workers: those that may run in parallel, then the others."""
    order = sorted(things, key=lambda thing: -check(thing).seconds)
    return [
        ([thing for thing in order if not check(thing).alone], workers),
        ([thing for thing in order if check(thing).alone], 1),
    ]


def run_one(
    found: Instance, check: Check, rules: Sequence[Rule] = (), warned: Callable[[str], None] = lambda _text: None
) -> tuple[Outcome, list[str]]:
    """Run one check; its outcome, and the rules that changed a call."""
    tamper = Tamper(rules)
    context = Context(found, check.id, tamper)
    begin = time.monotonic()
    try:
        status, text = Status.PASSED, check.run(context)
    except CheckSkipped as reason:
        status, text = Status.SKIPPED, str(reason)
    except CheckFailed as failure:
        status, text = Status.FAILED, str(failure)
    except Exception as error:
        # A check must never take the others with it; what it met is its outcome.
        status, text = Status.ERROR, f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - begin
    for kept in context.close():
        warned(f"{check.id}: not cleaned up: {kept}")
    return Outcome(check, status, text, seconds), tamper.used


def clean(found: Instance, warned: Callable[[str], None]) -> None:
    """Remove the namespaces of checks that have ended; ``warned`` gets a message for each that stays.

    No check may run.
    """
    left, found.left[:] = found.left[:], []
    admin = Admin(found.admin_url, Tamper(), found.access)
    remote = replace(admin, url=found.remote.admin_url) if found.remote else None
    for kept in remove_namespaces(admin, left, found.settings.get("clusterName", ""), remote):
        warned(f"not cleaned up: {kept}")


def _remove_tenant(admin: Admin, tenant: str) -> None:
    with contextlib.suppress(AdminError):
        admin.delete(f"tenants/{tenant}")


def _ensure_tenant(admin: Admin, tenant: str, clusters: Sequence[str]) -> bool:
    """Have the tenant with leave to use these clusters; whether it was made for it."""
    try:
        admin.put(f"tenants/{tenant}", {"adminRoles": [], "allowedClusters": clusters})
    except AdminError as error:
        if error.status != 409:
            raise
    else:
        return True
    there = admin.get(f"tenants/{tenant}")
    if missing := [name for name in clusters if name not in there["allowedClusters"]]:
        admin.post(f"tenants/{tenant}", {**there, "allowedClusters": [*there["allowedClusters"], *missing]})
    return False
