"""`tarmac server`: manage the user's own server, which `tarmac run` starts when needed. Runs outlive it."""

import os
import sys
import time
from base64 import b64decode
from collections import deque
from hashlib import sha256
from pathlib import Path

import click

from tarmac import api
from tarmac.cli.dialogue import answer, connect, print_verbatim, remark, tell
from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import duration, flag, local_time, tail_option
from tarmac.cli.views.amounts import age, until
from tarmac.cli.views.terminal import one_line
from tarmac.model.codec import json_form
from tarmac.model.errors import NotFound, Refused, TarmacError, Unavailable
from tarmac.model.home import Home
from tarmac.model.people.announcement import Announcement
from tarmac.node.kernel import procfs

STOP_LIMIT_S = 30.0
NOT_RUNNING = 1
_GLANCE_S = 0.02
_BLOCK_BYTES = 65536
_LINES_SHOWN = 100


@click.group(cls=Subcommands)
def server() -> None:
    """Start, stop or look at your own server. Runs go on without it."""


@server.command()
@flag(
    "--take-over",
    help="Serve the cluster although another home or machine did. Only where that one is gone for good.",
)
def start(*, take_over: bool) -> None:
    """Start the server, if it does not run already."""
    _print_version(connect(server_options=("--take-over",) if take_over else ()).version())


@server.command()
def stop() -> None:
    """Stop the server. Runs go on; the next command that needs a server starts one, which finds them."""
    stopped = _stop()
    text = f"the server (pid {stopped.pid}) has stopped; runs go on" if stopped else ""
    pid = stopped.pid if stopped else None
    answer({"stopped": pid}, text, empty="no server is running")


@server.command()
def restart() -> None:
    """Stop the server and start it again, as after an upgrade. Runs go on meanwhile."""
    _stop()
    _print_version(connect().version())


@server.command()
def status() -> None:
    """Say whether the server runs; exit code 1 when it does not."""
    found = _running_server()
    if found is None:
        document = {"running": False, "home": str(connect(start=False).home.root)}
        empty = "no server is running; the next command that needs one starts it"
        answer(document, "", empty=empty)
        sys.exit(NOT_RUNNING)
    _print_version(found)


@server.command()
@click.argument("text", required=False)
@click.option("--until", "until_at", type=local_time, metavar="TIME", help="Until then: 2026-11-01T08:00.")
@click.option("--for", "for_s", type=duration, metavar="DURATION", help="For this time, as 2h.")
@flag("--clear", help="Show it no longer.")
def say(*, text: str | None, until_at: float | None, for_s: float | None, clear: bool) -> None:
    """Announce a text to all users: each of their commands shows it."""
    if clear != (not text) or (clear and (until_at or for_s)):
        raise click.UsageError("give either a text, or --clear alone")
    if until_at is not None and for_s is not None:
        raise click.UsageError("give either --until or --for, not both")
    if for_s is not None:
        until_at = time.time() + for_s
    announced = connect().announce(text or "", until_at=until_at).announcement
    shown = "there is no announcement any more" if announced is None else _announcement_text(announced)
    answer({"announcement": announced}, shown)


@server.command(cls=click.Command)
@flag("--follow", "-f", "following", help="Go on until Ctrl-C.")
@tail_option(_LINES_SHOWN, "The last N lines.")
def logs(*, following: bool, tail: int) -> None:
    """Print what the server wrote to its log."""
    path = connect(start=False).home.log
    try:
        with path.open("rb") as log:
            print_verbatim(b"".join(deque(log, maxlen=tail)).decode(errors="replace"))
            while following:
                while content := log.read(_BLOCK_BYTES):
                    print_verbatim(content.decode(errors="replace"))
                time.sleep(10 * _GLANCE_S)
    except FileNotFoundError:
        remark(f"there is no log at {path}: no server has run here yet")
        sys.exit(NOT_RUNNING)


@server.command()
def ca() -> None:
    """Print the certificate of the lab's own authority, which clients of this server need.

    \b
    tarmac server ca > ca.pem      then, on another machine: export TARMAC_CA=$PWD/ca.pem
    """
    path = connect(start=False).home.tls / "ca.pem"
    try:
        pem = path.read_text()
    except FileNotFoundError:
        raise NotFound(
            f"there is no authority at {path}",
            hint='a server makes it when it starts with listen and tls = "lab" in its settings.toml',
        ) from None
    digest = sha256(b64decode("".join(pem.splitlines()[1:-1]))).hexdigest()
    remark(f"{path}, SHA-256 {digest}")
    answer({"path": str(path), "sha256": digest, "pem": pem}, pem.rstrip())


