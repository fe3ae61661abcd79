"""The content of a trace: jobs with their times and sizes. Made by `traces` and `history`, played by
`playing`.

A job is a trace's word for what becomes a run here.
"""

from dataclasses import dataclass

from tarmac.model.lifecycle import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One line of a trace: its submission, its working time and slots, and its user.

    `user` None: the trace names none, and each job has a user of its own. `limit_s` is its time limit.
    """

    id: str
    name: str
    submitted_at: float
    duration_s: float
    slots: int
    user: str | None = None
    project: str = "default"
    mode: Mode = Mode.BATCH
    priority: int = 0
    weight: float = 1.0
    limit_s: float | None = None
    pool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Jobs in the order of submission. `cluster` is the shape it was published for, if any (`64x8`).

    `digest` identifies the content of its file and the default part of it (empty: another part). `left_out`
    counts the jobs of the file that have no running time or no number of slots.
    """

    name: str
    form: str
    jobs: tuple[Job, ...]
    cluster: str | None = None
    digest: str = ""
    left_out: int = 0
