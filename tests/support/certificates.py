"""Authorities and certificates made for a test, in the shape of the Secrets that cert-manager writes."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

Json = dict[str, Any]
YEAR = timedelta(days=365)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: Any
    chain: tuple[x509.Certificate, ...] = ()
    """Issuers between it and the root."""

    @property
    def pem(self) -> bytes:
        """The certificate alone."""
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def crt(self) -> bytes:
        """The certificate with its chain."""
        return b"".join(each.public_bytes(Encoding.PEM) for each in (self.certificate, *self.chain))

    def key_pem(self, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
        """The key."""
        return bytes(self.key.private_bytes(Encoding.PEM, form, NoEncryption()))


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)] if common else [])


def issue(
    common: str,
    *,
    issuer: Issued | None = None,
    names: Sequence[str] = (),
    ca: bool = False,
    key: Any = None,
    begin: datetime | None = None,
    end: datetime | None = None,
    usages: Sequence[ObjectIdentifier] = (ExtendedKeyUsageOID.SERVER_AUTH,),
) -> Issued:
    """A certificate of an issuer, or a self-signed one. Names that are IP addresses become those."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    signing, subject = (issuer.key if issuer else key), _name(common)
    begin = begin or datetime.now(UTC) - timedelta(hours=1)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end or begin + YEAR)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
    )
    if names:
        built = built.add_extension(x509.SubjectAlternativeName([_general(each) for each in names]), critical=False)
    if usages and not ca:
        built = built.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    certificate = built.sign(signing, hashes.SHA256())
    chain = (issuer.certificate, *issuer.chain) if issuer is not None and not _self_signed(issuer) else ()
    return Issued(certificate, key, chain)


def _self_signed(issued: Issued) -> bool:
    return issued.certificate.issuer == issued.certificate.subject


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def authority(common: str = "Test CA", *, issuer: Issued | None = None, **more: Any) -> Issued:
    """An authority: a root, or one below another one."""
    return issue(common, issuer=issuer, ca=True, **more)


def contents(leaf: Issued, root: Issued | None = None) -> dict[str, bytes]:
    """What a Secret has, by key."""
    found = {"tls.crt": leaf.crt, "tls.key": leaf.key_pem()}
    return found if root is None else {**found, "ca.crt": root.pem}


def secret(name: str, namespace: str, data: dict[str, bytes]) -> Json:
    """The Secret."""
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "kubernetes.io/tls", "data": encoded}