directory_argument = click.argument("directory", type=click.Path(path_type=Path))
without_key = flag("--without-key", help="Without the key of the secrets, which is kept elsewhere.")


@server.command()
@directory_argument
@without_key
def backup(*, directory: Path, without_key: bool) -> None:
    """Back up the database and the home into a new directory. The server and its runs continue."""
    answer(_back_up(directory, without_key=without_key), f"backup: {directory}")


@server.command()
@directory_argument
@click.option(
    "--home", type=click.Path(path_type=Path), metavar="DIR", help="Into this home, not TARMAC_HOME."
)
@click.option("--key", type=click.Path(path_type=Path), metavar="FILE", help="The key, if it is elsewhere.")
@without_key
@flag("--without-database", help="The home alone, for a database that is restored already.")
def restore(
    *, directory: Path, home: Path | None, key: Path | None, without_key: bool, without_database: bool
) -> None:
    """Restore a backup into a home that has no server yet."""
    from tarmac.server import backup as backups

    into = Home(home.absolute()) if home is not None else _own_home()
    used = None if without_key else key or directory / backups.KEY
    backups.restore(directory, into, key=used, with_database=not without_database)
    answer({"home": str(into.root)}, f"restored: {into.root}; tarmac server start starts its server")


@server.command()
@directory_argument
def upgrade(*, directory: Path) -> None:
    """Back up into a new directory, and replace the server by the installed version. Runs continue."""
    _back_up(directory, without_key=False)
    tell(f"backup: {directory}")
    stopped, home = _stop(), _own_home().root
    older = "the older version" if stopped is None else f"tarmac {stopped.version}"
    restoring = f"mv {home} {home}.new; tarmac server restore {directory.absolute()}"
    back = f"to go back: tarmac server stop; install {older}; {restoring}"
    try:
        version = connect().version()
        connect().runs(limit=1)
    except TarmacError as error:
        raise TarmacError(f"the installed version does not work: {error}", hint=back) from error
    remark(back)
    _print_version(version)


def _own_home() -> Home:
    """The home of this user's own server; raises Refused if commands use a server behind a URL."""
    client = connect(start=False)
    if client.remote:
        hint = "unset TARMAC_URL, and set TARMAC_HOME to the home of the server"
        raise Refused(
            "this command is for the server's own machine, not for a server behind a URL", hint=hint
        )
    return client.home


def _back_up(directory: Path, *, without_key: bool) -> dict[str, object]:
    from tarmac.server.backup import back_up

    made = back_up(_own_home(), directory.absolute(), with_key=not without_key)
    return {"directory": str(directory.absolute()), **json_form(made)}


def _print_version(version: api.Version) -> None:
    text = f"the server runs: {version_text(version)}, home {version.home}"
    if version.announcement is not None:
        text += f"\n{_announcement_text(version.announcement)}"
    answer({"running": True, **json_form(version)}, text)


def _announcement_text(announcement: Announcement) -> str:
    """An announcement, with its author and its end."""
    at = announcement.until_at
    end = "" if at is None else f", ends {until(at, time.time())}"
    return one_line(f"announcement by {announcement.user}{end}: {announcement.text}")


def version_text(version: api.Version) -> str:
    """The version of a server, its process, and its age."""
    started = age(version.started_at, time.time())
    return f"tarmac {version.version}, pid {version.pid}, started {started}"


def _running_server() -> api.Version | None:
    """The running server; None if there is none."""
    try:
        return connect(start=False).version()
    except Unavailable:
        return None


def _stop() -> api.Version | None:
    """Stop the server and wait until its process has ended; None if there was none."""
    found = _running_server()
    if found is None:
        return None
    connect(start=False).stop_server()
    deadline = time.monotonic() + STOP_LIMIT_S
    while _alive(found.pid):
        if time.monotonic() > deadline:
            raise TarmacError(
                f"the server (pid {found.pid}) has not stopped within {STOP_LIMIT_S:.0f} s",
                hint="tarmac server logs may say why",
            )
        time.sleep(_GLANCE_S)
    return found


def _alive(pid: int) -> bool:
    """Whether the process runs on this machine. For a server elsewhere, only its answer is known."""
    if "TARMAC_URL" in os.environ:
        return _running_server() is not None
    found = procfs.status(pid)
    return found is not None and not found.unreaped
