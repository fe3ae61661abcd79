"""N15: what a server answers over TCP: to which host, from which site, how often; and all of it over TLS."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import tarmac
from certificates import self_signed
from processes import PATIENCE_S
from served import HELLO, TOKEN, USUAL, Served, served
from tarmac.model.errors import TooLarge, TooManyRequests
from tarmac.model.home import Home
from tarmac.server.http.connections import LARGEST_BODY_BYTES, LARGEST_HEAD_BYTES, SILENCE_S, Limits
from tarmac.server.http.tls import Tls
from tarmac.server.settings import AddressSettings

LOGIN = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
STOP = "/api/v1/server/stop"


class Encrypted:
    """A served control plane with a listener of TLS, and the authority that its clients trust."""

    def __init__(self, plane: Served, certificate: Path) -> None:
        self.plane = plane
        self.certificate = certificate
        self.context = ssl.create_default_context(cafile=str(certificate))

    @contextlib.contextmanager
    def connected(self, source: str = "127.0.0.1") -> Iterator[socket.socket]:
        """A connection before its handshake."""
        address = "127.0.0.1", self.plane.tls_port
        with socket.create_connection(address, timeout=PATIENCE_S, source_address=(source, 0)) as opened:
            yield opened

    @contextlib.contextmanager
    def shaken(self, source: str = "127.0.0.1") -> Iterator[ssl.SSLSocket]:
        """A connection after its handshake."""
        with (
            self.connected(source) as opened,
            self.context.wrap_socket(opened, server_hostname="127.0.0.1") as made,
        ):
            yield made

    def client(self, monkeypatch: pytest.MonkeyPatch) -> tarmac.Client:
        """The real client."""
        monkeypatch.setenv("TARMAC_CA", str(self.certificate))
        made = tarmac.Client(f"https://127.0.0.1:{self.plane.tls_port}", token=TOKEN)
        self.plane.closing.callback(made.close)
        return made


@contextlib.contextmanager
def encrypted(directory: Path, limits: Limits = USUAL, silence_s: float = SILENCE_S) -> Iterator[Encrypted]:
    """Serve with TLS."""
    certificate = self_signed(directory / "server.pem", names=["127.0.0.1"])
    given = AddressSettings(tls_certificate=str(certificate), tls_key=str(certificate))
    context = Tls(given, Home(directory / "home")).context
    with served(directory / "home", limits=limits, silence_s=silence_s, tls=context) as plane:
        yield Encrypted(plane, certificate)


def _ask(
    port: int, method: str, path: str, headers: Mapping[str, str], body: str | None = None
) -> tuple[int, dict[str, str]]:
    """The status of an answer, and its error."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request(method, path, body=body, headers=dict(headers))
    response = connection.getresponse()
    content = response.read()
    connection.close()
    with contextlib.suppress(ValueError):
        return response.status, json.loads(content).get("error", {})
    return response.status, {}


def _all(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    found = b""
    with contextlib.suppress(OSError):
        while piece := connection.recv(65536):
            found += piece
    return found


# --- Host


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8400", "localhost:1", "LOCALHOST", "[::1]:8400", "lab.example.org:443"]
)
def test_requests_for_names_of_this_server_are_answered(host: str, tmp_path: Path) -> None:
    names = AddressSettings(tls_names=("lab.example.org",))
    with served(tmp_path / "home", settings=names) as plane:
        assert _ask(plane.tcp_port, "GET", "/api/v1/runs", {**LOGIN, "Host": host}) == (200, {})


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example:80", "user@127.0.0.1", ""],
)
@pytest.mark.parametrize("path", ["/api/v1/runs", "/healthz", "/api/v1/runs/x/logs"])
def test_a_name_that_leads_here_is_no_way_in(plane: Served, host: str, path: str) -> None:
    """DNS rebinding: a page whose name leads to this address; streams and the gateway included."""
    for port in (plane.tcp_port, plane.gateway_port):
        status, error = _ask(port, "GET", path, {**LOGIN, "Host": host, "Accept": "text/event-stream"})
        assert (status, error["code"]) == (421, "misdirected")
        assert "is not a name of this server" in error["message"]
        assert "host_names" in error["hint"]


