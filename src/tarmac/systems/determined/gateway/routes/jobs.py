"""`det job list`, `update` and `update-batch`: shows and changes the queue. Listed in `application`.

A job is an experiment, or a standalone run, and has the id of it in tarmac.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tarmac import api
from tarmac.api.cluster_operations import QueueChange
from tarmac.model.errors import InvalidInput
from tarmac.model.experiment import Experiment
from tarmac.model.run import Run
from tarmac.systems.determined.gateway.calls import Call, get, is_descending, page, post, time_of
from tarmac.systems.determined.gateway.changing import Changes, changed, changes_of
from tarmac.systems.determined.gateway.gateway import UNCATEGORIZED, experiment_number
from tarmac.systems.determined.gateway.records import pool_of
from tarmac.systems.determined.gateway.routes.cluster import default_pool
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
    queues = gateway.service.plane.queue(call.actor, pool=pool)
    entries = [
        (queue, entry) for queue in queues for entry in queue.runs if queue_word(entry.state) is not None
    ]
    runs = gateway.service.plane.control.store.load_runs([entry.id for _, entry in entries])
    found: dict[tuple[str, str, str], Job] = {}
    for queue, entry in entries:
        run = runs.get(entry.id)
        if run is None:
            continue
        trial = run.spec.trial
        job_id = trial.experiment if trial is not None else run.id
        key = (queue.cluster, queue.pool, job_id)
        if key not in found:
            experiment = gateway.experiments.experiment(job_id) if trial is not None else None
            found[key] = Job(job_id, queue.pool, experiment)
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


_PLACE = ("priority", "weight", "resourcePool")
_ANCHORS = ("aheadOf", "behindOf")


def _listed(call: Call) -> tuple[list[Job], list[Job]]:
    """The jobs of the requested (or default) pool: in scheduling order, and in the requested order."""
    found = jobs_of(call, call.text("resourcePool") or default_pool(call))
    return found, list(reversed(found)) if is_descending(call) else found


def _jobs(call: Call) -> Any:
    every, shown = _listed(call)
    return page(call, "jobs", shown, lambda part: [{"full": each} for each in job_records(call, part, every)])


def _old_jobs(call: Call) -> Any:
    """The list for 0.23, which requests jobs without a `full` around each."""
    every, shown = _listed(call)
    return page(call, "jobs", shown, lambda part: job_records(call, part, every))


def _stats(call: Call) -> Any:
    """The numbers of queued and scheduled jobs of each pool."""
    counts: dict[str, dict[str, int]] = {
        pool.name: {"queuedCount": 0, "scheduledCount": 0}
        for pool in call.gateway.service.plane.pools(call.actor)
    }
    every = jobs_of(call)
    for job, record in zip(every, job_records(call, every, every), strict=True):
        word = "scheduledCount" if record["summary"]["state"] == "STATE_SCHEDULED" else "queuedCount"
        counts.setdefault(job.pool, {"queuedCount": 0, "scheduledCount": 0})[word] += 1
    return {"results": [{"resourcePool": name, "stats": stats} for name, stats in counts.items()]}


def _update(call: Call) -> Any:
    """Change queue positions: all updates or none. An update applies to every trial of its job."""
    updates = call.field("updates", [])
    if not isinstance(updates, list) or not updates:
        raise InvalidInput("updates: a list of changes of jobs is expected")
    jobs, plane = jobs_of(call), call.gateway.service.plane
    moves: list[QueueChange] = []
    later: list[tuple[str, Changes]] = []
    for update in updates:
        job, name, value = _read(jobs, update)
        if name in _ANCHORS:
            moves += _moves(job, _job(jobs, value), ahead=name == "aheadOf")
            continue
        changes = changes_of({"resources": {name: value}})
        moves += place_changes([entry.id for entry in job.entries], changes)
        if job.experiment is not None:
            later.append((job.id, changes))
    plane.reorder(call.actor, moves, {run.id: f"job {job.id}" for job in jobs for run in job.runs})
    for experiment, changes in later:
        plane.experiments.change_spec(call.actor, experiment, partial(changed, changes=changes))
    return {}


def _read(jobs: list[Job], update: Any) -> tuple[Job, str, Any]:
    """The job of an update, the changed property and its value."""
    if not isinstance(update, Mapping):
        raise InvalidInput("updates: a change is a mapping with 'jobId'")
    job = _job(jobs, update.get("jobId"))
    given = {name: update[name] for name in (*_PLACE, *_ANCHORS) if update.get(name) not in (None, "")}
    if len(given) != 1:
        fields = ", ".join((*_PLACE, *_ANCHORS))
        raise InvalidInput(f"one of {fields} is expected for job {job.id}, not {len(given)}")
    [(name, value)] = given.items()
    return job, name, value


def place_changes(run_ids: Sequence[str], changes: Changes) -> list[QueueChange]:
    """The queue changes of runs."""
    return [
        QueueChange(reference=run_id, **{"pool" if name == "resource_pool" else name: value})
        for name, value in changes.place.items()
        for run_id in run_ids
    ]


def _moves(job: Job, anchor: Job, *, ahead: bool) -> list[QueueChange]:
    """Moves every entry of a job ahead of the first entry of another, or behind its last, in order."""
    if job is anchor:
        return []
    if ahead:
        first = anchor.entries[0].id
        return [QueueChange(reference=entry.id, ahead_of=first) for entry in job.entries]
    last = anchor.entries[-1].id
    return [QueueChange(reference=entry.id, behind_of=last) for entry in reversed(job.entries)]


def _job(jobs: list[Job], reference: Any) -> Job:
    """The job with an id, or with the unique beginning of one.

    Raises InvalidInput if there is none: for NotFound, `det` of 0.23 does not print the server's message.
    """
    text = str(reference or "")
    found = [job for job in jobs if job.id == text] or [
        job for job in jobs if text and job.id.startswith(text)
    ]
    if len({job.id for job in found}) > 1:
        raise InvalidInput(f"{text!r:.60} is the beginning of several jobs", hint="give more of the id")
    if not found:
        raise InvalidInput(f"there is no job {text!r:.60} in the queue", hint="det job list shows their ids")
    return found[0]


ROUTES = (
    get("/api/v1/job-queues-v2", _jobs),
    get("/api/v1/job-queues", _old_jobs),
    get("/api/v1/job-queues/stats", _stats),
    post("/api/v1/job-queues", _update),
)
