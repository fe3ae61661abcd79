"""The system's `ssh`: its command line, and the meaning of its failures. Used by `remote`.

The user's ~/.ssh/config defines the login (names, ports, keys, agents, certificates, hops). Sessions are
shared, including one that the user opened by hand, as sites with two factors require.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tarmac.engines.hosts.connection import NotConnected
from tarmac.model.errors import Unavailable
from tarmac.node.kernel import system_users
from tarmac.node.starting import Installation

LOOK_UP_S = 20.0
_OPTIONS = (
    "BatchMode=yes",
    "RequestTTY=no",
    "ConnectTimeout=20",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    "ForwardX11=no",
    "ForwardAgent=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "LogLevel=ERROR",
)
"""No prompts at a terminal; forwardings and commands of the config are for the user's own sessions."""

_SHARED_S = 60
"""How long a shared session outlives us: a restarted server need not log in again."""

_METHODS = re.compile(r"Permission denied \(([a-z0-9,-]+)\)")
_NO_GREETING = "kex_exchange_identification"
"""ssh's message if the host sent nothing: with a hop, it refused the connection."""


@dataclass(frozen=True, slots=True)
class Ssh:
    """A way to a host: the target of `ssh`, and the command itself."""

    target: str
    program: tuple[str, ...] = ("ssh",)

    def argv(self) -> list[str]:
        """The ssh command, to which one for the host can be appended. Raises Unavailable."""
        options = [word for option in _OPTIONS for word in ("-o", option)]
        return [*self.program, *options, *self._sharing(self.settings()), "--", self.target]

    def settings(self) -> Mapping[str, str]:
        """The user's config for the target, by keyword. Raises Unavailable."""
        try:
            found = subprocess.run(
                [*self.program, "-G", "--", self.target],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LOOK_UP_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"ssh cannot be run on this machine: {error}") from None
        if found.returncode != 0:
            last = found.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise Unavailable(f"{self.target}: {''.join(last) or 'ssh does not take its config'}")
        lines = found.stdout.decode(errors="replace").splitlines()
        return {keyword: value for keyword, _, value in (line.partition(" ") for line in lines)}

    def opening(self) -> str:
        """The command with which a user opens a shareable session. Raises Unavailable."""
        sharing = self._sharing(self.settings())
        words = [*sharing[:-2], "-o", "ControlPersist=yes"] if sharing else ["-o", "ControlMaster=auto"]
        where = "" if self.session() is not None else " with a ControlPath for it in ~/.ssh/config"
        return " ".join(["ssh", *words, "-fN", self.target]) + where

    def session(self) -> Path | None:
        """The path of a shared session's socket, existing or not. Raises Unavailable."""
        own = self._sharing(settings := self.settings())
        path = own[3].partition("=")[2] if own else settings.get("controlpath", "none")
        return Path(path) if path != "none" else None

    def _sharing(self, settings: Mapping[str, str]) -> list[str]:
        """The options that share a session, if the user's config has none of its own."""
        directory = _private_directory()
        if settings.get("controlpath", "none") != "none" or directory is None:
            return []
        name = hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()[:16]
        options = ("ControlMaster=auto", f"ControlPath={directory / name}", f"ControlPersist={_SHARED_S}")
        return [word for option in options for word in ("-o", option)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Become(Ssh):
    """Replaces ssh for a user of this machine: a program of root that becomes the user."""

    user: str
    least_uid: int

    def argv(self) -> list[str]:
        try:
            system_users.find(self.user, self.least_uid)
        except system_users.Refused as problem:
            raise Refused(f"{self.target}: {problem}") from None
        return Installation(sys.executable).as_user(self.user, self.least_uid)

    def session(self) -> Path | None:
        return None


def explained(ssh: Ssh, failure: NotConnected, *, python: str) -> Unavailable:
    """The error for a failure, with a command to type. See `Refused` for failures that would repeat."""
    text, target = "\n".join(failure.lines), ssh.target
    if _NO_GREETING in text and (hops := ssh.settings().get("proxyjump", "none")) != "none":
        hop = hops.rpartition(",")[2]
        hint = f"ssh {hop} should log in without a question; what went wrong there: ssh -v {target}"
        return Unavailable(f"{target}: no way through {hops}: {failure.lines[0]}", hint=hint)
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in text:
        name = ssh.settings().get("hostname", target)
        hint = (
            f"ask the site whether its key is new; then: ssh-keygen -R {name} and, once by hand, ssh {target}"
        )
        return Refused(f"{target}: its host key is not the one that is known", hint=hint)
    if "Host key verification failed" in text or "host key is known for" in text:
        hint = f"once by hand: ssh {target} and accept the key, if it is the one that the site publishes"
        return Refused(f"{target}: its host key is not known here", hint=hint)
    if (methods := _METHODS.search(text)) is not None:
        if {"keyboard-interactive", "password"} & set(methods[1].split(",")):
            hint = f"open a session by hand, which is then shared: {ssh.opening()}"
            message = "it asks for what only a person can type, and no session is open to share"
            return Refused(f"{target}: {message}: {methods[0]}", hint=hint)
        hint = f"which keys it tried: ssh -v {target}; those of the agent: ssh-add -l"
        return Refused(f"{target}: {methods[0]}", hint=hint)
    if failure.old_python:
        hint = "the setting python names one of 3.9 or later, on the login node and on the nodes"
        return Refused(f"{target}: {python} there is {failure.old_python}", hint=hint)
    if failure.code in (126, 127):
        hint = "the setting python names one that is there"
        return Refused(f"{target}: {_last(failure.lines) or f'{python} cannot be run there'}", hint=hint)
    return Unavailable(f"{target}: {_last(failure.lines) or failure.reason}")


class Refused(Unavailable):
    """A host that will refuse again until a person has acted."""


def _last(lines: Sequence[str]) -> str:
    return lines[-1] if lines else ""


def _private_directory() -> Path | None:
    """A private directory of this user with a short name, for sockets; None if there is none."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    path = Path(runtime, "tarmac") if runtime else Path(tempfile.gettempdir(), f"tarmac-{os.getuid()}")
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError:
        return None
    private = found.st_uid == os.getuid() and found.st_mode & 0o170077 == 0o040000
    return path if private and len(os.fsencode(path)) < 70 else None
