"""N15: a server of a lab, reached from elsewhere over TLS, from nothing: settings, authority, commands."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import stat
from pathlib import Path

import pytest

from certificates import self_signed
from shell import LIMIT_S, Shell
from tarmac.client import Client

PASSWORD = "correct horse battery"

SERVES = """[server]
listen = "0.0.0.0:{port}"
tls_names = ["lab.example.org"]
"""


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def lab(shell: Shell, port: int) -> Shell:
    """A shell whose own server has an authority of its own."""
    with_accounts(shell)
    (shell.home / "settings.toml").write_text(SERVES.format(port=port) + 'tls = "lab"\n')
    shell.tarmac("server", "start", code=0)
    return shell


def with_accounts(shell: Shell) -> None:
    """Add accounts on the server's own machine, and end the server."""
    shell.tarmac("users", "add", "ada", code=0)
    with Client(home=shell.home) as client:
        client.set_user("bob", password=PASSWORD)
    shell.tarmac("server", "stop", code=0)


def test_another_address_needs_an_account_first(shell: Shell, port: int) -> None:
    shell.home.mkdir(mode=0o700)
    (shell.home / "settings.toml").write_text(SERVES.format(port=port) + 'tls = "lab"\n')
    assert "needs an account first" in shell.tarmac("server", "start", code=1).stderr
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_two_people_and_a_program_use_one_server_over_tls(lab: Shell, port: int, tmp_path: Path) -> None:
    """N15: by a login, and by a token of a service account; a stolen token ends when it is revoked."""
    lab.write("ca.pem", (lab.home / "tls" / "ca.pem").read_text())
    url, ca = f"https://127.0.0.1:{port}", str(lab.directory / "ca.pem")
    variables = {"TARMAC_HOME": "", "XDG_CONFIG_HOME": str(tmp_path / "config")}

    def tarmac(*arguments: str, said: str = "", **more: str) -> tuple[int | None, str, str]:
        done = lab.tarmac(*arguments, stdin=said, variables={**variables, **more})
        return done.returncode, done.stderr, done.stdout

    assert tarmac("login", url, "--user", "bob", "--ca", ca, said="wrong wrong wrong\n")[0] == 1
    status, problem, text = tarmac("login", url, "--user", "bob", "--ca", ca, said=f"{PASSWORD}\n")
    assert (status, text) == (0, f"you are bob (member) at {url}\n"), problem
    assert stat.S_IMODE((tmp_path / "config/tarmac/login.json").stat().st_mode) == 0o600
    assert tarmac("run", "--name", "his", "--", "echo", "over TLS")[0] == 0
    assert tarmac("users", "add", "eve")[0] == 1
    lab.tarmac("users", "add", "nightly", "--service", code=0)
    text = lab.tarmac("tokens", "add", "ci", "--user", "nightly", "--no-end", code=0).stdout.strip()
    program = {"TARMAC_URL": url, "TARMAC_TOKEN": text, "TARMAC_CA": ca}
    assert tarmac("run", "--", "echo", "by a program", **program)[0] == 0
    assert "may not change runs of bob" in tarmac("stop", "his", **program)[1]
    [token] = lab.json("tokens", "ls", "--user", "nightly")["tokens"]
    lab.tarmac("tokens", "revoke", token["id"], code=0)
    assert "was revoked" in tarmac("ls", **program)[1]
    assert tarmac("logout")[2] == f"logged out of {url}\n"
    assert not (tmp_path / "config/tarmac/login.json").exists()
    users = {entry["user"] for entry in lab.json("audit", "--limit", "1000")["audit"]}
    assert users >= {"bob", "nightly"}


def test_a_lab_is_reached_over_tls_with_its_authority(lab: Shell, port: int) -> None:
    printed = lab.tarmac("server", "ca", code=0)
    found = lab.json("server", "ca")
    assert found["pem"] == printed.stdout == (lab.home / "tls" / "ca.pem").read_text()
    assert found["sha256"] in printed.stderr
    lab.write("ca.pem", printed.stdout)
    url, token = f"https://127.0.0.1:{port}", (lab.home / "token").read_text().strip()
    variables = {"TARMAC_URL": url, "TARMAC_TOKEN": token}

    def tarmac(*arguments: str) -> tuple[int | None, str, str]:
        done = lab.tarmac(*arguments, variables=variables)
        return done.returncode, done.stderr, done.stdout

    status, problem, _ = tarmac("ls")
    assert status == 1
    assert "set TARMAC_CA" in problem
    variables["TARMAC_CA"] = str(lab.directory / "ca.pem")
    assert tarmac("run", "--", "echo", "over TLS")[0] == 0
    assert tarmac("run", "-d", "--name", "long", "--", "sleep", "600")[0] == 0
    lab.wait_until("long", "running")
    assert tarmac("exec", "long", "--", "sh", "-c", "echo beside it") == (0, "", "beside it\n")
    assert tarmac("stop", "long", "--wait")[0] == 0


def test_a_thousand_connections_keep_nobody_out(lab: Shell, port: int) -> None:
    context = ssl.create_default_context(cafile=str(lab.home / "tls" / "ca.pem"))
    with contextlib.ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S))
        address = "127.0.0.2", 0
        opened = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S, source_address=address)
        with opened, context.wrap_socket(opened, server_hostname="lab.example.org") as other:
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: lab.example.org\r\nConnection: close\r\n\r\n")
            assert other.recv(12) == b"HTTP/1.1 200"
        lab.tarmac("ls", code=0)


def test_a_renewed_certificate_is_served_after_a_signal(shell: Shell, port: int, tmp_path: Path) -> None:
    with_accounts(shell)
    first, second = (self_signed(tmp_path / name) for name in ("first.pem", "second.pem"))
    used = Path(shutil.copy(first, tmp_path / "used.pem"))
    given = f'tls_certificate = "{used}"\ntls_key = "{used}"\n'
    (shell.home / "settings.toml").write_text(SERVES.format(port=port) + given)
    pid = shell.json("server", "start")["pid"]
    assert _served(port) == _certificate(first)
    used.write_text("half a file")
    os.kill(pid, signal.SIGHUP)
    log = shell.home / "server.log"
    while "the previous certificate stays in use: server.tls_certificate" not in log.read_text():
        assert _served(port) == _certificate(first)
    shutil.copy(second, used)
    os.kill(pid, signal.SIGHUP)
    while _served(port) != _certificate(second):
        assert shell.json("server", "status")["pid"] == pid


def _served(port: int) -> bytes:
    """The certificate that a server presents now."""
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", port), timeout=LIMIT_S))


def _certificate(path: Path) -> bytes:
    text = path.read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])