def test_a_request_names_one_host(plane: Served) -> None:
    for lines in (b"", b"Host: 127.0.0.1\r\nHost: evil.example\r\n"):
        with socket.create_connection(("127.0.0.1", plane.tcp_port), timeout=PATIENCE_S) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + lines + b"\r\n")
            assert _all(connection).startswith(b"HTTP/1.1 421 ")


def test_the_socket_of_the_home_has_no_host(plane: Served) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(plane.home.socket))
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: tarmac\r\nConnection: close\r\n\r\n")
        assert _all(connection).startswith(b"HTTP/1.1 200 ")


# --- cross-site requests


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://["},
        {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"},
    ],
    ids=str,
)
def test_a_page_of_another_site_changes_nothing(plane: Served, headers: dict[str, str]) -> None:
    """CSRF: the browser would send the session or the token of the user with it."""
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        status, error = _ask(plane.tcp_port, method, STOP, {**LOGIN, **headers}, "{}")
        assert (status, error["code"]) == (403, "forbidden")
        assert "a page of another site" in error["message"]
    assert not plane.stops.is_set()
    assert _ask(plane.tcp_port, "GET", "/api/v1/runs", {**LOGIN, **headers}) == (200, {})


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_own_pages_and_programs_change_things(tmp_path: Path, site: str) -> None:
    with served(tmp_path / "home", settings=AddressSettings(host_names=("lab.example.org",))) as plane:
        own = f"http://127.0.0.1:{plane.tcp_port}"
        for origin in (own, "https://lab.example.org"):  # a proxy in front may change the Host
            body = json.dumps({"source": HELLO, "idempotency_key": origin})
            headers = {**LOGIN, "Origin": origin, "Sec-Fetch-Site": site}
            assert _ask(plane.tcp_port, "POST", "/api/v1/runs", headers, body)[0] in (200, 201)


# --- rates and proxies


def test_an_address_sends_its_share_of_requests_and_the_home_any_number(tmp_path: Path) -> None:
    with served(tmp_path / "home", settings=AddressSettings(requests_per_minute=5)) as plane:
        for _ in range(5):
            _ask(plane.tcp_port, "GET", "/healthz", {})
        with pytest.raises(TooManyRequests, match=r"127\.0\.0\.1: 5 requests in a minute") as refused:
            plane.remote_client(TOKEN).runs()
        assert "try again in" in (refused.value.hint or "")
        connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port, timeout=PATIENCE_S)
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert answer.status == 429
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
        connection.close()
        for _ in range(10):
            assert plane.client().runs().runs == []


def test_behind_a_trusted_proxy_each_client_has_its_own_share(tmp_path: Path) -> None:
    rules = AddressSettings(requests_per_minute=2, trusted_proxies=1)
    with served(tmp_path / "home", settings=rules) as plane:
        found = [
            _ask(plane.tcp_port, "GET", "/api/v1/runs", {**LOGIN, "X-Forwarded-For": f"{claim}, {client}"})[0]
            for client in ("192.0.2.1", "192.0.2.2")
            for claim in ("6.6.6.6", "7.7.7.7", "8.8.8.8")
        ]
    assert found == [200, 200, 429, 200, 200, 429]


# --- TLS


def test_the_client_works_over_tls_and_the_other_sockets_stay_plain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with encrypted(tmp_path) as server:
        client = server.client(monkeypatch)
        run = client.submit(HELLO)
        for other in (server.plane.client(), server.plane.remote_client(TOKEN)):
            assert [found.id for found in other.runs().runs] == [run.id]
        with pytest.raises(TooLarge):
            client.submit(HELLO + "#" * LARGEST_BODY_BYTES)
        assert client.run(run.id).name == "hello"


def test_old_versions_of_tls_are_refused_and_plain_requests_closed(tmp_path: Path) -> None:
    with encrypted(tmp_path) as server:
        old = ssl.create_default_context(cafile=str(server.certificate))
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with server.connected() as opened, pytest.raises(OSError, match=r"(?i)protocol|version|alert|reset"):
            old.wrap_socket(opened, server_hostname="127.0.0.1")
        with server.connected() as opened:
            opened.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert not _all(opened).startswith(b"HTTP")


