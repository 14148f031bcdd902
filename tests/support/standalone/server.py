"""A Pulsar standalone process, open or with token authentication and authorization.

One Java process of the unpacked distribution, on free ports of 127.0.0.1, with a folder of its own for data,
configuration, tokens and log. Settings: conf/standalone.conf of the distribution; security as
https://pulsar.apache.org/docs/4.0.x/security-jwt/ has it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from e2e.support.admin import ask
from e2e.support.eventually import eventually
from tests.support.processes.launching import assert_runs, free_ports, launch
from tests.support.standalone.tokens import secret_key, token

TOKEN_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
TOKEN_PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"
ADMIN = "conformance-admin"
"""The superuser's role."""
ROLE = "conformance-role"
"""A role without rights."""
MEMORY = "-Xms128m -Xmx512m -XX:MaxDirectMemorySize=512m"
SERIAL = "-XX:+UseSerialGC"
BRIEF = f"{SERIAL} -XX:TieredStopAtLevel=1"
"""For one that runs for minutes: the second compiler takes as much as the rest, and what it makes comes too late."""
PLACES = {
    "bindAddress": "127.0.0.1",
    "listeningInterface": "lo",
    "allowLoopback": "true",
    "brokerDeleteInactiveTopicsEnabled": "false",
}


@dataclass(frozen=True)
class Standalone:
    """A running one."""

    service_url: str
    admin_url: str
    log: Path
    pid: int = 0


@dataclass(frozen=True)
class Secured:
    """A running one that asks for tokens."""

    running: Standalone
    admin_token: str = field(repr=False)
    role: str
    role_token: str = field(repr=False)


@contextlib.contextmanager
def open_standalone(
    home: Path,
    folder: Path,
    settings: Mapping[str, str] | None = None,
    *,
    within: float = 180,
    admin_token: str = "",
    jvm: str = BRIEF,
    memory: str = MEMORY,
    functions: bool = False,
) -> Iterator[Standalone]:
    """Start one, wait until it serves, kill it by its process id at the end; the log stays in ``folder``.

    ``home`` is the unpacked distribution, ``settings`` are added to its standalone.conf, ``admin_token`` is the
    superuser's where the settings ask for one, ``jvm`` has options beside those of ``memory``, ``functions`` starts the
    functions worker too. Raises FileNotFoundError without a distribution, EndedError when the process ends,
    AssertionError when it is not ready in time.
    """
    launcher = home / "bin" / "pulsar"
    if not launcher.is_file():
        raise FileNotFoundError(f"{launcher}: no Pulsar distribution there; python -m e2e.kind tools unpacks it")
    folder.mkdir(parents=True, exist_ok=True)
    broker, web, bookie = free_ports(3)
    configuration = folder / "standalone.conf"
    configuration.touch(mode=0o600)
    own = {**PLACES, "brokerServicePort": str(broker), "webServicePort": str(web), **(settings or {})}
    lines = [f"{name}={value}" for name, value in own.items()]
    # Of a name that comes twice Pulsar takes the last one (java.util.Properties) and the bookie the first.
    stock = (home / "conf" / "standalone.conf").read_text().splitlines()
    kept = [line for line in stock if line.partition("=")[0].strip() not in own]
    configuration.write_text("\n".join([*kept, *lines, ""]))
    log = folder / "standalone.log"
    process = launch(
        log,
        [
            *(str(launcher), "standalone", "--no-stream-storage", *(() if functions else ("--no-functions-worker",))),
            *("--advertised-address", "127.0.0.1", "--bookkeeper-port", str(bookie)),
            *("--metadata-dir", str(folder / "metadata"), "--bookkeeper-dir", str(folder / "bookkeeper")),
            # If this folder exists, a standalone uses ZooKeeper with its contents (class PulsarStandalone). By default,
            # it is in the distribution, which all runs share.
            *("--zookeeper-dir", str(folder / "zookeeper")),
        ],
        {
            **os.environ,
            "PULSAR_MEM": memory,
            "PULSAR_GC": jvm,
            "PULSAR_LOG_DIR": str(folder),
            "PULSAR_STANDALONE_CONF": str(configuration),
        },
    )
    found = Standalone(f"pulsar://127.0.0.1:{broker}", f"http://127.0.0.1:{web}", log, process.pid)
    try:
        what = f"Pulsar standalone serves, see {log}"
        eventually(lambda: _serves(found, process, admin_token), within=within, what=what, every=0.2)
        yield found
    finally:
        process.kill()  # nothing of it is kept, and to close hundreds of topics takes as long as some of the tests
        process.wait()


@contextlib.contextmanager
def secured_standalone(
    home: Path, folder: Path, settings: Mapping[str, str] | None = None, *, within: float = 180
) -> Iterator[Secured]:
    """The same with tokens: a superuser's, and one of a role without rights. Raises as open_standalone does."""
    folder.mkdir(parents=True, exist_ok=True)
    key, secret = folder / "token.key", secret_key()
    key.touch(mode=0o600)
    key.write_bytes(secret)
    admin_token = token(secret, ADMIN)
    security = {
        "authenticationEnabled": "true",
        "authenticationProviders": TOKEN_PROVIDER,
        "authorizationEnabled": "true",
        "superUserRoles": ADMIN,
        "tokenSecretKey": key.as_uri(),
        "brokerClientAuthenticationPlugin": TOKEN_PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{admin_token}",
    }
    together = {**security, **(settings or {})}
    with open_standalone(home, folder, together, within=within, admin_token=admin_token) as running:
        yield Secured(running, admin_token, ROLE, token(secret, ROLE))


def _serves(found: Standalone, process: subprocess.Popen[bytes], admin_token: str) -> bool:
    """Whether the superuser's call is answered; public/default is the last thing a standalone makes."""
    assert_runs(process, found.log)
    ask(found.admin_url, "GET", "namespaces/public/default", token=admin_token, seconds=5)
    return True
