"""Slurm's commands, each with a deadline, in an environment of their own. Called by this engine alone.

Failures are classified here: permanent ones, and those that a retry may solve.
"""

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock, Thread

from tarmac.engines.hosts.host import Host
from tarmac.model.errors import InvalidInput, Unavailable, listed

QUERY_S = 30.0
SUBMIT_S = 90.0
"""The deadlines of commands. A late query is repeated; a late submission's job is looked up."""

ENVIRONMENT = {"SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}
NO_VARIABLES: Mapping[str, str] = {}
UTC = {"TZ": "UTC0"}
"""Makes times in the answers of queries independent of any machine's zone."""

REFUSALS = (
    "invalid account",
    "invalid partition",
    "invalid qos",
    "node configuration is not available",
    "time limit is invalid",
    "time limit specification required",
    "no partition specified",
    "invalid feature",
    "invalid node name",
    "invalid generic resource",
    "invalid gres",
    "memory specification can not be satisfied",
    "more processors requested than permitted",
    "node count specification invalid",
    "requested partition configuration not available",
    "user's group not permitted",
    "access/permission denied",
    "unrecognized option",
    "invalid option",
)
"""Prefixes of sbatch's messages for permanently refused requests, in lower case."""


OVER = ("invalid job id", "already completing or completed")
"""scancel's messages for ended jobs, by version."""

OWN_TERMS = {"invalid account": ("Account", "accounts"), "invalid qos": ("QOS", "QoS")}
"""Slurm's refusals, each with the column of `sacctmgr` that lists accepted values."""

_TERMS_SHOWN = 8
_PROGRAMS = "sbatch|squeue|scancel|scontrol|sacct|sacctmgr"
_HEAD = re.compile(
    rf"^(?:(?:{_PROGRAMS}): )?(?:error: )?(?:Batch job submission failed: |allocation failure: )?"
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """A command's exit code and output."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The last line of its error output for people, without the usual prefix."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return (_HEAD.sub("", lines[-1]) if lines else f"exit code {self.code}")[:300]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Runs Slurm's commands on a host."""

    host: Host
    query_s: float = QUERY_S
    submit_s: float = SUBMIT_S

    def run(self, argv: Sequence[str]) -> Answer:
        """A query's answer; raises Unavailable if the command is missing or late."""
        return self._answer(argv, UTC, self.query_s)

    def query(self, argv: Sequence[str]) -> str:
        """A query's output; raises Unavailable if it fails, for example while the controller is down."""
        answer = self.run(argv)
        if answer.code != 0:
            raise Unavailable(f"{argv[0]}: {answer.complaint}")
        return answer.out

    def submit(self, script: str, variables: Mapping[str, str] = NO_VARIABLES) -> str | None:
        """Submit a script, whose job has these variables; its id, or None if the answer lacks it.

        Raises InvalidInput for a permanent refusal, otherwise Unavailable: then a job may exist.
        """
        answer = self._answer(["sbatch", "--parsable", script], variables, self.submit_s)
        if answer.code != 0:
            if any(refusal in answer.err.lower() for refusal in REFUSALS):
                raise InvalidInput(f"sbatch: {answer.complaint}", hint=self.advice(answer) or None)
            raise Unavailable(f"sbatch: {answer.complaint}")
        return job_id(answer.out)

    def advice(self, answer: Answer) -> str:
        """The accounts or QoS that Slurm accepts from the user, after it refused one; else ""."""
        column, name = next(
            (terms for refusal, terms in OWN_TERMS.items() if refusal in answer.err.lower()), ("", "")
        )
        if not column:
            return ""
        try:
            user = self.query(["id", "-un"]).strip()
            which = ["show", "associations", f"user={user}", f"format={column}"]
            text = self.query(["sacctmgr", "--noheader", "--parsable2", *which])
        except Unavailable:
            return ""
        found = {word for line in text.splitlines() for word in line.strip().split(",") if word}
        return f"your {name} here: {listed(sorted(found), _TERMS_SHOWN) or 'none'}"

    def cancel(self, jobs: Sequence[str]) -> None:
        """Cancel jobs; ended ones are ignored. Raises Unavailable if that fails."""
        answer = self.run(["scancel", *jobs])
        if answer.code != 0 and not any(words in answer.err.lower() for words in OVER):
            raise Unavailable(f"scancel: {answer.complaint}")

    def _answer(self, argv: Sequence[str], variables: Mapping[str, str], timeout_s: float) -> Answer:
        code, out, err = self.host.run(argv, variables={**ENVIRONMENT, **variables}, timeout_s=timeout_s)
        return Answer(code, out.decode(errors="replace"), err.decode(errors="replace"))


class BackgroundReader:
    """Calls `read`, which keeps what it found, in a thread when the last call is old. Thread-safe.

    `read` raises Unavailable, after which the next call comes `again_s` later. `what` names it in the log.
    """

    def __init__(self, read: Callable[[], None], what: str, *, every_s: float, again_s: float) -> None:
        self._read = read
        self._what = what
        self._every_s = every_s
        self._again_s = again_s
        self._lock = Lock()
        self._read_at = self._due_at = float("-inf")
        self._reading = False

    def now(self) -> None:
        """Read now. Raises Unavailable."""
        pause_s = self._again_s
        try:
            self._read()
            pause_s = self._every_s
        finally:
            with self._lock:
                self._read_at = time.monotonic()
                self._due_at = self._read_at + pause_s

    def when_due(self, *, early_s: float | None = None) -> None:
        """Start a read if one is due; `early_s`: also if the last one is older than that."""
        with self._lock:
            due_at = self._due_at if early_s is None else self._read_at + early_s
            if not self._reading and time.monotonic() >= due_at:
                self._reading = True
                Thread(target=self._run, name="slurm-reader", daemon=True).start()

    def _run(self) -> None:
        try:
            self.now()
        except Unavailable as error:
            log.warning("%s could not be read: %s", self._what, error)
        finally:
            self._reading = False


def job_id(text: str) -> str | None:
    """The id printed by `sbatch --parsable`, without other output of a site's wrapper."""
    for line in reversed(text.splitlines()):
        word = line.strip().partition(";")[0]
        if word.isascii() and word.isdigit():
            return word
    return None
