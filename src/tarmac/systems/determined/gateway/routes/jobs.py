"""`det job list`, `update` and `update-batch`: shows and changes the queue. Listed in `application`.

A job is an experiment, or a standalone run, and has the id of it in tarmac.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tarmac import api
from tarmac.api.cluster_operations import QueueChange
from tarmac.model.errors import InvalidInput
from tarmac.model.experiment import Experiment
from tarmac.model.run import Run
from tarmac.systems.determined.gateway.calls import Call, Route, time_of
from tarmac.systems.determined.gateway.changing import Changes, changed, changes_of
from tarmac.systems.determined.gateway.gateway import UNCATEGORIZED, experiment_id
from tarmac.systems.determined.gateway.records import pool_of
from tarmac.systems.determined.gateway.routes.cluster import default_pool
from tarmac.systems.determined.gateway.routes.users import user_id
from tarmac.systems.determined.statuses import of_tarmac, queue_word

_SCHEDULED, _QUEUED = "STATE_SCHEDULED", "STATE_QUEUED"


@dataclass(slots=True)
class Job:
    """A job: its queue entries in a pool, in scheduling order, and the run of the first.

    `ahead` is the number of jobs ahead of it in the pool.
    """

    id: str
    pool: str
    experiment: Experiment | None
    ahead: int
    run: Run
    entries: list[api.QueueEntry] = field(default_factory=list)


def jobs_of(call: Call, pool: str | None = None) -> list[Job]:
    """The jobs of each pool (or of one pool), in scheduling order."""
    queues = call.plane.queue(call.actor, pool=pool)
    entries = [
        (queue, entry) for queue in queues for entry in queue.runs if queue_word(entry.state) is not None
    ]
    runs = call.store.load_runs([entry.id for _, entry in entries])
    found: dict[tuple[str, str, str], Job] = {}
    counts = Counter[str]()
    for queue, entry in entries:
        run = runs.get(entry.id)
        if run is None:
            continue
        job_id = experiment_id(run)
        key = (queue.cluster, queue.pool, job_id)
        if key not in found:
            experiment = call.gateway.experiments.experiment(job_id)
            found[key] = Job(job_id, queue.pool, experiment, counts[queue.pool], run)
            counts[queue.pool] += 1
        found[key].entries.append(entry)
    return list(found.values())


def job_summary(call: Call, experiment_id: str) -> dict[str, Any] | None:
    """The queue position of an experiment; None if none of its runs is queued."""
    return next((_summary(job) for job in jobs_of(call) if job.id == experiment_id), None)


def _record(call: Call, job: Job) -> dict[str, Any]:
    first, run, experiment = job.entries[0], job.run, job.experiment
    number = call.gateway.experiment_number(job.id) if experiment is not None else None
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
        "summary": _summary(job),
    }


def _summary(job: Job) -> dict[str, Any]:
    words = {queue_word(entry.state) for entry in job.entries}
    return {"state": _SCHEDULED if _SCHEDULED in words else _QUEUED, "jobsAhead": job.ahead}


_PLACE = ("priority", "weight", "resourcePool")
_ANCHORS = ("aheadOf", "behindOf")


def _jobs(call: Call, *, full: bool = True) -> Any:
    """The jobs of the requested (or default) pool; 0.23 requests them without a `full` around each."""
    found = jobs_of(call, call.text("resourcePool") or default_pool(call))

    def records(part: Sequence[Job]) -> list[dict[str, Any]]:
        return [{"full": _record(call, job)} if full else _record(call, job) for job in part]

    return call.page("jobs", found[::-1] if call.descends else found, records)


def _stats(call: Call) -> Any:
    """The numbers of queued and scheduled jobs of each pool."""
    jobs = jobs_of(call)
    counts = Counter((job.pool, _summary(job)["state"]) for job in jobs)
    pools = dict.fromkeys([pool.name for pool in call.plane.pools(call.actor)] + [job.pool for job in jobs])
    words = {"queuedCount": _QUEUED, "scheduledCount": _SCHEDULED}
    stats = {pool: {name: counts[pool, state] for name, state in words.items()} for pool in pools}
    return {"results": [{"resourcePool": pool, "stats": found} for pool, found in stats.items()]}


def _update(call: Call) -> None:
    """Change queue positions: all updates or none. An update applies to every trial of its job."""
    updates = call.field("updates", [])
    if not isinstance(updates, list) or not updates:
        raise InvalidInput("updates: a list of changes of jobs is expected")
    jobs, plane = jobs_of(call), call.plane
    moves: list[QueueChange] = []
    later: list[tuple[str, Changes]] = []
    for update in updates:
        job, name, value = _read(jobs, update)
        if name in _ANCHORS:
            moves += _moves(job, _job(jobs, value), ahead=name == "aheadOf")
            continue
        changes = changes_of({"resources": {name: value}})
        moves += place_changes([entry.id for entry in job.entries], changes.place)
        if job.experiment is not None:
            later.append((job.id, changes))
    plane.reorder(call.actor, moves, {entry.id: f"job {job.id}" for job in jobs for entry in job.entries})
    for experiment, changes in later:
        plane.experiments.change_spec(call.actor, experiment, partial(changed, changes=changes))


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


def place_changes(run_ids: Sequence[str], place: Mapping[str, Any]) -> list[QueueChange]:
    """The queue changes of runs."""
    return [
        QueueChange(reference=run_id, **{name: value}) for name, value in place.items() for run_id in run_ids
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
    Route("GET", "/api/v1/job-queues-v2", _jobs),
    Route("GET", "/api/v1/job-queues", partial(_jobs, full=False)),
    Route("GET", "/api/v1/job-queues/stats", _stats),
    Route("POST", "/api/v1/job-queues", _update),
)
