"""The check of a user's certificate: what each problem is called, what is accepted, and that no key is in a message."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.domain.certificates import Checked, check, covers, decoded
from tests.support.certificates import authority, contents, issue, secret

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
HOST = "east-proxy.pulsar.svc.cluster.local"
NAMES = (HOST, "pulsar.example.com", "192.0.2.7")
DAY = timedelta(days=1)
BEGIN = NOW - DAY
Data = dict[str, bytes]


ROOT = authority(begin=BEGIN)
MIDDLE = authority("Middle", issuer=ROOT, begin=BEGIN)
LEAF = issue("east", issuer=ROOT, names=NAMES, begin=BEGIN)
BELOW = issue("east", issuer=MIDDLE, names=NAMES, begin=BEGIN)
OTHER = issue("other", issuer=authority("Other CA", begin=BEGIN), names=NAMES, begin=BEGIN)
SELF_SIGNED = issue("east", names=NAMES, begin=BEGIN)
GOOD = contents(LEAF, ROOT)
RSA = rsa.generate_private_key(65537, 2048)


def checked(data: Data, *hosts: str, now: datetime = NOW) -> Checked:
    return check("pulsar/edge", data, hosts or (HOST,), now)


ACCEPTED: dict[str, Data] = {
    "leaf-of-a-root": GOOD,
    "without-authority": contents(LEAF),
    "empty-authority": {**GOOD, "ca.crt": b" \n"},
    "chain": contents(BELOW, ROOT),
    "chain-with-its-root": {**contents(BELOW, ROOT), "tls.crt": BELOW.crt + ROOT.pem},
    "authority-in-the-middle": contents(issue("east", issuer=MIDDLE, names=NAMES, begin=BEGIN), MIDDLE),
    "several-authorities": {**GOOD, "ca.crt": authority("Old CA", begin=BEGIN).pem + ROOT.pem},
    "self-signed": contents(SELF_SIGNED, SELF_SIGNED),
    "rsa": contents(issue("east", issuer=ROOT, names=NAMES, begin=BEGIN, key=RSA), ROOT),
    "no-extended-usage": contents(issue("east", issuer=ROOT, names=NAMES, begin=BEGIN, usages=()), ROOT),
    "any-usage": contents(
        issue("east", issuer=ROOT, names=NAMES, begin=BEGIN, usages=[ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE]), ROOT
    ),
    "windows-line-ends": {**GOOD, "tls.key": GOOD["tls.key"].replace(b"\n", b"\r\n")},
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    data = {key: value for key, value in ACCEPTED[name].items() if value.strip()}
    found = checked(data)
    assert found.problem is None
    assert found.certificate is not None and found.certificate.names == NAMES


def _ed25519() -> bytes:
    key = ed25519.Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _of_expired() -> Data:
    old = authority("Old", begin=BEGIN, end=NOW - timedelta(hours=1))
    return contents(issue("east", issuer=old, names=NAMES, begin=BEGIN), old)


REFUSED: dict[str, tuple[Callable[[], Data], str]] = {
    "no-certificate": (lambda: {"tls.key": GOOD["tls.key"]}, "Secret pulsar/edge has no key tls.crt"),
    "no-key": (lambda: {"tls.crt": GOOD["tls.crt"]}, "Secret pulsar/edge has no key tls.key"),
    "no-pem": (lambda: {**GOOD, "tls.crt": b"x"}, "Key tls.crt of Secret pulsar/edge is not a list of certificates"),
    "pkcs1": (
        lambda: {
            "tls.crt": issue("east", issuer=ROOT, names=NAMES, begin=BEGIN, key=RSA).crt,
            "tls.key": issue("x", key=RSA).key_pem(PrivateFormat.TraditionalOpenSSL),
        },
        "has format PKCS#1. Pulsar reads only PKCS#8 that begins with -----BEGIN PRIVATE KEY----- in the first line",
    ),
    "sec1": (lambda: {**GOOD, "tls.key": LEAF.key_pem(PrivateFormat.TraditionalOpenSSL)}, "has format SEC 1. Pulsar"),
    "byte-order-mark": (lambda: {**GOOD, "tls.crt": b"\xef\xbb\xbf" + GOOD["tls.crt"]}, "has a byte order mark or a"),
    "key-in-certificate": (
        lambda: {**GOOD, "tls.crt": GOOD["tls.crt"] + GOOD["tls.key"]},
        "mark or a private key, and",
    ),
    "endless-chain": (
        lambda: {**GOOD, "tls.crt": GOOD["tls.crt"] * 200},
        "tls.crt of Secret pulsar/edge has more than",
    ),
    "no-subject": (lambda: contents(issue("", issuer=ROOT, names=NAMES, begin=BEGIN)), "has an empty subject, and its"),
    "curve-of-bitcoin": (
        lambda: contents(
            issue("x", issuer=ROOT, names=NAMES, begin=BEGIN, key=ec.generate_private_key(ec.SECP256K1()))
        ),
        "has the elliptic curve secp256k1, with which Java cannot serve TLS",
    ),
    "line-of-another-kind": (
        lambda: {**GOOD, "tls.key": GOOD["tls.key"].replace(b"\n", b"\x0b", 2)},
        "is not a private",
    ),
    "text-before-key": (lambda: {**GOOD, "tls.key": b"Bag Attributes\n" + GOOD["tls.key"]}, "is not a private key in"),
    "space-in-key": (
        lambda: {**GOOD, "tls.key": GOOD["tls.key"].replace(b"\n", b" \n")},
        "is not a private key in PKCS#8 format",
    ),
    "broken-key": (
        lambda: {**GOOD, "tls.key": b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"},
        "The private key in key tls.key of Secret pulsar/edge cannot be read",
    ),
    "ed25519": (
        lambda: {**GOOD, "tls.key": _ed25519()},
        "is neither an RSA nor an elliptic-curve key",
    ),
    "another-key": (lambda: {**GOOD, "tls.key": OTHER.key_pem()}, "does not belong to the first certificate"),
    "no-names": (
        lambda: contents(issue("east", issuer=ROOT, begin=BEGIN), ROOT),
        "has no subject alternative name, and clients ignore its common name",
    ),
    "another-host": (
        lambda: contents(issue("east", issuer=ROOT, names=["a.example.com"], begin=BEGIN), ROOT),
        f"is not valid for {HOST}, which clients connect to. Add these names",
    ),
    "expired": (
        lambda: contents(issue("east", issuer=ROOT, names=NAMES, begin=BEGIN, end=NOW), ROOT),
        "Certificate 1 in key tls.crt of Secret pulsar/edge expired at 2026-11-28T12:00:00Z. Renew the certificate",
    ),
    "not-yet": (
        lambda: contents(issue("east", issuer=ROOT, names=NAMES, begin=NOW + DAY), ROOT),
        "is not valid before 2026-11-29T12:00:00Z. Wait until then",
    ),
    "client-only": (
        lambda: contents(
            issue("east", issuer=ROOT, names=NAMES, begin=BEGIN, usages=[ExtendedKeyUsageOID.CLIENT_AUTH]), ROOT
        ),
        "has an extended key usage without server authentication",
    ),
    "without-middle": (
        lambda: {**contents(BELOW, ROOT), "tls.crt": BELOW.pem},
        "The chain in key tls.crt of Secret pulsar/edge is incomplete: no certificate in key ca.crt issued",
    ),
    "chain-in-another-order": (
        lambda: {**contents(BELOW, ROOT), "tls.crt": BELOW.pem + ROOT.pem + MIDDLE.pem},
        "Certificate 1 in key tls.crt of Secret pulsar/edge was not issued by certificate 2",
    ),
    "another-authority": (lambda: {**GOOD, "ca.crt": OTHER.pem}, "no certificate in key ca.crt issued its last"),
    "authority-of-the-same-name": (
        lambda: {**GOOD, "ca.crt": authority(begin=BEGIN).pem},
        "no certificate in key ca.crt issued its last certificate",
    ),
    "authority-no-pem": (lambda: {**GOOD, "ca.crt": b"x"}, "Key ca.crt of Secret pulsar/edge is not a list"),
    "expired-authority": (_of_expired, "Certificate 1 in key ca.crt of Secret pulsar/edge expired at"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, expected = REFUSED[name]
    data = make()
    found = checked(data)
    assert found.problem is not None and expected in found.problem
    lines = data.get("tls.key", b"").decode().splitlines()[1:-1]
    secrets = [line for line in lines if line and not line.startswith("-----")]
    assert not any(line in found.problem for line in secrets), "a part of the private key"


def test_the_end_is_that_of_the_first_of_the_chain() -> None:
    middle = authority("Middle", issuer=ROOT, begin=BEGIN, end=NOW + 3 * DAY)
    found = checked(contents(issue("east", issuer=middle, names=NAMES, begin=BEGIN), ROOT))
    assert found.certificate is not None and found.certificate.not_after == NOW + 3 * DAY


def test_a_message_lists_some_hosts_and_counts_the_others() -> None:
    problem = checked(GOOD, *(f"b{n}.example.com" for n in range(5))).problem or ""
    assert "b0.example.com, b1.example.com, b2.example.com and 2 more hosts, which" in problem


@pytest.mark.parametrize(
    ("names", "host", "valid"),
    [
        (["a.example.com"], "A.example.com.", True),
        (["*.example.com"], "a.example.com", True),
        (["*.example.com"], "a.b.example.com", False),
        (["*.example.com"], "example.com", False),
        (["*"], "a", False),
        (["192.0.2.1"], "192.0.2.1", True),
        (["192.0.2.1"], "192.0.2.10", False),
        (["2001:db8::1"], "2001:DB8:0::1", True),
        (["*.0.2.1"], "192.0.2.1", False),
    ],
)
def test_names_of_hosts(names: list[str], host: str, valid: bool) -> None:
    assert covers(names, host) is valid


def test_a_secret_is_decoded_and_empty_keys_are_left_out() -> None:
    obj = secret("edge", "pulsar", {**GOOD, "ca.crt": b"\n", "other": b"x"})
    obj["data"]["tls.key"] = "no base64"
    assert decoded(obj) == {"tls.crt": GOOD["tls.crt"]}
    assert decoded({}) == {}


@given(
    st.dictionaries(st.sampled_from(["tls.crt", "tls.key", "ca.crt"]), st.binary(max_size=200)),
    st.sampled_from(["tls.crt", "tls.key", "ca.crt"]),
    st.integers(0, 400),
    st.binary(min_size=1, max_size=3),
)
def test_whatever_a_secret_contains_the_check_ends_with_a_message(data: Data, key: str, at: int, patch: bytes) -> None:
    assert checked(data).problem is not None
    broken = {**GOOD, key: GOOD[key][:at] + patch + GOOD[key][at + len(patch) :]}
    found = checked(broken)
    assert found.problem is None or found.problem.count("Secret pulsar/edge") >= 1
