"""`FirecrestJobs`: the jobs of a user behind a firecREST. Made by `FirecrestKind`."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tarmac.engines.firecrest.api import Api, ApiError, complaint, wrong_form
from tarmac.engines.sites import examining
from tarmac.engines.sites.examining import Checked
from tarmac.engines.sites.offers import Machine, offer
from tarmac.engines.sites.wire import SiteFiles
from tarmac.engines.slurm.commands import OVER, REFUSALS
from tarmac.engines.slurm.partition import Partition
from tarmac.engines.slurm.queue import NAME_PREFIX, Job, whole_job
from tarmac.engines.slurm.settings import PoolSettings, SlurmSettings
from tarmac.engines.slurm.states import Stage, meaning
from tarmac.model.cluster import Finding
from tarmac.model.errors import InvalidInput, Unavailable, listed

JOBS = "/compute/{system}/jobs"
LONGEST_LOOK_BACK = "7d"
RECORDS_AT_ONCE = 20
_COMPONENT = re.compile(r"([0-9]+)\+[0-9]+")
"""A component of a heterogeneous job: its id precedes the sign."""


class FirecrestJobs:
    """Implements `SiteJobs`."""

    at_login = False

    def __init__(self, api: Api, files: SiteFiles, cluster: str, settings: SlurmSettings) -> None:
        self._api = api
        self._files = files
        self._cluster = cluster
        self._settings = settings

    def submit(self, *, name: str, script: str, directory: str) -> str | None:
        """Variables of a request are never used: firecREST joins them with commas, even in values."""
        job = {"name": name, "working_directory": directory, "script": script}
        try:
            job_id = self._api.post(JOBS, {"job": job}).get("jobId")
        except ApiError as error:
            if any(refusal in error.message.lower() for refusal in REFUSALS):
                raise InvalidInput(f"sbatch: {complaint(error)}") from None
            raise Unavailable(f"sbatch: {complaint(error)}") from None
        return str(job_id) if job_id else None

    def jobs(self) -> Sequence[Job]:
        return self._listed()

    def recorded(self, job_ids: Sequence[str]) -> Sequence[Job]:
        return [job for job_id in job_ids[:RECORDS_AT_ONCE] for job in records(self._api, job_id)]

    def named(self, name: str) -> Job | None:
        """Servers before 2.5.7 know neither parameter: they refuse or ignore them."""
        try:
            found = self._listed(name=name, time_window=LONGEST_LOOK_BACK)
        except Unavailable:
            found = self._listed()
        alike = [job for job in found if job.attempt_id == name.removeprefix(NAME_PREFIX)]
        return max(alike, key=lambda job: (len(job.id), job.id), default=None)

    def cancel(self, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            try:
                self._api.call("DELETE", f"{JOBS}/{job_id}")
            except ApiError as error:
                if error.status != 404 and not any(words in error.message.lower() for words in OVER):
                    raise Unavailable(f"scancel: {complaint(error)}") from None

    def partitions(self) -> Mapping[str, Partition]:
        with wrong_form():
            nodes = self._api.get("/status/{system}/nodes")["nodes"] or []
            return {
                pool.name: offer(self._cluster, pool, list(_machines(nodes, pool)))
                for pool in self._settings.pools
            }

    def examine(self) -> Iterator[Finding]:
        settings, api = self._settings, self._api
        steps: Mapping[str, Callable[[], Checked]] = {
            "token": self._token,
            "system": self._system,
            "directory": lambda: examining.check_directory(self._files, str(settings.directory)),
            "queue": lambda: examining.check_queue(settings.pools, _partitions(api)),
            "account": lambda: examining.check_accounts(settings.pools, _accounts(api)),
        }
        return examining.findings({what: wrong_form()(step) for what, step in steps.items()})

    def _token(self) -> Checked:
        self._api.tokens.current()
        return True, "the client's credentials give one"

    def _system(self) -> Checked:
        api = self._api
        systems = {str(each["name"]): each for each in api.get("/status/systems")["systems"]}
        found = systems.get(api.system)
        if found is None:
            names = listed(sorted(systems), examining.SHOWN) or "none"
            return False, f"there is no system {api.system} at {api.url}; there are {names}"
        sick = [each for each in found.get("servicesHealth") or () if not each.get("healthy", True)]
        if sick:
            words = "; ".join(f"{each.get('serviceType')}: {each.get('message')}" for each in sick)
            return False, f"{api.system} is unhealthy, and runs wait: {words}"
        return True, f"{api.system} is healthy"

    def _listed(self, **params: str) -> list[Job]:
        try:
            return parse_jobs(self._api.get(JOBS, allusers="false", **params))
        except ApiError as error:
            raise Unavailable(complaint(error)) from None


def records(api: Api, job_id: str) -> list[Job]:
    """The records of a job; a new one may have none yet. Raises Unavailable."""
    try:
        return parse_jobs(api.get(f"{JOBS}/{job_id}", allusers="false"))
    except ApiError as error:
        if error.status != 404:
            raise Unavailable(complaint(error)) from None
    return []


def parse_jobs(answer: Any) -> list[Job]:
    """The jobs in an answer, one for all components of a heterogeneous one. Raises Unavailable."""
    components: dict[str, list[Job]] = {}
    with wrong_form():
        for record in answer["jobs"] or ():
            number = str(record["jobId"])
            match = _COMPONENT.fullmatch(number)
            components.setdefault(match[1] if match else number, []).append(_job(record))
    return [replace(whole_job(parts), id=job_id) for job_id, parts in components.items()]


def _job(record: Mapping[str, Any]) -> Job:
    status, times, name = record["status"], record.get("time") or {}, str(record.get("name") or "")
    state, reason = _state(status["state"]), str(status.get("stateReason") or "")
    if meaning(state).stage is Stage.WAITS and any(_is_active(task) for task in record.get("tasks") or ()):
        state = "RUNNING"  # accounting knows the steps of a job before its own start
    return Job(
        id=str(record["jobId"]),
        attempt_id=name.removeprefix(NAME_PREFIX) if name.startswith(NAME_PREFIX) else "",
        state=state,
        reason="" if reason in ("None", "(null)") else reason,
        start_at=_time(times.get("start")),
        end_at=_time(times.get("end")),
    )


def _state(given: Any) -> str:
    """The first word of a state: `CANCELLED by 1001`."""
    text = ",".join(given) if isinstance(given, list) else str(given)
    return re.split("[ ,]", text, maxsplit=1)[0]


def _is_active(task: Mapping[str, Any]) -> bool:
    return meaning(_state((task.get("status") or {}).get("state"))).stage is Stage.ACTIVE


def _time(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _machines(nodes: Iterable[Mapping[str, Any]], pool: PoolSettings) -> Iterator[Machine]:
    names = set(pool.partition.split(","))
    for node in nodes:
        of = node.get("partitions") or ()
        if not names.isdisjoint(of.split(",") if isinstance(of, str) else of):
            yield Machine(str(node["name"]), int(node["cpus"]))


def _partitions(api: Api) -> Mapping[str, str]:
    """The states of all partitions."""
    found = api.get("/status/{system}/partitions")["partitions"]
    return {str(each["name"]): str(each.get("state") or each.get("partition") or "unknown") for each in found}


def _accounts(api: Api) -> list[str]:
    return [str(each["name"]) for each in api.get("/status/{system}/userinfo").get("accounts") or ()]
