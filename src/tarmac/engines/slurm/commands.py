"""Slurm's commands, each with a deadline, in an environment of their own. Called by this engine alone.

What they say in failing is told apart here: what will fail again, and what may work later.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tarmac.model.errors import InvalidInput, Unavailable

QUERY_S = 30.0
SUBMIT_S = 90.0
"""How long a command may take. A query that is late is asked again; a job that was submitted is looked up."""

_KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", "SLURM_CONF", "KRB5CCNAME", "XDG_RUNTIME_DIR")
"""Variables such as SLURM_JOB_ID, SBATCH_* and SQUEUE_FORMAT would change what the commands do."""

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

    @property
    def complaint(self) -> str:
        """Its last words, for people."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return (lines[-1] if lines else f"exit code {self.code}")[:300]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Runs Slurm's commands. `variables` are added to their environment, such as PATH or SLURM_CONF."""

    variables: Mapping[str, str] = field(default_factory=dict)
    query_s: float = QUERY_S
    submit_s: float = SUBMIT_S

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None) -> Answer:
        """What a command answers; raises Unavailable where it is not there, or does not answer in time."""
        env = {name: os.environ[name] for name in _KEPT if name in os.environ} | dict(self.variables)
        try:
            done = subprocess.run(
                argv,
                env={**env, "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s or self.query_s,
                check=False,
                start_new_session=True,
                cwd="/",
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{argv[0]} did not answer within {timeout_s or self.query_s:g} s") from None
        except OSError as error:
            raise Unavailable(f"{argv[0]} cannot be run here: {error.strerror}") from None
        return Answer(
            done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )

    def query(self, argv: Sequence[str]) -> str:
        """The output of a query; raises Unavailable where it fails, as while the controller is down."""
        answer = self.run(argv)
        if answer.code != 0:
            raise Unavailable(f"{argv[0]}: {answer.complaint}")
        return answer.out

    def submit(self, script: str) -> str | None:
        """Submit a script; the id of its job, or None where that is not in the answer.

        Raises InvalidInput for what Slurm will never take, Unavailable for the rest: then there may be a job.
        """
        answer = self.run(["sbatch", "--parsable", script], timeout_s=self.submit_s)
        if answer.code != 0:
            said = answer.err.lower()
            if any(refusal in said for refusal in REFUSALS):
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
