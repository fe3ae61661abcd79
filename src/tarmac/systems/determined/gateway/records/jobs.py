"""The queue in Determined's form: one job for each experiment, or for a standalone run.

Called by the routes about jobs and experiments. A job has the id of its experiment, or run, in tarmac.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tarmac import api
from tarmac.model.experiment import Experiment
from tarmac.model.run import Run
from tarmac.systems.determined.gateway.calls import Call
from tarmac.systems.determined.gateway.numbering import UNCATEGORIZED, experiment_number
from tarmac.systems.determined.gateway.records.experiments import pool_of
from tarmac.systems.determined.gateway.records.written import time_of
from tarmac.systems.determined.gateway.routes.login import user_id
from tarmac.systems.determined.statuses import of_tarmac, queue_word

_SCHEDULED, _QUEUED = "STATE_SCHEDULED", "STATE_QUEUED"


@dataclass(slots=True)
class Job:
    """A job: its queue entries in a pool, in scheduling order, with their runs."""

    id: str
    pool: str
    experiment: Experiment | None
    entries: list[api.QueueEntry] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)


def jobs_of(call: Call, pool: str | None = None) -> list[Job]:
    """The jobs of each pool (or of one pool), in scheduling order."""
    gateway = call.gateway
    pages = gateway.service.plane.queue(call.actor, pool=pool)
    entries = [
        (page, entry) for page in pages for entry in page.entries if queue_word(entry.state) is not None
    ]
    runs = gateway.service.plane.control.store.load_runs([entry.id for _, entry in entries])
    found: dict[tuple[str, str, str], Job] = {}
    for page, entry in entries:
        run = runs.get(entry.id)
        if run is None:
            continue
        trial = run.spec.trial
        job_id = trial.experiment if trial is not None else run.id
        key = (page.cluster, page.pool, job_id)
        if key not in found:
            experiment = gateway.experiments.experiment(job_id) if trial is not None else None
            found[key] = Job(job_id, page.pool, experiment)
        found[key].entries.append(entry)
        found[key].runs.append(run)
    return list(found.values())


def job_records(call: Call, jobs: Sequence[Job], all_jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """The records of jobs, each with the number of jobs ahead of it in its pool."""
    ahead: dict[int, int] = {}
    counts: dict[str, int] = {}
    for job in all_jobs:
        ahead[id(job)] = counts.get(job.pool, 0)
        counts[job.pool] = ahead[id(job)] + 1
    return [_job_record(call, job, ahead[id(job)]) for job in jobs]


def job_summary(call: Call, experiment_id: str) -> dict[str, Any] | None:
    """The queue position of an experiment; None if none of its runs is queued."""
    jobs = jobs_of(call)
    at = next((at for at, job in enumerate(jobs) if job.id == experiment_id), None)
    if at is None:
        return None
    return {"state": _state(jobs[at]), "jobsAhead": sum(job.pool == jobs[at].pool for job in jobs[:at])}


def _job_record(call: Call, job: Job, jobs_ahead: int) -> dict[str, Any]:
    first, run, experiment = job.entries[0], job.runs[0], job.experiment
    number = experiment_number(call.gateway, job.id) if experiment is not None else None
    return {
        "jobId": job.id,
        "type": "TYPE_COMMAND" if experiment is None else "TYPE_EXPERIMENT",
        "entityId": job.id if number is None else str(number),
        "name": run.name if experiment is None else experiment.name,
        "submissionTime": time_of(run.created_at if experiment is None else experiment.created_at),
        "username": first.user,
        "userId": user_id(first.user),
        "resourcePool": job.pool or pool_of(run.spec),
        "isPreemptible": True,
        "priority": of_tarmac(first.priority),
        "weight": first.weight,
        "progress": experiment.progress if experiment is not None else 0.0,
        "allocatedSlots": sum(entry.slots_acquired for entry in job.entries),
        "requestedSlots": sum(entry.slots_needed for entry in job.entries),
        "workspaceId": UNCATEGORIZED,
        "summary": {"state": _state(job), "jobsAhead": jobs_ahead},
    }


def _state(job: Job) -> str:
    words = {queue_word(entry.state) for entry in job.entries}
    return _SCHEDULED if _SCHEDULED in words else _QUEUED
