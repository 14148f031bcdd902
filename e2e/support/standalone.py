"""A Pulsar standalone process with token authentication and authorization, for what needs a secured instance.

One Java process of the unpacked distribution, on free ports of 127.0.0.1, with a folder of its own for data,
configuration, tokens and log. Settings: conf/standalone.conf of the distribution; security as
https://pulsar.apache.org/docs/4.0.x/security-jwt/ has it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from e2e.support.eventually import eventually
from tests.support.processes import free_ports

TOKEN_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
TOKEN_PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"
ADMIN = "conformance-admin"
"""The superuser's role."""
ROLE = "conformance-role"
"""A role without rights."""
OPEN = {"authenticationEnabled": "false", "authorizationEnabled": "false"}
"""Settings of one without security."""
LAUNCHER = {"PULSAR_MEM": "-Xms128m -Xmx512m -XX:MaxDirectMemorySize=512m", "PULSAR_GC": "-XX:+UseSerialGC"}


class StandaloneEndedError(Exception):
    """The process ended before it served; the message has the end of its log."""


@dataclass(frozen=True)
class Standalone:
    """A running one."""

    service_url: str
    admin_url: str
    admin_token: str = field(repr=False)
    role: str
    role_token: str = field(repr=False)
    log: Path


@contextlib.contextmanager
def secured_standalone(
    home: Path, folder: Path, settings: Mapping[str, str] | None = None, *, within: float = 180
) -> Iterator[Standalone]:
    """Start one, wait until it serves its superuser, stop it by its process id at the end; the log stays in ``folder``.

    ``home`` is the unpacked distribution, ``settings`` are added to its standalone.conf. Raises FileNotFoundError
    without a distribution, RuntimeError when no token can be made, StandaloneEndedError when the process ends,
    AssertionError when it is not ready in time.
    """
    launcher = home / "bin" / "pulsar"
    if not launcher.is_file():
        raise FileNotFoundError(f"{launcher}: no Pulsar distribution there; python -m e2e.kind tools unpacks it")
    folder.mkdir(parents=True, exist_ok=True)
    key = folder / "token.key"
    environment = {**os.environ, **LAUNCHER, "PULSAR_LOG_DIR": str(folder)}
    _tool(launcher, environment, "create-secret-key", "--output", str(key))
    key.chmod(0o600)
    admin_token, role_token = (
        _tool(launcher, environment, "create", "--secret-key", key.as_uri(), "--subject", subject)
        for subject in (ADMIN, ROLE)
    )
    broker, web, bookie = free_ports(3)
    configuration = folder / "standalone.conf"
    configuration.touch(mode=0o600)
    own = {**_security(key, admin_token), **_places(broker, web), **(settings or {})}
    lines = [f"{name}={value}" for name, value in own.items()]
    # Of a name that comes twice the last one counts (java.util.Properties).
    configuration.write_text("\n".join([(home / "conf" / "standalone.conf").read_text(), *lines, ""]))
    log = folder / "standalone.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(launcher, "standalone", "--no-functions-worker", "--no-stream-storage"),
                *("--advertised-address", "127.0.0.1", "--bookkeeper-port", str(bookie)),
                *("--metadata-dir", folder / "metadata", "--bookkeeper-dir", folder / "bookkeeper"),
            ],
            env={**environment, "PULSAR_STANDALONE_CONF": str(configuration)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    found = Standalone(f"pulsar://127.0.0.1:{broker}", f"http://127.0.0.1:{web}", admin_token, ROLE, role_token, log)
    try:
        eventually(lambda: _serves(found, process), within=within, what=f"Pulsar standalone serves, see {log}")
        yield found
    finally:
        _stop(process)


def _security(key: Path, admin_token: str) -> dict[str, str]:
    return {
        "authenticationEnabled": "true",
        "authenticationProviders": TOKEN_PROVIDER,
        "authorizationEnabled": "true",
        "superUserRoles": ADMIN,
        "tokenSecretKey": key.as_uri(),
        "brokerClientAuthenticationPlugin": TOKEN_PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{admin_token}",
    }


def _places(broker: int, web: int) -> dict[str, str]:
    return {
        "bindAddress": "127.0.0.1",
        "brokerServicePort": str(broker),
        "webServicePort": str(web),
        "listeningInterface": "lo",
        "allowLoopback": "true",
        "brokerDeleteInactiveTopicsEnabled": "false",
    }


def _tool(launcher: Path, environment: Mapping[str, str], *arguments: str) -> str:
    """Run ``pulsar tokens``; what it prints. Raises RuntimeError, without the output: that may be a token."""
    done = subprocess.run(
        [launcher, "tokens", *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"pulsar tokens {arguments[0]}: exit status {done.returncode}")
    return done.stdout.strip()


def _serves(found: Standalone, process: subprocess.Popen[bytes]) -> bool:
    """Whether the superuser's call is answered; public/default is the last thing a standalone makes."""
    if process.poll() is not None:
        tail = "\n".join(found.log.read_text(errors="replace").splitlines()[-20:])
        raise StandaloneEndedError(f"Pulsar standalone ended with status {process.returncode}:\n{tail}")
    request = urllib.request.Request(
        f"{found.admin_url}/admin/v2/namespaces/public/default",
        headers={"Authorization": f"Bearer {found.admin_token}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(answer.status) == 200
    except urllib.error.HTTPError as error:
        raise OSError(f"{request.full_url}: {error.code}") from None


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=10)
