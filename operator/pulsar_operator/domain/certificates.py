"""Checks a certificate of a user before pods get it. Pure.

Clients and Pulsar would find each of these problems later: Pulsar when it starts or reads the changed file, clients
when they connect. Messages name the Secret, its keys, and names in the certificate; never the content of a private key.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.render.edge_tls import AUTHORITY, CERTIFICATE, KEY

_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
_FIRST_LINE: Final = "-----BEGIN PRIVATE KEY-----"
_OTHER_FORMS: Final = {
    "-----BEGIN RSA PRIVATE KEY-----": "PKCS#1",
    "-----BEGIN EC PRIVATE KEY-----": "SEC 1",
    "-----BEGIN EC PARAMETERS-----": "SEC 1",
    "-----BEGIN ENCRYPTED PRIVATE KEY-----": "encrypted PKCS#8",
}
_BODY: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_MOST_BYTES: Final = {CERTIFICATE: 64 * 1024, KEY: 16 * 1024, AUTHORITY: 512 * 1024}
"""Largest size of a key of the Secret. The operator checks the Secret in each pass, and clients refuse long chains."""
_CURVES: Final = frozenset({"secp256r1", "secp384r1", "secp521r1"})
"""Curves with which Java serves TLS (class NamedGroup of OpenJDK 17)."""
_SHOWN: Final = 3
"""Names that a message lists."""


@dataclass(frozen=True)
class Certificate:
    """A certificate with its chain."""

    not_after: datetime
    """When the first certificate of the chain expires."""
    names: tuple[str, ...]
    """Its subject alternative names: DNS names, then IP addresses."""


@dataclass(frozen=True)
class Checked:
    """The contents of a Secret after the check."""

    certificate: Certificate | None
    """None if the certificate cannot be read."""
    problem: str | None
    """What is wrong, with the remedy, as sentences without the last period; None if nothing is."""


class _ProblemError(Exception):
    """Ends the check."""


def decoded(secret: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns the contents of a Secret, of the keys that concern TLS and are not empty."""
    found = {}
    for key in (CERTIFICATE, KEY, AUTHORITY):
        try:
            value = base64.b64decode(str((secret.get("data") or {}).get(key) or ""), validate=True)
        except (binascii.Error, ValueError):
            continue
        if value.strip():
            found[key] = value
    return found


def check(secret: str, data: Mapping[str, bytes], hosts: Sequence[str], now: datetime) -> Checked:
    """Checks the contents of a Secret. ``secret`` is its namespace/name for messages; ``hosts`` are host names and IP
    addresses that clients verify."""
    certificate = None
    try:
        chain = _chain(secret, data)
        certificate = Certificate(min(each.not_valid_after_utc for each in chain), _names(secret, chain[0]))
        _check_key(secret, data, chain[0])
        _check_validity(secret, chain, now)
        _check_usage(secret, chain[0])
        _check_issuers(secret, chain, _authority(secret, data), now)
        _check_hosts(secret, certificate.names, hosts)
    except _ProblemError as problem:
        return Checked(certificate, str(problem))
    except _UNREADABLE:
        text = f"A certificate in Secret {secret} has a value that cannot be read, such as a date. Issue it again"
        return Checked(certificate, text)
    return Checked(certificate, None)


def covers(names: Sequence[str], host: str) -> bool:
    """Whether a certificate with these names is valid for a host, as clients decide it: a wildcard stands for the whole
    first label (RFC 9525)."""
    desired = host.lower().rstrip(".")
    try:
        address = ipaddress.ip_address(desired)
    except ValueError:
        rest = desired.partition(".")[2]
        return any(name.lower() == desired or (rest and name.lower() == f"*.{rest}") for name in names)
    return any(name == str(address) for name in names)


def _chain(secret: str, data: Mapping[str, bytes]) -> list[x509.Certificate]:
    for key, what in ((CERTIFICATE, "the certificate, followed by its chain,"), (KEY, "the private key")):
        if key not in data:
            raise _ProblemError(f"Secret {secret} has no key {key}, or the key is empty. Add {what} in PEM format")
    for key, most in _MOST_BYTES.items():
        if len(data.get(key, b"")) > most:
            raise _ProblemError(
                f"Key {key} of Secret {secret} has more than {most} bytes. Write fewer certificates to it"
            )
    if data[CERTIFICATE].startswith(_BYTE_ORDER_MARK) or b"PRIVATE KEY-----" in data[CERTIFICATE]:
        raise _ProblemError(
            f"Key {CERTIFICATE} of Secret {secret} has a byte order mark or a private key, and Pulsar reads only "
            "certificates there. Remove it"
        )
    try:
        return x509.load_pem_x509_certificates(data[CERTIFICATE])
    except _UNREADABLE:
        raise _ProblemError(
            f"Key {CERTIFICATE} of Secret {secret} is not a list of certificates in PEM format. Write the certificate, "
            "followed by its chain"
        ) from None


def _names(secret: str, leaf: x509.Certificate) -> tuple[str, ...]:
    try:
        extension = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        found, critical = extension.value, extension.critical
        names = (
            *found.get_values_for_type(x509.DNSName),
            *map(str, found.get_values_for_type(x509.IPAddress)),
        )
    except (x509.ExtensionNotFound, *_UNREADABLE):
        names, critical = (), False
    if names and not critical and not list(leaf.subject):
        raise _ProblemError(
            f"The certificate in key {CERTIFICATE} of Secret {secret} has an empty subject, and its subject "
            "alternative names are not critical, so Pulsar refuses it. Issue it with a subject (cert-manager: "
            "spec.commonName)"
        )
    if not names:
        raise _ProblemError(
            f"The certificate in key {CERTIFICATE} of Secret {secret} has no subject alternative name, and clients "
            "ignore its common name. Issue it for host names or IP addresses (cert-manager: spec.dnsNames)"
        )
    return names


