"""N15, N16: two servers on one PostgreSQL, reached through a real proxy with the files of the guide."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import tarmac
from certificates import self_signed
from guides import page
from postgres import Missing, running_server
from processes import PATIENCE_S, client_of, home_at
from shell import command
from standin_provider import CLIENT, SECRET, standin_provider
from tarmac.model.actor import ActorRole
from tarmac.model.errors import Forbidden, TarmacError, Unauthorized
from tarmac.model.people.account import AccountSettings
from tarmac.server.accounts.authenticator import LOOK_AGAIN_S

pytestmark = [pytest.mark.postgres, pytest.mark.heavy, pytest.mark.timeout(600)]

NAME = "tarmac.example.org"
PASSWORD = "correct horse battery"
STICKY = re.compile(r"^ *(?:hash \$remote_addr.*;|balance source|hash-type consistent)$", re.MULTILINE)
"""The lines that keep a user at one server: without them requests alternate."""

COMMANDS = {
    "nginx.conf": ("nginx", "-g", "daemon off; pid {directory}/pid; error_log {directory}/log;", "-c"),
    "haproxy.cfg": ("haproxy", "-f"),
}


class Pair:
    """Two servers, a proxy in front of them, and clients from any address of this machine."""

    def __init__(self, directory: Path, port: int, owners: tuple[tarmac.Client, tarmac.Client]) -> None:
        self.directory, self.port = directory, port
        self.owners = owners

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def client(self, token: str) -> tarmac.Client:
        return tarmac.Client(self.url, token=token, authority=str(self.directory / "proxy.pem"))

    def ask(
        self, method: str, path: str, body: object = None, *, source: str = "127.0.0.1", **headers: str
    ) -> http.client.HTTPResponse:
        """A request for the name of the servers, from an address."""
        context = ssl.create_default_context(cafile=str(self.directory / "proxy.pem"))
        address = "127.0.0.1", self.port
        with (
            socket.create_connection(address, timeout=PATIENCE_S, source_address=(source, 0)) as opened,
            context.wrap_socket(opened, server_hostname=NAME) as shaken,
        ):
            connection = http.client.HTTPSConnection(NAME, self.port)
            connection.sock = shaken
            given = {"Content-Type": "application/json", **headers}
            connection.request(method, f"/api/v1{path}", json.dumps(body) if body else None, given)
            answer = connection.getresponse()
            answer.text = answer.read().decode()  # type: ignore[attr-defined]
            return answer

    def homes(self, client: tarmac.Client) -> set[str]:
        """The homes of the servers that answer some requests."""
        return {client.version().home for _ in range(8)}


@contextmanager
def proxied(
    directory: Path, postgres: str, file: str, *, sticky: bool = False, issuer: str = "", rate: int = 30_000
) -> Iterator[Pair]:
    """The servers and the proxy of the guide, with other addresses and places."""
    program = COMMANDS[file][0]
    if shutil.which(program) is None or os.geteuid() != 0:
        pytest.skip(f"{program} is not installed, or cannot use its directories: not root")
    with ExitStack() as stack:
        ports = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(3)
        ]
    self_signed(directory / "proxy.pem", names=["127.0.0.1", NAME])
    (directory / "secret").write_text(SECRET)
    places = {
        "/etc/tarmac/secrets.key": f"{directory}/secrets.key",
        "/etc/tarmac/servers.pem": f"{directory}/servers.pem",
        "/etc/tarmac/tarmac.example.org.pem": f"{directory}/proxy.pem",
        "/etc/tarmac/tarmac.example.org.key": f"{directory}/proxy.pem",
        "listen 443": f"listen 127.0.0.1:{ports[2]}",
        "bind :443": f"bind 127.0.0.1:{ports[2]}",
        "a.example.org:8400": f"127.0.0.1:{ports[0]}",
        "b.example.org:8400": f"127.0.0.1:{ports[1]}",
        "postgresql+psycopg://tarmac@db.example.org/tarmac?sslmode=verify-full": postgres,
    }

    def guide(name: str) -> str:
        (text,) = re.findall(rf"^```[a-z]+\n# {name}\n(.*?)^```$", page("operating/proxy.md"), re.M | re.S)
        for known, here in places.items():
            text = text.replace(known, here)
        return str(text)

    with ExitStack() as stack:
        owners = []
        for cluster, port in zip("ab", ports, strict=False):
            home = directory / cluster
            home.mkdir(mode=0o700)
            text = guide("a.toml").replace('"a"', f'"{cluster}"').replace("0.0.0.0:8400", f"127.0.0.1:{port}")
            text = text.replace("[secrets]", f"requests_per_minute = {rate}\n[secrets]")
            text += f'[[local]]\nslots = 2\nhostnames = ["{cluster}"]\n'
            if issuer:
                text += f'[sign_on]\nissuer = "{issuer}"\nclient_id = "{CLIENT}"\ncreate_accounts = true\n'
                text += f'client_secret_file = "{directory}/secret"\n'
            (home / "settings.toml").write_text(text)
            stack.enter_context(home_at(home))
            owners.append(stack.enter_context(client_of(home)))
            if cluster == "a":  # the second server finds both
                owners[0].set_user("ada")
                owners[0].set_user("bob", password=PASSWORD)
        (directory / "servers.pem").write_text(
            "".join((directory / cluster / "tls/ca.pem").read_text() for cluster in "ab")
        )
        config = directory / file
        config.write_text(guide(file) if sticky else STICKY.sub("", guide(file)))
        stack.enter_context(_running(directory, file))
        yield Pair(directory, ports[2], (owners[0], owners[1]))


@contextmanager
def _running(directory: Path, file: str) -> Iterator[None]:
    """The proxy, from when it listens until the block ends."""
    argv = [part.format(directory=directory) for part in COMMANDS[file]]
    with (directory / "output").open("wb") as output:
        process = subprocess.Popen([*argv, str(directory / file)], stdout=output, stderr=output)
    port = int(re.findall(r"(?:listen|bind) 127\.0\.0\.1:(\d+)", (directory / file).read_text())[0])
    try:
        while True:
            assert process.poll() is None, (directory / "output").read_text()
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                break
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def database() -> Iterator[Callable[[], str]]:
    try:
        with running_server() as server:
            yield server.create
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tarmac-proxy-", dir="/tmp") as directory:  # short, for sockets
        yield Path(directory)


@pytest.fixture(params=list(COMMANDS))
def file(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def last_answered(request: Callable[[], Any], kind: type[TarmacError]) -> float:
    """How many seconds after this call the last request began that was not refused; both servers answer."""
    since, last = time.monotonic(), 0.0
    while (began := time.monotonic()) < since + 2 * LOOK_AGAIN_S:
        with suppress(kind):
            request()
            last = began - since
    return last


def test_changes_of_accounts_at_one_server_count_at_the_other(
    place: Path, database: Callable[[], str], file: str
) -> None:
    """Tokens and bans with the next request, roles within a second; both servers answer in turn."""
    with proxied(place, database(), file) as pair, ExitStack() as stack:
        one, two = pair.owners
        made = two.add_token("t", user="bob")
        bob = stack.enter_context(closing(pair.client(made.text)))
        assert pair.homes(bob) == {str(place / "a"), str(place / "b")}
        one.revoke_token(made.token.id)
        for _ in range(8):
            with pytest.raises(Unauthorized, match="was revoked"):
                bob.version()

        again = stack.enter_context(closing(pair.client(one.add_token("t", user="bob").text)))
        while len(pair.homes(again)) < 2:
            pass
        two.set_user("bob", AccountSettings(role=ActorRole.VIEWER))
        assert last_answered(lambda: again.submit("command: 'true'"), Forbidden) <= LOOK_AGAIN_S
        for _ in range(8):
            with pytest.raises(Forbidden):
                again.submit("command: 'true'")
        one.set_user("bob", AccountSettings(role=ActorRole.ADMIN))
        one.set_user("bob", AccountSettings(disabled=True))
        for _ in range(8):
            with pytest.raises(Unauthorized):
                again.version()


def test_sessions_and_sign_on_work_at_both_servers(
    place: Path, database: Callable[[], str], file: str
) -> None:
    """A session begins at one server and ends at the other; the same with logins of an identity provider."""
    with (
        standin_provider(time.time) as provider,
        proxied(place, database(), file, issuer=provider.issuer) as pair,
    ):
        begun = pair.ask("POST", "/session", {"user": "bob", "password": PASSWORD})
        assert begun.status == 200
        cookie = str(begun.getheader("Set-Cookie")).partition(";")[0]
        origin = f"https://{NAME}:{pair.port}"
        assert {pair.ask("GET", "/account", Cookie=cookie).status for _ in range(8)} == {200}
        foreign = {"Origin": "https://evil.example.org", "Cookie": cookie}
        assert pair.ask("DELETE", "/session", **foreign).status == 403
        assert pair.ask("DELETE", "/session", Cookie=cookie, Origin=origin).status == 200
        assert {pair.ask("GET", "/account", Cookie=cookie).status for _ in range(8)} == {401}
        with closing(pair.client("")) as client:
            for browser in (True, False) * 2:
                provider.confirmed = True
                login = client.begin_sign_on("http://127.0.0.1:4711/callback", browser=browser)
                answer = provider.log_in(login.url) if browser else {}
                made = client.finish_sign_on(login.request, **answer).login
                assert made is not None
                with closing(pair.client(made.text)) as grace:
                    assert {grace.account().name for _ in range(4)} == {"grace"}


def test_rates_and_the_audit_log_have_the_addresses_of_clients(
    place: Path, database: Callable[[], str], file: str
) -> None:
    """One proxy is trusted: the last entry of its header counts, whatever a client adds before it."""
    with proxied(place, database(), file, rate=60) as pair:
        one, two = pair.owners
        token = one.add_token("t", user="ada").text
        login = {"Authorization": f"Bearer {token}", "X-Forwarded-For": "9.9.9.9"}
        for _ in range(4):
            body = {"user": "ada", "label": "from elsewhere", "lifetime_s": 60}
            assert pair.ask("POST", "/tokens", body, source="127.0.0.9", **login).status == 201
        entries = [entry for entry in two.audit(limit=1000) if entry.target == "/tokens" and entry.token]
        assert {entry.origin for entry in entries} == {"127.0.0.9"}
        counts = [pair.ask("GET", "/version", source="127.0.0.8", **login).status for _ in range(130)]
        assert 60 <= counts.index(429) <= 120
        assert counts[-1] == 429
        assert pair.ask("GET", "/version", source="127.0.0.7", **login).status == 200


def test_streams_pass_the_proxy(place: Path, database: Callable[[], str], file: str) -> None:
    """With the file of the guide as it is: code arrives, logs are followed, a session streams both ways."""
    with proxied(place, database(), file, sticky=True) as pair:
        token = pair.owners[0].add_token("t", user="ada").text
        with closing(pair.client(token)) as ada:
            assert len(pair.homes(ada)) == 1
            code = place / "code"
            code.mkdir()
            (code / "train.sh").write_text("echo begun\nread _ < gate\necho through\n")
            (code / "data").write_bytes(b"x" * (3 << 20))
            run = ada.submit(
                "name: train\nslots: 1\ncode: .\ncommand: mkfifo gate; sh train.sh\n", directory=code
            )
            lines = (message for message in ada.follow(run.id) if message.event == "log")
            assert "begun" in str(next(lines))
            with _session(pair, token) as session:
                assert session.stdin is not None
                assert session.stdout is not None
                for said in ("one\n", "two\n"):
                    session.stdin.write(said)
                    session.stdin.flush()
                    assert session.stdout.readline() == said
                session.stdin.close()
                assert session.wait(PATIENCE_S) == 0
            assert "through" in str(next(lines))
            assert ada.wait(run.id, timeout_s=PATIENCE_S).outcome == "completed"


def _session(pair: Pair, token: str) -> subprocess.Popen[str]:
    """A dialogue with a program beside the worker, which then lets the worker continue."""
    environment = {
        "TARMAC_URL": pair.url,
        "TARMAC_TOKEN": token,
        "TARMAC_CA": str(pair.directory / "proxy.pem"),
    }
    return subprocess.Popen(
        [*command("exec", "-i", "train"), "--", "sh", "-c", "cat; echo > gate"],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
