"""N15: a server behind https is reached once it has proved its identity, and the error says why it is not."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from certificates import self_signed
from tarmac.client import Client
from tarmac.client.tls import guarded
from tarmac.client.transport import Transport, tcp_address
from tarmac.model.errors import InvalidInput, TarmacError, Unavailable


class _Hello(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = f"{self.path} for {self.headers['Authorization']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Servers:
    """Servers that answer hello, each with its own certificate."""

    def __init__(self, closing: ExitStack) -> None:
        self._closing = closing

    def start(self, certificate: Path | None) -> int:
        """The port of a new server, with TLS if there is a certificate."""
        server = self._closing.enter_context(HTTPServer(("127.0.0.1", 0), _Hello))
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self._closing.callback(thread.join)
        self._closing.callback(server.shutdown)
        return server.server_port


@pytest.fixture
def servers() -> Iterator[_Servers]:
    with ExitStack() as closing:
        yield _Servers(closing)


def _refusal(url: str, authority: Path | None) -> TarmacError:
    transport = Transport(tcp_address(url, token="t", authority=str(authority) if authority else None))
    with pytest.raises(TarmacError) as refused:
        transport.request("GET", "/runs")
    return refused.value


def test_a_server_of_the_named_authority_is_asked(servers: _Servers, tmp_path: Path) -> None:
    certificate = self_signed(tmp_path / "server.pem")
    address = tcp_address(
        f"https://localhost:{servers.start(certificate)}", token="t", authority=str(certificate)
    )
    transport = Transport(address)
    assert transport.request("GET", "/runs").body == b"/api/v1/runs for Bearer t"
    transport.close()


def test_the_variable_names_the_authority(
    servers: _Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path / "server.pem")
    url = f"https://localhost:{servers.start(certificate)}"
    for authority, known in ((certificate, True), (self_signed(tmp_path / "other.pem"), False)):
        monkeypatch.setenv("TARMAC_CA", str(authority))
        with Client(url, token="t") as client, pytest.raises(TarmacError) as refused:
            client.version()  # the answer of this server is not that of an API
        assert ("certificate" not in str(refused.value)) is known


def test_an_unknown_authority_is_refused_and_the_hint_names_the_variable(
    servers: _Servers, tmp_path: Path
) -> None:
    url = f"https://localhost:{servers.start(self_signed(tmp_path / 'server.pem'))}"
    for authority in (None, self_signed(tmp_path / "other.pem")):
        refused = _refusal(url, authority)
        assert isinstance(refused, Unavailable)
        assert "is not trusted" in refused.message
        assert "self-signed certificate" in refused.message or "issuer" in refused.message
        assert "set TARMAC_CA" in (refused.hint or "")
        assert "tarmac server ca" in (refused.hint or "")
        assert (str(authority) in (refused.hint or "")) is (authority is not None)


def test_a_certificate_for_another_name_is_refused(servers: _Servers, tmp_path: Path) -> None:
    certificate = self_signed(tmp_path / "server.pem", names=["lab.example.org", "10.0.0.1"])
    port = servers.start(certificate)
    for host, reason in (("localhost", "Hostname mismatch"), ("127.0.0.1", "IP address mismatch")):
        refused = _refusal(f"https://{host}:{port}", certificate)
        assert reason in refused.message
        assert "for other names" in (refused.hint or "")


def test_an_expired_certificate_is_refused(servers: _Servers, tmp_path: Path) -> None:
    certificate = self_signed(tmp_path / "server.pem", days=-1)
    refused = _refusal(f"https://localhost:{servers.start(certificate)}", certificate)
    assert "certificate has expired" in refused.message
    assert "the administrator of the server renews it" in (refused.hint or "")


def test_a_file_of_authorities_that_cannot_be_used_is_named(servers: _Servers, tmp_path: Path) -> None:
    url = f"https://localhost:{servers.start(self_signed(tmp_path / 'server.pem'))}"
    (tmp_path / "text.pem").write_text("no certificate\n")
    for name, reason in (("missing.pem", "No such file"), ("text.pem", "no certificate in PEM form")):
        refused = _refusal(url, tmp_path / name)
        assert isinstance(refused, InvalidInput)
        assert str(refused).startswith(f"TARMAC_CA: {tmp_path / name} cannot be used: ")
        assert reason in str(refused)


def test_a_url_of_the_wrong_kind_is_explained(servers: _Servers, tmp_path: Path) -> None:
    plain, encrypted = servers.start(None), servers.start(self_signed(tmp_path / "server.pem"))
    assert "does not use TLS" in str(_refusal(f"https://localhost:{plain}", None))
    assert "https://" in str(_refusal(f"http://localhost:{encrypted}", None))


def test_a_connection_is_read_and_written_at_once(tmp_path: Path) -> None:
    """As sessions do: the server returns what one thread sends, and another thread reads it."""
    certificate = self_signed(tmp_path / "server.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    piece, pieces = bytes(range(256)) * 256, 200
    with socket.create_server(("127.0.0.1", 0)) as listener:
        echo = threading.Thread(target=_echo, args=(listener, context))
        echo.start()
        near = guarded(socket.create_connection(listener.getsockname()), "localhost", str(certificate))
        near.settimeout(60)

        def send() -> None:
            for _ in range(pieces):
                near.sendall(piece)

        sender = threading.Thread(target=send)
        sender.start()
        with near, near.makefile("rb") as incoming:
            for _ in range(pieces):
                assert incoming.read(len(piece)) == piece
        sender.join()
        echo.join()


def _echo(listener: socket.socket, context: ssl.SSLContext) -> None:
    """Return every byte of one connection; a queue between, so that reading never waits for writing."""
    import asyncio

    async def serve() -> None:
        ended = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
            writer.close()
            ended.set()

        async with await asyncio.start_server(answer, sock=listener, ssl=context):
            await ended.wait()

    asyncio.run(serve())
