"""Starting etcd and kube-apiserver as two processes on loopback, and ending them.

No controller-manager runs: namespaces never finish terminating, nothing is garbage-collected, and no service accounts
or workload pods appear by themselves. Everything lives in one throw-away folder and ends with the fixture.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import yaml

from e2e.support.eventually import LOCAL, eventually
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.audit import AUDIT_POLICY
from tests.support.processes.launching import assert_runs, free_ports, launch, stop

STARTUP_SECONDS = 180.0
"""Deadline for the server to be ready: 3 s on an idle machine, far more beside a compiler."""
SPARING = {"GOGC": "400"}
"""Environment for tests: Go collects garbage when there is five times as much as is in use, not twice, which takes a
tenth less processor time. What is measured runs without."""
ADMIN = "test-admin"


class MissingBinariesError(RuntimeError):
    """The binaries are not there yet."""


def binaries(environ: Mapping[str, str] | None = None) -> tuple[Path, Path]:
    """Paths of etcd and kube-apiserver: from PULSAR_OPERATOR_BIN (a folder), or where ``make tools`` puts them.

    Raises MissingBinariesError naming the file and the command that makes it.
    """
    environ = os.environ if environ is None else environ
    folder = environ.get("PULSAR_OPERATOR_BIN")
    if folder:
        etcd, server = Path(folder) / "etcd", Path(folder) / "kube-apiserver"
    else:
        from e2e.kind.paths import paths

        known = paths(environ=environ)
        etcd, server = Path(known["etcd"]), Path(known["kube_apiserver"])
    for file in (etcd, server):
        if not os.access(file, os.X_OK):
            raise MissingBinariesError(f"{file} is missing: run: make tools (or set PULSAR_OPERATOR_BIN to its folder)")
    return etcd, server


@contextmanager
def running_apiserver(environment: Mapping[str, str] | None = None) -> Iterator[ApiServer]:
    """Start etcd and kube-apiserver, yield when ready, end both by process id and remove their folder.

    ``environment`` is added to this process's own.
    """
    etcd, server = binaries()
    with tempfile.TemporaryDirectory(prefix="pulsar-operator-apiserver-") as name:
        folder = Path(name)
        folder.chmod(0o700)
        processes: list[subprocess.Popen[bytes]] = []
        try:
            with closing(_start(etcd, server, folder, processes, environment)) as api:
                yield api
        finally:
            for process in reversed(processes):
                stop(process)


def _start(
    etcd: Path,
    server: Path,
    folder: Path,
    processes: list[subprocess.Popen[bytes]],
    environment: Mapping[str, str] | None,
) -> ApiServer:
    client_port, peer_port, secure_port = free_ports(3)
    store = f"http://127.0.0.1:{client_port}"
    peer = f"http://127.0.0.1:{peer_port}"
    processes.append(
        launch(
            folder / "etcd.log",
            [
                str(etcd),
                "--name=test",
                f"--data-dir={folder / 'etcd'}",
                f"--listen-client-urls={store}",
                f"--advertise-client-urls={store}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=test={peer}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
            environment,
        )
    )
    key = folder / "service-account.key"
    _private_key(key)
    token = secrets.token_hex(24)
    tokens = folder / "tokens.csv"
    tokens.touch(mode=0o600)
    tokens.write_text(f'{token},{ADMIN},{ADMIN},"system:masters"\n', encoding="utf-8")
    policy = folder / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(AUDIT_POLICY), encoding="utf-8")
    processes.append(
        launch(
            folder / "kube-apiserver.log",
            [
                str(server),
                f"--etcd-servers={store}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--secure-port={secure_port}",
                f"--cert-dir={folder / 'pki'}",
                "--authorization-mode=RBAC",
                f"--token-auth-file={tokens}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--endpoint-reconciler-type=none",
                # Nothing creates the "default" service account here, and this plug-in refuses pods without it.
                "--disable-admission-plugins=ServiceAccount",
                "--allow-privileged=true",
                "--profiling=false",
                f"--audit-policy-file={policy}",
                f"--audit-log-path={folder / 'audit.log'}",
                "--audit-log-mode=blocking",
                "--audit-log-format=json",
            ],
            environment,
        )
    )
    api: ApiServer | None = None

    def ready() -> bool:
        nonlocal api
        for process, log in zip(processes, ("etcd", "kube-apiserver"), strict=True):
            assert_runs(process, folder / f"{log}.log")
        if not (folder / "pki" / "apiserver.crt").is_file():
            return False
        api = api or ApiServer(url=f"https://127.0.0.1:{secure_port}", folder=folder, token=token)
        return api.request("GET", "/readyz").code == 200

    eventually(ready, what="kube-apiserver to be ready", within=STARTUP_SECONDS, every=LOCAL)
    assert api is not None
    return api


def _private_key(file: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        raise MissingBinariesError("openssl is missing: run: apt-get install openssl")
    subprocess.run(
        [openssl, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(file)],
        check=True,
        capture_output=True,
    )
    file.chmod(0o600)
