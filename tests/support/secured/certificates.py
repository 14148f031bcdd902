"""Certificates of an authority of one's own, by the program openssl."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True)
class Authority:
    """An authority in a folder, which signs certificates of servers."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Authority:
        """A new one; its name is that of the folder, so that two are told apart."""
        folder.mkdir(parents=True, exist_ok=True)
        name = ("-subj", f"/CN=authority {folder.name}")
        _openssl("req", "-x509", *KEY, *name, "-days", "2", "-keyout", folder / "ca.key", "-out", folder / "ca.crt")
        return cls(folder)

    @property
    def certificate(self) -> Path:
        """Its certificate in PEM, which clients trust."""
        return self.folder / "ca.crt"

    def server(self, *names: str) -> ssl.SSLContext:
        """The context of a server with a certificate of these names (DNS:localhost, IP:127.0.0.1)."""
        at = "-".join(names).replace(":", "_")
        key, crt = self.folder / f"{at}.key", self.folder / f"{at}.crt"
        signer = ("-CA", self.certificate, "-CAkey", self.folder / "ca.key")
        extensions = ("-addext", f"subjectAltName={','.join(names)}", "-addext", "basicConstraints=CA:FALSE")
        _openssl(
            *("req", "-x509", *KEY, *signer, *extensions, "-subj", "/CN=server", "-days", "2"),
            *("-keyout", key, "-out", crt),
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(crt, key)
        return context


def _openssl(*arguments: object) -> None:
    """Raises FileNotFoundError without the program, AssertionError with its words when it fails."""
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
