"""The queue as the API answers it, and changes of it as clients send them. Made in `server.queue_records`."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Estimate(BaseModel):
    """When a queued run is likely to start, and by when at the latest; null: not known."""

    model_config = ConfigDict(extra="forbid")

    start_at: float | None
    latest_at: float | None
    basis: str


class NativeStatus(BaseModel):
    """An attempt as the queue of its cluster knows it: id, state and reason are in that system's words."""

    model_config = ConfigDict(extra="forbid")

    id: str
    state: str
    reason: str
    expected_start_at: float | None


class QueueEntry(BaseModel):
    """One line of the queue of a pool. `number` counts from 1, in scheduling order."""

    model_config = ConfigDict(extra="forbid")

    number: int
    id: str
    name: str
    mode: str
    priority: int
    weight: float
    submitted_at: float
    slots_acquired: int
    slots_needed: int
    state: str
    user: str
    project: str
    retry_at: float | None
    estimate: Estimate | None
    native: NativeStatus | None


class QueuePool(BaseModel):
    """The queue of one pool, or a part of it, with those of its rules that say how to read it.

    `total` counts all its runs that were asked for, listed or not.
    """

    model_config = ConfigDict(extra="forbid")

    cluster: str
    pool: str
    policy: str
    preemption: bool
    total: int
    runs: list[QueueEntry]


class ChangeBody(BaseModel):
    """One change of the place of a run; exactly one field beside `run`."""

    model_config = ConfigDict(extra="forbid", title="QueueChange")

    run: str = Field(description="run reference")
    priority: int | None = Field(None, ge=-1_000_000, le=1_000_000)
    weight: float | None = Field(None, gt=0, le=100_000)
    pool: str | None = None
    ahead_of: str | None = Field(None, description="run reference")
    behind_of: str | None = Field(None, description="run reference")
    top: bool = False

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        given = (self.priority, self.weight, self.pool, self.ahead_of, self.behind_of, self.top or None)
        if sum(value is not None for value in given) != 1:
            raise ValueError("exactly one of priority, weight, pool, ahead_of, behind_of and top is needed")
        return self


class ChangesBody(BaseModel):
    """Changes that belong together: checked as if made one after another, then all are made, or none."""

    model_config = ConfigDict(extra="forbid", title="QueueChanges")

    changes: list[ChangeBody] = Field(min_length=1, max_length=10_000)
