"""The admin adapter against real TLS servers: whom it trusts, who gets its token, what its errors say."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.api.hosts import is_host_of
from pulsar_operator.controllers.core.failures import reason_of
from pulsar_operator.ports import (
    AdminAccess,
    AdminEndpoint,
    AuthenticationError,
    AuthorizationError,
    PortError,
    RefusedError,
    UnavailableError,
)
from tests.support.core.recorder import CountingMetrics
from tests.support.secured.certificates import Authority
from tests.support.secured.server import serving

TOKEN = "canary-0aTOKENa0"
NEXT = "canary-1bTOKENb1"
NAMES = ("DNS:localhost", "IP:127.0.0.1")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom the clients trust."""
    return Authority.make(tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Another one."""
    return Authority.make(tmp_path_factory.mktemp("other"))


@pytest.fixture
async def admin() -> AsyncIterator[AiohttpAdmin]:
    """The adapter, closed at the end."""
    found = AiohttpAdmin(CountingMetrics(), deadline=20.0)
    yield found
    await found.close()


@pytest.fixture
def access(tmp_path: Path, authority: Authority) -> AdminAccess:
    """A token and an authority, for hosts called localhost."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    return AdminAccess(("localhost",), str(tmp_path / "token"), str(authority.certificate))


def rewrite(access: AdminAccess, token: str) -> None:
    """Another token in the file, as the kubelet writes it."""
    Path(str(access.token_file)).write_text(token)


async def asked(admin: AiohttpAdmin, url: str, access: AdminAccess | None, cluster: str = "a") -> Any:
    """One call."""
    return await admin.call(AdminEndpoint(cluster, url, access), "GET", ("clusters",))


async def test_a_call_and_a_stream_carry_the_token_over_tls(
    admin: AiohttpAdmin, access: AdminAccess, authority: Authority
) -> None:
    async with serving(authority.server(*NAMES), accepted=TOKEN) as server:
        assert await asked(admin, server.url(), access) == ["a"]
        pieces: list[bytes] = []
        await admin.stream(AdminEndpoint("a", server.url(), access), ("clusters",), pieces.append)
        assert b"".join(pieces) == b'["a"]'
    assert server.tokens == [f"Bearer {TOKEN}"] * 2


async def test_a_certificate_of_another_authority_is_refused(
    admin: AiohttpAdmin, access: AdminAccess, stranger: Authority
) -> None:
    async with serving(stranger.server(*NAMES)) as server:
        for given in (access, replace(access, ca_file=None), None):
            with pytest.raises(UnavailableError, match=r"certificate of localhost:\d+ in cluster a was refused: "):
                await asked(admin, server.url(), given)
    assert server.seen == []


async def test_a_certificate_of_another_host_is_refused(
    admin: AiohttpAdmin, access: AdminAccess, authority: Authority
) -> None:
    async with serving(authority.server("DNS:other.example")) as server:
        with pytest.raises(UnavailableError, match="was refused: Hostname mismatch"):
            await asked(admin, server.url(), access)
    assert server.seen == []


async def test_a_rotated_token_is_read_without_a_restart(
    admin: AiohttpAdmin, access: AdminAccess, authority: Authority
) -> None:
    async with serving(authority.server(*NAMES), accepted=TOKEN) as server:
        await asked(admin, server.url(), access)
        server.accepted = NEXT
        with pytest.raises(AuthenticationError):
            await asked(admin, server.url(), access)
        rewrite(access, NEXT)
        assert await asked(admin, server.url(), access) == ["a"]


async def test_a_rotated_authority_is_read_without_a_restart(
    admin: AiohttpAdmin, access: AdminAccess, authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    """As the kubelet changes files: another one is put in their place."""
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes(authority.certificate.read_bytes())
    given = replace(access, ca_file=str(bundle))
    async with serving(authority.server(*NAMES)) as old, serving(stranger.server(*NAMES)) as new:
        await asked(admin, old.url(), given)
        (tmp_path / "next").write_bytes(stranger.certificate.read_bytes())
        os.replace(tmp_path / "next", bundle)  # noqa: PTH105 - as the kubelet does
        assert await asked(admin, new.url(), given) == ["a"]
        with pytest.raises(UnavailableError, match="certificate"):
            await asked(admin, old.url(), given)


@pytest.mark.parametrize("content", [b"", b"no certificate", b"\xff"])
async def test_a_bundle_without_certificates_says_which(
    admin: AiohttpAdmin, access: AdminAccess, authority: Authority, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "ca.crt").write_bytes(content)
    given = replace(access, ca_file=str(tmp_path / "ca.crt"))
    async with serving(authority.server(*NAMES)) as server:
        with pytest.raises(UnavailableError, match=r"CA file .*ca\.crt contains no certificates"):
            await asked(admin, server.url(), given)
        with pytest.raises(UnavailableError, match="CA file /nowhere cannot be read: No such file"):
            await asked(admin, server.url(), replace(access, ca_file="/nowhere"))
    assert server.seen == []


@pytest.mark.parametrize("content", ["", "two words", f"{TOKEN}\nX-Forged: yes", "\u00e9"])
async def test_a_file_without_a_token_sends_nothing(
    admin: AiohttpAdmin, access: AdminAccess, authority: Authority, content: str
) -> None:
    rewrite(access, content)
    async with serving(authority.server(*NAMES)) as server:
        with pytest.raises(UnavailableError, match="does not contain a token") as caught:
            await asked(admin, server.url(), access)
    assert server.seen == [] and TOKEN not in str(caught.value)


async def test_a_redirect_to_a_broker_of_the_cluster_carries_the_token(
    admin: AiohttpAdmin, access: AdminAccess, authority: Authority
) -> None:
    given = replace(access, hosts=("localhost", ".0.0.1"))
    async with serving(authority.server(*NAMES), accepted=TOKEN) as owner:
        first = {"accepted": TOKEN, "redirect": lambda request: owner.url("127.0.0.1")}
        async with serving(authority.server(*NAMES), **first) as server:
            assert await asked(admin, server.url(), given) == ["a"]
    assert owner.tokens == [f"Bearer {TOKEN}"]


async def test_a_redirect_to_another_host_is_refused_and_that_host_hears_nothing(
    admin: AiohttpAdmin, access: AdminAccess, authority: Authority
) -> None:
    context = authority.server(*NAMES)
    async with (
        serving(context) as foreign,
        serving(context, redirect=lambda request: foreign.url("127.0.0.1")) as server,
    ):
        with pytest.raises(
            UnavailableError,
            match=r"no request was sent to 127\.0\.0\.1:\d+, because the request would carry a token and",
        ):
            await asked(admin, server.url(), access)
    assert foreign.seen == [] and len(server.seen) == 1


async def test_a_redirect_away_from_tls_is_refused(
    admin: AiohttpAdmin, access: AdminAccess, authority: Authority
) -> None:
    context = authority.server(*NAMES)
    async with (
        serving(None) as plain,
        serving(context, redirect=lambda request: plain.url(scheme="http")) as server,
    ):
        with pytest.raises(UnavailableError, match="without TLS"):
            await asked(admin, server.url(), access)
    assert plain.seen == []


async def test_a_broker_that_is_no_host_of_the_cluster_hears_nothing(admin: AiohttpAdmin, access: AdminAccess) -> None:
    """Addresses of brokers come from a list that others can write to."""
    async with serving(None) as server:
        with pytest.raises(UnavailableError, match="is not among the hosts of cluster"):
            await asked(admin, server.url("127.0.0.1", "http"), access)
    assert server.seen == []


async def test_without_an_access_redirects_go_anywhere_and_carry_nothing(admin: AiohttpAdmin) -> None:
    async with serving(None) as owner, serving(None, redirect=lambda request: owner.url("127.0.0.1", "http")) as server:
        assert await asked(admin, server.url(scheme="http"), None) == ["a"]
    assert server.tokens == owner.tokens == [None]


async def test_each_cluster_gets_its_own_token(admin: AiohttpAdmin, access: AdminAccess, tmp_path: Path) -> None:
    (tmp_path / "other").write_text(NEXT)
    other = replace(access, token_file=str(tmp_path / "other"))
    async with serving(None) as a, serving(None) as b:
        for _ in range(2):
            await asked(admin, a.url(scheme="http"), access, "a")
            await asked(admin, b.url(scheme="http"), other, "b")
            await asked(admin, a.url(scheme="http"), None, "c")
    assert a.tokens == [f"Bearer {TOKEN}", None] * 2 and b.tokens == [f"Bearer {NEXT}"] * 2
    assert len(admin._sessions) == 3


async def test_a_refused_token_says_state_cause_and_remedy(admin: AiohttpAdmin, access: AdminAccess) -> None:
    async with serving(None, accepted=NEXT) as server:
        with pytest.raises(AuthenticationError) as refused:
            await asked(admin, server.url(scheme="http"), access)
        with pytest.raises(AuthenticationError) as absent:
            await asked(admin, server.url(scheme="http"), None)
    assert isinstance(refused.value, RefusedError) and refused.value.status == 401
    text = str(refused.value)
    for part in (
        f"The brokers refused the token in {access.token_file}",
        "has expired",
        "Replace the token",
        "HTTP 401",
    ):
        assert part in text
    assert "none was sent" in str(absent.value)
    assert reason_of(refused.value)[0].value == "AuthenticationFailed"


async def test_a_role_without_rights_is_told_apart(admin: AiohttpAdmin, access: AdminAccess) -> None:
    async with serving(None, accepted=TOKEN) as server:
        server.reason = "Unauthorized to validateTenantOperation for originalPrincipal [null]"
        with pytest.raises(AuthorizationError, match=r"superUserRoles.*HTTP 403: Unauthorized to ") as caught:
            await asked(admin, server.url(scheme="http"), access)
        assert reason_of(caught.value)[0].value == "AuthorizationFailed"
        server.reason = "Cluster [b] is not in the list of allowed clusters list for tenant [t]"
        with pytest.raises(RefusedError) as content:
            await asked(admin, server.url(scheme="http"), access)
    assert type(content.value) is RefusedError, "this is about what was asked for"


async def test_no_token_is_in_a_log_an_error_or_a_representation(
    admin: AiohttpAdmin, access: AdminAccess, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """A canary, also where a server repeats it."""
    caplog.set_level(logging.DEBUG)
    told: list[str] = []
    async with serving(authority.server(*NAMES), accepted=NEXT) as server, serving(None, accepted=TOKEN) as plain:
        plain.reason = f"Unauthorized to do this with Bearer {TOKEN}"
        foreign = replace(access, hosts=("elsewhere",))
        strange = replace(access, ca_file=str(authority.folder / "ca.key"))
        unused = f"http://localhost:{_free_port()}"
        for url, given in (
            *((server.url(), each) for each in (access, foreign, strange, replace(access, ca_file=None))),
            (plain.url(scheme="http"), access),
        ):
            with pytest.raises(PortError) as caught:
                await asked(admin, url, given)
            told.append(_whole(caught.value))
        with pytest.raises(PortError) as caught:
            await admin.call(AdminEndpoint("a", unused, access), "POST", ("clusters",), deadline=0.5)
        told += [_whole(caught.value), repr(access), repr(AdminEndpoint("a", unused, access)), repr(admin.__dict__)]
    assert "canary" not in "\n".join([*told, caplog.text])
    assert any(f"Bearer {NEXT[:4]}" in str(carried) or TOKEN in str(carried) for carried in server.tokens), (
        "it was sent"
    )


def _whole(error: BaseException) -> str:
    """The error with all that it was raised from."""
    causes, current = list[str](), error
    while current is not None:
        causes += [repr(current), str(current), repr(current.__dict__)]
        current = current.__cause__ or current.__context__  # type: ignore[assignment]
    return "\n".join(causes)


def _free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize(
    ("host", "hosts", "is_host"),
    [
        ("a.ns.svc.cluster.local", ("a.ns.svc.cluster.local",), True),
        ("A.ns.svc.cluster.local.", ("a.ns.svc.cluster.local",), True),
        ("b-0.b.ns.svc.cluster.local", (".b.ns.svc.cluster.local",), True),
        ("b.ns.svc.cluster.local", (".b.ns.svc.cluster.local",), False),
        ("evil-b.ns.svc.cluster.local", (".b.ns.svc.cluster.local",), False),
        ("a.ns.svc.cluster.local.evil.example", ("a.ns.svc.cluster.local", ".cluster.local"), False),
        ("", ("a",), False),
        ("a", (), False),
    ],
)
def test_hosts_of_a_cluster(host: str, hosts: tuple[str, ...], is_host: bool) -> None:
    assert is_host_of(host, hosts) is is_host
