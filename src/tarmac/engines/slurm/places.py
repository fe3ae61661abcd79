"""The places of tarmac's jobs among all waiting jobs of the site. Used by `SlurmEngine`, while a job waits.

This needs the whole queue, so there is one query a minute for any number of jobs. Answers come at once from
the last read; if that is old, a thread reads again.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock, Thread

from tarmac.engines.slurm.commands import Commands
from tarmac.engines.slurm.queue import NAME_PREFIX
from tarmac.model.errors import Unavailable

PENDING = ("squeue", "--noheader", "--states=PENDING", "--format=%i|%Q|%P|%j")

_JOB = re.compile(r"([0-9]+)(?:\+0|_.*)?")
"""A job, the leader of a heterogeneous one, or an array: each counts once."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a job among those that wait in its partition, 1 for the next, and their number."""

    place: int
    waiting: int


class Places:
    """The places of tarmac's jobs, read at most every `every_s`. Thread-safe."""

    def __init__(self, commands: Commands, *, every_s: float) -> None:
        self._commands = commands
        self._every_s = every_s
        self._lock = Lock()
        self._known: Mapping[str, Place] = {}
        self._due_at = float("-inf")
        self._reading = False

    def place_of(self, job_id: str) -> Place | None:
        """The place of a waiting job, by the last read; None if it is unknown, or the job is held."""
        with self._lock:
            if not self._reading and time.monotonic() >= self._due_at:
                self._reading = True
                Thread(target=self._read, name="slurm-places", daemon=True).start()
            return self._known.get(job_id)

    def _read(self) -> None:
        try:
            self._known = parse_places(self._commands.query(PENDING))
        except Unavailable as error:
            log.warning("the place of jobs in the queue could not be read: %s", error)
        finally:
            with self._lock:
                self._due_at = time.monotonic() + self._every_s
                self._reading = False


def parse_places(text: str) -> dict[str, Place]:
    """The places of tarmac's jobs, from the lines of PENDING.

    A higher priority is earlier, then the smaller number; a job with priority 0 is held. The place of a job
    with several partitions is its best one.
    """
    jobs = []
    for line in text.splitlines():
        fields = line.strip().split("|", 3)
        if len(fields) == 4 and (match := _JOB.fullmatch(fields[0])) and fields[1].isdigit():
            jobs.append((-int(fields[1]), int(match[1]), fields[2].split(","), fields[3]))
    waiting: Counter[str] = Counter()
    found: dict[str, tuple[int, str]] = {}
    for priority, number, partitions, name in sorted(jobs):
        if priority < 0:
            waiting.update(partitions)
            if name.startswith(NAME_PREFIX):
                found[str(number)] = min((waiting[each], each) for each in partitions)
    return {number: Place(place, waiting[partition]) for number, (place, partition) in found.items()}
