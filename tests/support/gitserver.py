"""Real git servers on loopback: over HTTP by git's own backend, and over SSH by a real sshd. For tests.

Every repository is made by git itself in a directory of the test's own.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
NO_SSHD = "there is no sshd here (openssh-server), or it cannot be started by this user"

_WHO = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "file:http:https:ssh:ext",
}


@dataclass
class Repo:
    """A repository with a work tree, for its owner."""

    path: Path
    clock: int = 1_700_000_000

    @classmethod
    def new(cls, path: Path, **files: str) -> Repo:
        path.mkdir(parents=True)
        repo = cls(path)
        repo.git("init", "--quiet", "--initial-branch=main")
        if files:
            repo.commit(**files)
        return repo

    def git(self, *arguments: str) -> str:
        """Run git here; what it prints."""
        date = f"{self.clock} +0000"
        return subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env={**os.environ, **_WHO, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def commit(self, **files: str) -> str:
        """Commit these files (`_` in a name stands for a dot); the whole commit."""
        self.clock += 1
        for name, text in files.items():
            path = self.path / name.replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", f"at {self.clock}")
        return self.git("rev-parse", "HEAD")


@dataclass
class GitServer:
    """git over HTTP. `sent_bytes` counts what it answered; `hold` makes it accept and say nothing."""

    root: Path
    url: str = ""
    requests: list[str] = field(default_factory=list)
    sent_bytes: int = 0
    hold: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)

    def url_of(self, repo: Repo) -> str:
        return f"{self.url}/{repo.path.relative_to(self.root)}"


@contextmanager
def http_server(root: Path) -> Iterator[GitServer]:
    """Serve every repository below `root`."""
    server = GitServer(root)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

        def _answer(self) -> None:
            server.requests.append(self.path)
            if server.hold.is_set():
                server.held.set()
                server.released.wait()
                return
            lines, content = _backend(
                root, self.command, self.path, self.headers, self.rfile.read(_length(self.headers))
            )
            status = next((value for name, value in lines if name == "Status"), "200 OK")
            self.send_response(int(status.split()[0]))
            for name, value in lines:
                if name != "Status":
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
            server.sent_bytes += len(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.socket.setblocking(False)  # a client that has left in between must not keep accept waiting
        http.daemon_threads = True
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            http.shutdown()
            thread.join()


def _length(headers: Message[str, str]) -> int:
    return int(headers.get("Content-Length") or 0)


def _backend(
    root: Path, method: str, target: str, headers: Message[str, str], body: bytes
) -> tuple[list[list[str]], bytes]:
    """What git's own backend answers: the lines of the head, and the content."""
    path, _, query = target.partition("?")
    answer = subprocess.run(
        ["git", "http-backend"],
        env={
            **os.environ,
            **_WHO,
            "GIT_PROJECT_ROOT": str(root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": method,
            "CONTENT_TYPE": headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": headers.get("Git-Protocol", ""),
        },
        input=body,
        capture_output=True,
        check=False,
    ).stdout
    head, _, content = answer.partition(b"\r\n\r\n")
    return [line.split(": ", 1) for line in head.decode().split("\r\n") if line], content


@dataclass(frozen=True)
class SshServer:
    """git over SSH: where it is, the key it accepts, and a file of known hosts that names it.

    `authorized` lists the keys that it accepts; who adds one can say what it is for.
    """

    port: int
    key: Path
    known_hosts: Path
    authorized: Path
    pid: int

    def url_of(self, repo: Repo) -> str:
        return f"ssh://{os.environ.get('USER') or 'root'}@127.0.0.1:{self.port}{repo.path}"


@contextmanager
def ssh_server(
    directory: Path,
    *,
    before: Sequence[str] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
    options: Sequence[str] = (),
) -> Iterator[SshServer | None]:
    """A real sshd for the user of the test, with keys of its own; None where there is none.

    Its sessions are given `variables`. That user has an empty home in them: no login shell reads the tester's
    settings. It is started by the command `before`, if any; `options` of its config count before its own.
    """
    if SSHD is None or os.geteuid() != 0:
        yield None
        return
    directory.mkdir(mode=0o700)
    for name in ("host", "key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)], check=True
        )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (directory / "authorized").write_text((directory / "key.pub").read_text())
    kind, public = (directory / "host.pub").read_text().split()[:2]
    known = directory / "known hosts"
    known.write_text(f"[127.0.0.1]:{port} {kind} {public}\n")
    (directory / "home").mkdir()
    own = {"HOME": str(directory / "home"), **variables}
    config = directory / "config"
    config.write_text(
        "".join(f"{option}\n" for option in options)
        + f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {directory}/host\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {directory}/authorized\nStrictModes no\nPermitRootLogin yes\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nLogLevel ERROR\n"
        + (_set(variables) if variables else "")
        + f"Match User root\n{_set(own)}"
    )
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with subprocess.Popen([*before, SSHD, "-D", "-e", "-f", str(config)], stderr=subprocess.PIPE) as sshd:
        try:
            _until_listening(port, sshd)
            yield SshServer(
                port=port,
                key=directory / "key",
                known_hosts=known,
                authorized=directory / "authorized",
                pid=sshd.pid,
            )
        finally:
            sshd.terminate()


def _set(variables: Mapping[str, str]) -> str:
    """The line of a config: of several such lines the first alone counts."""
    return "SetEnv " + " ".join(f'"{name}={value}"' for name, value in variables.items()) + "\n"


def _until_listening(port: int, sshd: subprocess.Popen[bytes]) -> None:
    while sshd.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise AssertionError(f"sshd ended: {sshd.stderr.read().decode() if sshd.stderr else ''}")
