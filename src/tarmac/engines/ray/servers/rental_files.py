"""The directory of a rental on this machine: its keys, its script, and a config of `ssh`. Called by `rented`.

A directory appears once it is complete and on the disk. `keep_logs` copies logs of attempts from a machine.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tarmac.engines.hosts.host import Host
from tarmac.launch.machine_script import USER, machine_script
from tarmac.model.errors import Unavailable
from tarmac.node.attempt.protocol import LOGS
from tarmac.node.files import untrusted
from tarmac.node.kernel.handles import flush

SCRIPT, CONFIG, KNOWN_HOSTS, KEY, HOST_KEY = "script", "config", "known_hosts", "key", "host_key"

ALIAS = "rented"
"""The name of all machines of a rental in its known hosts: they have one key, and no name that lasts."""

NEW = ".new"
"""Ends the names of what is not complete yet."""

KEYGEN_S = 60.0
LARGEST_BYTES = 1 << 20
PIECE_BYTES = 4 << 20
MOST_LOGS = 10_000
LARGEST_LOG_BYTES = 4 << 30
"""Limits for the answers of a machine on which a run was root."""


def make(directory: Path, *, limit_s: float | None) -> None:
    """Make the directory of a new rental. Raises Unavailable."""
    draft = directory.with_name(f"{directory.name}{NEW}")
    try:
        untrusted.discard_tree(str(draft))
        draft.mkdir(mode=0o700, parents=True)
        for name in (KEY, HOST_KEY):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tarmac", "-f", str(draft / name)]
            subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=KEYGEN_S)
        key, host_key, known = (read(draft / name) for name in (f"{KEY}.pub", HOST_KEY, f"{HOST_KEY}.pub"))
        script = machine_script(admitted=key, machine_key=host_key, limit_s=limit_s)
        for name, text in ((KNOWN_HOSTS, f"{ALIAS} {known}"), (SCRIPT, script)):
            untrusted.write_new(str(draft / name), text.encode(), mode=0o600)
        for path in (*draft.iterdir(), draft):
            flush(path)
        draft.rename(directory)
        flush(directory.parent)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"the keys of rental {directory.name} cannot be made: {error}") from None


def read(path: Path) -> str:
    """The text of one of the files. Raises OSError."""
    return untrusted.read_bytes(str(path), LARGEST_BYTES).decode()


def write_config(directory: Path, addresses: Mapping[str, str]) -> None:
    """Write the config that reaches these machines, by name. Raises Unavailable."""
    place = str(directory).replace("%", "%%")
    lines = [line for name, at in addresses.items() for line in (f"Host {name}", f"HostName {at}")]
    lines += [
        "Host *",
        f"User {USER}",
        f'IdentityFile "{place}/{KEY}"',
        "IdentitiesOnly yes",
        "IdentityAgent none",
        f'UserKnownHostsFile "{place}/{KNOWN_HOSTS}"',
        "GlobalKnownHostsFile none",
        f"HostKeyAlias {ALIAS}",
        "HostKeyAlgorithms ssh-ed25519",
        "StrictHostKeyChecking yes",
    ]
    try:
        untrusted.replace(str(directory / CONFIG), ("\n".join(lines) + "\n").encode(), mode=0o600)
    except OSError as error:
        raise Unavailable(f"{directory / CONFIG} cannot be written: {error.strerror}") from None


def keep_logs(host: Host, attempt: Path, *, place: Path) -> None:
    """Copy the logs of an attempt, whose directory at the host is given, below `place`.

    Raises Unavailable and OSError.
    """
    for entry in host.files(attempt, LOGS, limit=MOST_LOGS) or ():
        if entry.kind != "file" or "/" in entry.name or entry.name in ("", ".", ".."):
            continue
        path = place / LOGS / entry.name
        path.parent.mkdir(exist_ok=True)
        draft = path.with_name(f"{entry.name}{NEW}")
        untrusted.write_new(str(draft), b"")
        with os.fdopen(untrusted.open_to_append(str(draft)), "ab") as copy:
            while copy.tell() < LARGEST_LOG_BYTES and (
                piece := host.read(attempt, f"{LOGS}/{entry.name}", offset=copy.tell(), limit=PIECE_BYTES)
            ):
                copy.write(piece)
        draft.rename(path)