def test_a_slow_handshake_head_and_body_end_over_tls(tmp_path: Path) -> None:
    """A slow-loris peer: whatever it leaves unfinished, the server closes."""
    with encrypted(tmp_path, Limits(head_s=0.3), silence_s=0.3) as server:
        for begun in (b"", b"\x16\x03\x01"):
            with server.connected() as opened:
                opened.sendall(begun)
                assert _all(opened) == b""
        for begun in (b"", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "):
            with server.shaken() as shaken:
                shaken.sendall(begun)
                assert _all(shaken) == b""
        head = f"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        with server.shaken() as shaken:
            shaken.sendall(f"{head}Content-Length: 100\r\nConnection: close\r\n\r\n{{".encode())
            assert _all(shaken).startswith(b"HTTP/1.1 503 ")


def test_an_oversized_head_is_refused_over_tls(tmp_path: Path) -> None:
    with encrypted(tmp_path) as server, server.shaken() as shaken:
        with contextlib.suppress(OSError):
            shaken.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Large: ")
            for _ in range(LARGEST_HEAD_BYTES // 4096 + 2):
                shaken.sendall(b"a" * 4096)
        assert _all(shaken)[:13] in (b"HTTP/1.1 400 ", b"")


def test_a_body_that_drips_is_given_up_although_it_never_pauses(tmp_path: Path) -> None:
    """Pauses are shorter than allowed; the whole body is slower than allowed."""
    head = f"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    with served(tmp_path / "home", silence_s=0.4) as plane, _impatient(plane.tcp_port) as connection:
        connection.sendall(f"{head}Content-Length: 100000\r\nConnection: close\r\n\r\n".encode())
        assert b"HTTP/1.1 503 " in _dripping(connection)


def test_a_refused_body_is_not_read_forever(tmp_path: Path) -> None:
    """Without a token the answer comes at once; the rest of the body has as long as a head."""
    head = b"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 90000\r\n\r\n"
    limits = Limits(head_s=0.4)
    with served(tmp_path / "home", limits=limits) as plane, _impatient(plane.tcp_port) as connection:
        connection.sendall(head)
        assert _dripping(connection).startswith(b"HTTP/1.1 401 ")


def _impatient(port: int) -> socket.socket:
    """A connection that waits 50 ms for an answer."""
    return socket.create_connection(("127.0.0.1", port), timeout=0.05)


def _dripping(connection: socket.socket) -> bytes:
    """What a server answers that gets a byte every 50 ms, until it closes."""
    found = b""
    with contextlib.suppress(ConnectionError):
        for _ in range(int(PATIENCE_S / 0.05)):
            connection.sendall(b" ")
            with contextlib.suppress(TimeoutError):
                piece = connection.recv(65536)
                if not piece:
                    return found
                found += piece
        raise AssertionError("the server reads on")
    return found


@pytest.mark.parametrize("shake", [False, True], ids=["before the handshake", "after it"])
def test_a_thousand_connections_of_one_peer_leave_room_for_others(tmp_path: Path, shake: bool) -> None:
    with encrypted(tmp_path, Limits(tcp=64)) as server, contextlib.ExitStack() as stack:
        for number in range(1000):
            opened = stack.enter_context(server.connected())
            if shake and number % 10 == 0:
                with contextlib.suppress(OSError):
                    stack.enter_context(server.context.wrap_socket(opened, server_hostname="127.0.0.1"))
        with server.shaken(source="127.0.0.2") as other:
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert b"HTTP/1.1 200 " in _all(other)
        assert server.plane.client().runs().runs == []


def test_peers_that_reset_their_connections_leave_nothing_behind(tmp_path: Path) -> None:
    with encrypted(tmp_path, Limits(tcp=8)) as server:
        for begun in (b"", b"\x16\x03\x01\x02\x00", b"no TLS") * 20:
            with server.connected() as opened:
                opened.sendall(begun)
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.ExitStack() as stack:
            every = [stack.enter_context(server.shaken()) for _ in range(4)]
            for each in every:
                each.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                assert b"HTTP/1.1 200 " in _all(each)