def _check_key(secret: str, data: Mapping[str, bytes], leaf: x509.Certificate) -> None:
    lines = _LINE_END.split(data[KEY].decode("ascii", errors="replace").rstrip("\r\n"))
    first = lines[0].rstrip()
    remedy = (
        f"Pulsar reads only PKCS#8 that begins with {_FIRST_LINE} in the first line. Convert the key (cert-manager: "
        "spec.privateKey.encoding: PKCS8)"
    )
    if (form := _OTHER_FORMS.get(first)) is not None:
        raise _ProblemError(f"The private key in key {KEY} of Secret {secret} has format {form}. {remedy}")
    body = [line for line in lines[1:] if not line.startswith("-----END")]
    if first != _FIRST_LINE or not all(_BODY.fullmatch(line) for line in body):
        raise _ProblemError(f"Key {KEY} of Secret {secret} is not a private key in PKCS#8 format. {remedy}")
    try:
        # A test of the primes of a long key takes seconds, and the comparison with the certificate shows the same.
        key = load_pem_private_key(data[KEY], password=None, unsafe_skip_rsa_key_validation=True)
        matches = key.public_key() == leaf.public_key()
    except _UNREADABLE:
        raise _ProblemError(f"The private key in key {KEY} of Secret {secret} cannot be read. {remedy}") from None
    if not isinstance(key, (RSAPrivateKey, EllipticCurvePrivateKey)):
        raise _ProblemError(
            f"The private key in key {KEY} of Secret {secret} is neither an RSA nor an elliptic-curve key, and Pulsar "
            "reads no other ones. Issue the certificate for an RSA or ECDSA key"
        )
    if isinstance(key, EllipticCurvePrivateKey) and key.curve.name not in _CURVES:
        raise _ProblemError(
            f"The private key in key {KEY} of Secret {secret} has the elliptic curve {key.curve.name}, with which Java "
            "cannot serve TLS. Issue the certificate for a key of curve P-256, P-384 or P-521"
        )
    if not matches:
        raise _ProblemError(
            f"The private key in key {KEY} of Secret {secret} does not belong to the first certificate in key "
            f"{CERTIFICATE}. Write the key and the certificate of one request, and the certificate before its chain"
        )


def _check_validity(secret: str, chain: Sequence[x509.Certificate], now: datetime, key: str = CERTIFICATE) -> None:
    for number, each in enumerate(chain, start=1):
        where = f"Certificate {number} in key {key} of Secret {secret}"
        if now >= each.not_valid_after_utc:
            raise _ProblemError(f"{where} expired at {timestamp(each.not_valid_after_utc)}. Renew the certificate")
        if now < each.not_valid_before_utc:
            raise _ProblemError(
                f"{where} is not valid before {timestamp(each.not_valid_before_utc)}. Wait until then, or issue the "
                "certificate with an earlier time"
            )


def _check_usage(secret: str, leaf: x509.Certificate) -> None:
    try:
        usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if not {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(usages):
        raise _ProblemError(
            f"The certificate in key {CERTIFICATE} of Secret {secret} has an extended key usage without server "
            "authentication, so clients refuse it. Issue it with that usage (cert-manager: spec.usages: [server auth])"
        )


def _authority(secret: str, data: Mapping[str, bytes]) -> list[x509.Certificate]:
    if AUTHORITY not in data:
        return []
    try:
        return x509.load_pem_x509_certificates(data[AUTHORITY])
    except _UNREADABLE:
        raise _ProblemError(
            f"Key {AUTHORITY} of Secret {secret} is not a list of certificates in PEM format. Write the certificate of "
            "the authority, or remove the key"
        ) from None


def _check_issuers(
    secret: str, chain: Sequence[x509.Certificate], authority: Sequence[x509.Certificate], now: datetime
) -> None:
    """Checks that each certificate of the chain issued the one before it, and that the authority issued the last one.
    Without an authority in the Secret, clients have to know the issuer of the last one."""
    for number, (issued, issuer) in enumerate(pairwise(chain), start=1):
        if not _issued(issued, issuer):
            raise _ProblemError(
                f"Certificate {number} in key {CERTIFICATE} of Secret {secret} was not issued by certificate "
                f"{number + 1}. Write the certificate first, and after each certificate its issuer"
            )
    issuers = [each for each in authority if each == chain[-1] or _issued(chain[-1], each)]
    if authority and not issuers:
        raise _ProblemError(
            f"The chain in key {CERTIFICATE} of Secret {secret} is incomplete: no certificate in key {AUTHORITY} "
            f"issued its last certificate. Add the missing certificates to {CERTIFICATE}, or correct {AUTHORITY}"
        )
    if issuers and not any(each.not_valid_before_utc <= now < each.not_valid_after_utc for each in issuers):
        _check_validity(secret, issuers[:1], now, AUTHORITY)


def _issued(issued: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        issued.verify_directly_issued_by(issuer)
    except (InvalidSignature, *_UNREADABLE):
        return False
    return True


def _check_hosts(secret: str, names: Sequence[str], hosts: Sequence[str]) -> None:
    missing = [host for host in hosts if not covers(names, host)]
    if not missing:
        return
    more = f" and {len(missing) - _SHOWN} more hosts" if len(missing) > _SHOWN else ""
    raise _ProblemError(
        f"The certificate in key {CERTIFICATE} of Secret {secret} is not valid for {', '.join(missing[:_SHOWN])}{more}"
        ", which clients connect to. Add these names to its subject alternative names (cert-manager: spec.dnsNames)"
    )
