"""The suite's own credentials: files that change, certificates, and where a token is sent."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pulsar_conformance.admin import Admin, AdminError
from pulsar_conformance.counting.__main__ import arguments
from pulsar_conformance.credentials import Access, Token
from pulsar_conformance.tamper import Tamper
from tests.support.secured.certificates import Authority

SECRET = "canary-TOKEN-1"
NAMES = ("DNS:localhost", "IP:127.0.0.1")


class Server(ThreadingHTTPServer):
    """Remembers the Authorization of each request, and may send requests elsewhere."""

    def __init__(self, context: ssl.SSLContext | None = None, target: str = "") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.target, self.seen = target, list[str | None]()
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.scheme = "http" if context is None else "https"

    def url(self, host: str = "localhost") -> str:
        """Its address by one of its names."""
        return f"{self.scheme}://{host}:{self.server_address[1]}"

    def handle_error(self, *_args: object) -> None:
        """A client that refuses the certificate is no news."""


class Handler(BaseHTTPRequestHandler):
    """One answer."""

    server: Server

    def answer(self) -> None:
        """Whatever the method."""
        self.server.seen.append(self.headers.get("Authorization"))
        self.send_response(307 if self.server.target else 200)
        if self.server.target:
            self.send_header("Location", f"{self.server.target}{self.path}")
        self.send_header("X-Pulsar-Num-Batch-Message", "3")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_PUT = answer  # noqa: N815 - http.server's names

    def log_message(self, *_args: object) -> None:
        """Nothing on the tests' own output."""


@contextmanager
def serving(context: ssl.SSLContext | None = None, target: str = "") -> Iterator[Server]:
    """One that runs."""
    with Server(context, target) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom the suite trusts."""
    return Authority.make(tmp_path_factory.mktemp("one"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """With a token."""
    found = tmp_path / "token"
    found.write_text(f"{SECRET}\n")
    return found


def admin(url: str, access: Access) -> Admin:
    """Admin REST there."""
    return Admin(url, Tamper(), access, timeout=20)


def test_a_token_file_is_read_at_each_call(file: Path) -> None:
    with serving() as server:
        asks = admin(server.url(), Access(Token(file=file)))
        asks.get("clusters")
        file.write_text("next")
        asks.put("tenants/t", {})
        assert asks.headers("x")["x-pulsar-num-batch-message"] == "3"
    assert server.seen == [f"Bearer {SECRET}", "Bearer next", "Bearer next"]


def test_a_client_keeps_the_last_token_while_its_file_cannot_be_read(file: Path) -> None:
    supply = Token(file=file).supplier()
    assert supply() == SECRET
    file.write_text("next")
    assert supply() == "next"
    for content in ("", "two words", "\u00e9"):
        file.write_text(content)
        assert supply() == "next"
    file.unlink()
    assert supply() == "next"
    with pytest.raises(OSError, match="No such file"):
        Token(file=file).supplier()


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_token_goes_to_no_other_host(file: Path, method: str) -> None:
    with serving() as foreign, serving(target=foreign.url("127.0.0.1")) as server:
        with pytest.raises(AdminError, match=r"a redirect to 127\.0\.0\.1, .*: --token-host 127\.0\.0\.1"):
            admin(server.url(), Access(Token(file=file))).call(method, "clusters")
        assert foreign.seen == []
        for hosts in (("127.0.0.1",), (".0.0.1",)):
            admin(server.url(), Access(Token(file=file), hosts=hosts)).call(method, "clusters")
        assert foreign.seen == [f"Bearer {SECRET}"] * 2
        admin(server.url(), Access()).call(method, "clusters")
        assert foreign.seen[-1] is None, "without a token it goes anywhere"


def test_a_token_does_not_leave_tls(file: Path, authority: Authority) -> None:
    access = Access(Token(file=file), authority.certificate)
    with (
        serving() as plain,
        serving(authority.server(*NAMES), plain.url()) as server,
        pytest.raises(AdminError, match="without TLS"),
    ):
        admin(server.url(), access).get("clusters")
    assert plain.seen == []


def test_certificates_and_host_names_are_verified(
    file: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stranger = Authority.make(tmp_path_factory.mktemp("other"))
    access = Access(Token(file=file), authority.certificate)
    with serving(authority.server(*NAMES)) as good:
        admin(good.url(), access).get("clusters")
        for other in (Access(Token(file=file), stranger.certificate), Access(Token(file=file))):
            with pytest.raises(OSError, match="certificate verify failed"):
                admin(good.url(), other).get("clusters")
    with serving(authority.server("DNS:elsewhere")) as wrong, pytest.raises(OSError, match="Hostname mismatch"):
        admin(wrong.url(), access).get("clusters")
    assert good.seen == [f"Bearer {SECRET}"] and wrong.seen == []
    assert access.context().check_hostname
    options = access.client_options()
    assert options["tls_validate_hostname"] and options["tls_trust_certs_file_path"] == str(authority.certificate)


def test_what_is_told_has_no_token(file: Path) -> None:
    told = [repr(Access(Token(SECRET))), repr(Access(Token(file=file))), repr(admin("http://a", Access(Token(SECRET))))]
    for content in (f"{SECRET} {SECRET}", f"{SECRET}\u00e9"):
        file.write_text(content)
        with pytest.raises(ValueError, match="holds no token") as caught:
            Token(file=file)()
        told += [str(caught.value), repr(caught.value.__cause__)]
    assert "canary" not in "".join(told)


def test_the_counting_client_takes_a_ca_file_by_either_name() -> None:
    for name in ("--ca-file", "--trust-certs"):
        assert arguments(["--service-url", "pulsar+ssl://a", "--topic", "t", name, "/ca.crt"]).ca_file == "/ca.crt"
