"""Identifies home and machine, and takes the right to serve the cluster. Called by `wiring`."""

import os
import secrets
from pathlib import Path

from tarmac.control.serving import Wish, serve
from tarmac.model.actor import HomeIdentity, Lease
from tarmac.model.errors import Refused
from tarmac.model.home import Home
from tarmac.model.ports import Clock, Store
from tarmac.model.summary import RunQuery

MACHINE_ID = Path("/etc/machine-id")


def take_cluster(store: Store, home: Home, clock: Clock, *, cluster: str, take_over: bool) -> Lease:
    """The right to serve the cluster; raises Refused if another home has it, or the history is lost."""
    identity = identity_of(home)
    record = next((record for record in store.servers() if record.cluster == cluster), None)
    if record is None:
        _refuse_emptied(store, home)
    copied = record is not None and record.home.id == identity.id and _elsewhere(Path(record.home.path), home)
    wish = Wish(cluster=cluster, home=identity, take_over=take_over, copied=copied)
    return serve(store, wish, now=clock.now())


def newest_run(store: Store) -> str | None:
    """The id of the newest run."""
    return next((run.id for run in store.runs(RunQuery(limit=1))), None)


def identity_of(home: Home) -> HomeIdentity:
    """The identity and place of this home; its id is made at first use. Called under the lock of the home."""
    return HomeIdentity(
        id=_id_in(home.identity) or _new_id(home.identity),
        machine=_machine(),
        hostname=os.uname().nodename,
        path=str(home.root),
    )


def _new_id(path: Path) -> str:
    made = secrets.token_hex(16)
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(f"{made}\n")
    draft.replace(path)
    return made


def _id_in(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except FileNotFoundError:
        return None


def _machine() -> str:
    """An identifier of this machine: its id, or else its name."""
    try:
        return MACHINE_ID.read_text().strip() or os.uname().nodename
    except (OSError, UnicodeDecodeError):
        return os.uname().nodename


def _elsewhere(recorded: Path, home: Home) -> bool:
    """Whether the recorded place still is a home of this id, and a different directory."""
    other = Home(recorded)
    try:
        same = recorded.samefile(home.root)
        return not same and _id_in(other.identity) == _id_in(home.identity)
    except OSError:
        return False


def _refuse_emptied(store: Store, home: Home) -> None:
    """Refuse an empty database beside directories of runs: their database was lost, or is another one."""
    if not home.runs.is_dir() or newest_run(store) is not None:
        return
    with os.scandir(home.runs) as found:
        if next(found, None) is not None:
            raise Refused(
                f"the database knows no run, and {home.runs} holds some: their history is missing",
                hint="bring the database back, or set [database] url to where it is; to begin a new history, "
                f"move {home.runs} away first",
            )
