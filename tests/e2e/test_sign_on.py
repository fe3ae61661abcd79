"""Single sign-on with real identity providers, npm's oidc-provider and PyPI's canaille (`make sign-on`)."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qsl, urlsplit

import pytest

from identity_providers import CLIENT, SECRET, Browser, canaille, real_provider
from tarmac.client import Client
from tarmac.model.actor import ActorRole
from tarmac.model.errors import Unauthorized

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(300)]

GROUPS = {"grace": ["gpu-admins"], "linus": ["staff"]}


@dataclass(frozen=True, slots=True)
class Server:
    """A server with accounts, and the directory of its users' homes."""

    url: str
    directory: Path
    owner: Client

    def environment(self, user: str) -> dict[str, str]:
        home = self.directory / user
        home.mkdir(exist_ok=True)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("TARMAC_")}
        return {**kept, "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}

    def tarmac(self, user: str, *arguments: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "tarmac.cli", *arguments]
        found = subprocess.run(
            command, env=self.environment(user), capture_output=True, text=True, timeout=120, check=False
        )
        assert found.returncode == code, found.stdout + found.stderr
        return found.stdout + found.stderr

    def log_in(self, user: str, *options: str) -> str:
        """Log in as a user does: read what the command says, and confirm it in a browser."""
        command = [sys.executable, "-m", "tarmac.cli", "login", self.url, *options]
        with subprocess.Popen(
            command, env=self.environment(user), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            text = process.stderr.readline() + process.stderr.readline()
            page = re.search(r"Open (\S+)", text)
            assert page, text + process.stderr.read()
            code = re.search(r"with the code (\S+)\.", text)
            Browser(user).visit(page[1], code[1] if code else "")
            output, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
            return output


@contextmanager
def server(directory: Path, issuer: str) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = f"127.0.0.1:{found.getsockname()[1]}"
    home, secret = directory / "home", directory / "secret"
    home.mkdir(mode=0o700)
    secret.write_text(SECRET)
    (home / "settings.toml").write_text(
        f'[server]\nlisten = "{address}"\n'
        f'[sign_on]\nissuer = "{issuer}"\nclient_id = "{CLIENT}"\nclient_secret_file = "{secret}"\n'
        'scopes = ["profile", "email", "groups"]\ngroups = { "gpu-admins" = "admin" }\n'
        "create_accounts = true\n"
    )
    with Client(home=home) as owner:
        owner.set_user("ada")
        try:
            yield Server(f"http://{address}", directory, owner)
        finally:
            owner.stop_server()


def test_users_log_in_by_codes(tmp_path: Path) -> None:
    """N15: the device flow; groups give roles; the logout ends the token, and names the provider's own."""
    with real_provider(devices=True, groups=GROUPS) as issuer, server(tmp_path, issuer) as site:
        assert site.log_in("grace", "--sso") == f"you are grace (admin) at {site.url}\n"
        assert site.log_in("linus", "--sso") == f"you are linus (member) at {site.url}\n"
        with urllib.request.urlopen(f"{issuer}/revoked", timeout=60) as page:
            assert page.read() == b"2"  # the provider's own tokens are of no use any more
        assert "grace" in site.tarmac("grace", "users", "ls")
        assert "may not manage" in site.tarmac("linus", "audit", code=1)
        for run_of in ("grace", "linus"):
            assert len(site.owner.tokens(user=run_of)) == 1
        said = site.tarmac("grace", "logout")
        assert f"logged out of {site.url}; your session at the identity provider ends at {issuer}/" in said
        (token,) = site.owner.tokens(user="grace")
        assert token.revoked_at is not None
        assert "you are not logged in" in site.tarmac("grace", "logout")


@pytest.mark.parametrize("devices", [False, True])
def test_users_log_in_by_a_browser(tmp_path: Path, devices: bool) -> None:
    """N15: PKCE with S256 to a loopback port, where the provider has no codes or the user wants none."""
    options = ["--sso", "--browser"] if devices else ["--sso"]
    with real_provider(devices=devices, groups=GROUPS) as issuer, server(tmp_path, issuer) as site:
        assert site.log_in("linus", *options) == f"you are linus (member) at {site.url}\n"
        (account,) = (each for each in site.owner.users() if each.name == "linus")
        assert account.identity == f"{issuer}#linus"
        assert account.role is ActorRole.MEMBER


def test_users_of_a_second_provider_log_in(tmp_path: Path) -> None:
    """N15: canaille has no codes, no `preferred_username`, and one registered address of the client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        callback = f"http://127.0.0.1:{listener.getsockname()[1]}/callback"
        with (
            canaille(callback) as issuer,
            server(tmp_path, issuer) as site,
            Client(site.url, token="") as client,
        ):
            begun = client.begin_sign_on(callback)
            assert begun.code is None
            assert (begun.logout_url or "").startswith(f"{issuer}/")
            code, state = received(listener, begun.url)
            made = client.finish_sign_on(begun.request, code, state).login
            assert made is not None
            with Client(site.url, token=made.text) as grace:
                account = grace.account()
            assert (account.name, account.role) == ("grace@lab.example", ActorRole.ADMIN)
            with pytest.raises(Unauthorized, match="invalid_grant"):
                client.finish_sign_on(begun.request, code, state)


def received(listener: socket.socket, page: str) -> tuple[str, str]:
    """The code and the state that a page's redirection brings to a listener."""
    visit = Thread(target=lambda: Browser("grace").visit(page))
    visit.start()
    connection, _ = listener.accept()
    with connection:
        request = connection.recv(65536).decode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    visit.join()
    query = dict(parse_qsl(urlsplit(request.split()[1]).query))
    return query["code"], query["state"]


def test_a_provider_that_stops_and_returns_with_new_keys(tmp_path: Path) -> None:
    """N15: users who are logged in stay so; no login is possible meanwhile, and none is refused after."""
    with ExitStack() as first:
        issuer = first.enter_context(real_provider(devices=True, groups=GROUPS))
        port = int(issuer.rpartition(":")[2])
        with server(tmp_path, issuer) as site:
            site.log_in("linus", "--sso")
            first.close()
            assert "linus" in site.tarmac("linus", "users", "ls")
            refused = site.tarmac("grace", "login", site.url, "--sso", code=1)
            assert f"the identity provider {issuer} does not answer" in refused
            with real_provider(devices=True, groups=GROUPS, port=port):
                assert site.log_in("grace", "--sso") == f"you are grace (admin) at {site.url}\n"
