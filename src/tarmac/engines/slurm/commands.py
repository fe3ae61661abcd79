"""Slurm's commands, each with a deadline, in an environment of their own. Called by this engine alone.

What they say in failing is told apart here: what will fail again, and what may work later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tarmac.engines.hosts.host import Host
from tarmac.model.errors import InvalidInput, Unavailable

QUERY_S = 30.0
SUBMIT_S = 90.0
"""How long a command may take. A query that is late is asked again; a job that was submitted is looked up."""

ENVIRONMENT = {"SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}
NO_VARIABLES: Mapping[str, str] = {}
UTC = {"TZ": "UTC0"}
"""For queries: the times in their answers then depend on no machine's zone."""

REFUSALS = (
    "invalid account",
    "invalid partition",
    "invalid qos",
    "node configuration is not available",
    "time limit is invalid",
    "time limit specification required",
    "no partition specified",
    "invalid feature",
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
"""Beginnings of what sbatch says of requests that it will never take, in lower case."""


OVER = ("invalid job id", "already completing or completed")
"""What scancel says of jobs that are over, by version."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @classmethod
    def of(cls, done: tuple[int, bytes, bytes]) -> Answer:
        """Of a command that was run."""
        code, out, err = done
        return cls(code, out.decode(errors="replace"), err.decode(errors="replace"))

    @property
    def complaint(self) -> str:
        """Its last words, for people."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return (lines[-1] if lines else f"exit code {self.code}")[:300]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Runs Slurm's commands on a host."""

    host: Host
    query_s: float = QUERY_S
    submit_s: float = SUBMIT_S

    def run(self, argv: Sequence[str]) -> Answer:
        """What a query answers; raises Unavailable where the command is not there, or late."""
        return Answer.of(self.host.run(argv, variables=ENVIRONMENT | UTC, timeout_s=self.query_s))

    def query(self, argv: Sequence[str]) -> str:
        """The output of a query; raises Unavailable where it fails, as while the controller is down."""
        answer = self.run(argv)
        if answer.code != 0:
            raise Unavailable(f"{argv[0]}: {answer.complaint}")
        return answer.out

    def submit(self, script: str, variables: Mapping[str, str] = NO_VARIABLES) -> str | None:
        """Submit a script, whose job has these variables; its id, or None where that is not in the answer.

        Raises InvalidInput for what Slurm will never take, Unavailable for the rest: then there may be a job.
        """
        given = {**ENVIRONMENT, **variables}
        result = self.host.run(["sbatch", "--parsable", script], variables=given, timeout_s=self.submit_s)
        answer = Answer.of(result)
        if answer.code != 0:
            if any(refusal in answer.err.lower() for refusal in REFUSALS):
                raise InvalidInput(f"sbatch: {answer.complaint}")
            raise Unavailable(f"sbatch: {answer.complaint}")
        return job_id(answer.out)

    def cancel(self, jobs: Sequence[str]) -> None:
        """Cancel jobs; one that is over is no harm. Raises Unavailable where that cannot be."""
        answer = self.run(["scancel", *jobs])
        if answer.code != 0 and not any(words in answer.err.lower() for words in OVER):
            raise Unavailable(f"scancel: {answer.complaint}")


def job_id(text: str) -> str | None:
    """The id that `sbatch --parsable` printed, whatever a site's wrapper printed around it."""
    for line in reversed(text.splitlines()):
        word = line.strip().partition(";")[0]
        if word.isascii() and word.isdigit():
            return word
    return None
