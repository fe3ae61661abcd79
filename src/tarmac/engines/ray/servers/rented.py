"""`RentedRays`: Ray clusters on rented machines. Made by `server/wiring.py`; `control/burst` calls it.

A rental has a directory on this machine, see `rental_files`. Everything else is on the machines, so that each
call can be repeated after a crash at any point.
"""

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from shutil import copy2, copytree
from typing import Any

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.hosts.remote import SshHost
from tarmac.engines.hosts.ssh import Ssh
from tarmac.engines.ray.servers import commands, open_servers, rental_files
from tarmac.engines.ray.servers.rental_files import CONFIG, NEW, SCRIPT
from tarmac.launch.machine_script import SIGN
from tarmac.model.burst.provider import RentedThing, ThingKind, ThingState
from tarmac.model.burst.rentals import Rental
from tarmac.model.cluster import Cluster, Machine, MachineProgress, Pool
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.resources import CPU_ONLY
from tarmac.node.files import untrusted

MOST_AT_ONCE = 32
REACH_S = 60.0


class RentedRays:
    """Implements `model.burst.rentals.RentedClusters`. Thread-safe for different rentals.

    `rentals` has the directories of rentals, `copies` the reports that engines copied, by cluster. `home` is
    that of this server's own engine, which reads the attempts of removed clusters.
    """

    def __init__(self, rentals: Path, *, copies: Path, home: Path) -> None:
        self._rentals = rentals
        self._copies = copies
        self._kept = Layout(home)

    def ssh(self, target: str) -> Ssh:
        """The way to a host: to a rented machine by the config of its rental, to others by the user's own."""
        config = self._rentals / target.rpartition("-")[0] / CONFIG
        return Ssh(target, ("ssh", "-F", str(config))) if config.exists() else Ssh(target)

    def script(self, rental: Rental, *, limit_s: float | None) -> str:
        directory = self._rentals / rental.id
        if not directory.exists():
            rental_files.make(directory, limit_s=limit_s)
        return rental_files.read(directory / SCRIPT)

    def start(self, rental: Rental, progress: MachineProgress) -> Cluster:
        self.keep_alive(rental)
        directory = self._rentals / rental.id
        if not (directory / rental.cluster).exists():  # what is there is of an earlier rental of the run
            untrusted.discard_tree(str(self._copies / rental.cluster))
        servers = open_servers(directory, ssh=self.ssh)
        try:
            start = servers.prepare(rental.cluster, list(_machines(rental)), install=True, progress=progress)
            start.begin()
        except InvalidInput:
            self.keep_alive(rental)  # raises Unavailable if the reason is that a machine is silent now
            raise
        settings: dict[str, Any] = {**start.cluster.settings, "tunnel": True}
        if rental.shape is not None and rental.shape.slot_type != CPU_ONLY:
            settings["slot_type"] = rental.shape.slot_type
        pool = Pool(cluster=rental.cluster, credits_per_slot_hour=0.0)
        return replace(start.cluster, settings=settings, pools=(pool,), server=rental.server)

    def keep_alive(self, rental: Rental) -> None:
        machines = _machines(rental)
        for machine, thing in machines.items():
            if thing.address is None:
                raise Unavailable(f"{machine.name} has no address yet")
        addresses = {machine.name: str(thing.address) for machine, thing in machines.items()}
        rental_files.write_config(self._rentals / rental.id, addresses)
        with ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="rented") as pool:
            list(pool.map(self._sign, machines))

    def keep_files(self, rental: Rental) -> None:
        there = [machine for machine, thing in _machines(rental).items() if thing.state is ThingState.RUNNING]
        found: list[Unavailable | OSError | None] = []
        try:
            drafts = self._copy_reports(rental)
            with ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="rented") as pool:
                found += pool.map(lambda machine: self._keep_logs(rental.cluster, machine, drafts), there)
            for draft in drafts.values():
                draft.rename(draft.with_suffix(""))
        except OSError as error:
            found.append(error)
        if problems := [problem for problem in found if problem is not None]:
            raise Unavailable(f"some logs were not copied: {problems[0]}")

    def forget(self, rental: Rental) -> None:
        untrusted.discard_tree(str(self._rentals / rental.id))
        if not any(self._rentals.glob(f"*/{rental.cluster}")):  # else the next rental of the run has begun
            untrusted.discard_tree(str(self._copies / rental.cluster))

    # --- inside

    def _sign(self, machine: Machine) -> None:
        """Leave a sign of life on a machine. Raises Unavailable."""
        try:
            argv = [*self.ssh(machine.target).argv(), f"touch {SIGN}"]
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=REACH_S, text=True
            )
        except (OSError, subprocess.TimeoutExpired, Unavailable) as error:
            raise Unavailable(f"{machine.name} cannot be reached yet: {error}") from None
        if done.returncode != 0:
            words = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:300]
            raise Unavailable(f"{machine.name} cannot be reached yet: {words}")

    def _copy_reports(self, rental: Rental) -> dict[str, Path]:
        """Copy what the engine has copied of each attempt; the places by attempt. Raises OSError."""
        drafts = {}
        copied = Layout(self._copies / rental.cluster).runs / rental.run_id / "attempts"
        for attempt in copied.glob("[1-9]*"):
            place = self._kept.runs / rental.run_id / "attempts" / attempt.name
            draft = place if place.exists() else place.with_suffix(NEW)
            copytree(attempt, draft, symlinks=True, dirs_exist_ok=True, copy_function=_copy)
            drafts[f"{rental.run_id}.{attempt.name}"] = draft
        return drafts

    def _keep_logs(
        self, cluster: str, machine: Machine, drafts: Mapping[str, Path]
    ) -> Unavailable | OSError | None:
        """Copy the logs of attempts from a machine; the reason if that fails."""
        layout = Layout(Path(commands.Place(cluster, machine).runs))
        host = SshHost(layout.home, self.ssh(machine.target), python=commands.PYTHON, copies=self._copies)
        try:
            for attempt_id, draft in drafts.items():
                directory = layout.attempt(attempt_id)
                assert directory is not None, "the id of an attempt"
                rental_files.keep_logs(host, directory, place=draft)
        except (Unavailable, OSError) as error:
            return error
        return None


def _copy(source: str, target: str) -> None:
    with suppress(FileNotFoundError):  # a draft of the engine, which may be at its last look
        copy2(source, target)


def _machines(rental: Rental) -> dict[Machine, RentedThing]:
    """The machines of a rental, the head first."""
    things = sorted(
        (each for each in rental.things if each.kind is ThingKind.MACHINE), key=lambda each: each.id
    )
    shape = rental.shape
    return {
        Machine(
            name=f"{rental.id}-{number}",
            head=number == 1,
            slots=None if shape is None else shape.slots,
            cpus=int(shape.cpus) or None if shape is not None else None,
            address=thing.inner_address,
        ): thing
        for number, thing in enumerate(things, start=1)
    }
