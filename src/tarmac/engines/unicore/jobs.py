"""`UnicoreJobs`: a user's jobs at a site. Called by this engine alone.

A job is created first, which gives it an id and a directory; then it gets our script, and is started. Each
has the tags `tarmac` and the id of its attempt, by which it is found after a lost answer: one that was never
started is removed, so that no job begins twice.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Event
from typing import Any

from tarmac.engines.sites import examining
from tarmac.engines.sites.examining import Checked
from tarmac.engines.sites.offers import Machine, offer
from tarmac.engines.slurm.commands import REFUSALS
from tarmac.engines.slurm.partition import Limits, Partition
from tarmac.engines.slurm.queue import NAME_PREFIX, Job
from tarmac.engines.slurm.settings import PoolSettings, SlurmSettings
from tarmac.engines.slurm.states import LOGIN_FAILED, REFUSED, Stage, meaning
from tarmac.engines.unicore import description, states
from tarmac.engines.unicore.client import BYTES, SiteAnswer, Unicore, id_of
from tarmac.engines.unicore.files import UnicoreFiles
from tarmac.model.cluster import Finding
from tarmac.model.errors import InvalidInput, Unavailable, listed

TAG = "tarmac"
AT_ONCE = 8
"""The number of simultaneous requests for the facts about jobs, which the list does not have."""

REMEMBERED = 8192
GONE = 404
INVALID = (400, 422)
LONGEST_MAKING_S = 60
LINES = 2
"""The number of lines of a failed job's log that are shown: the last ones."""

LOGIN_COMMAND = "command(s) failed"
NO_RESOURCE = "is not available for partition"
"""UNICORE's words for a failed user command on the login node, and for a resource that it does not know."""

SLOTS = ("GPUsPerNode", "GPUS")
"""The resource with a node's GPUs: by its usual name, and by one that some sites define."""

MOST_NODES = 4096
"""The most nodes that get a name here: UNICORE shows only their number."""

_RANGE = re.compile(r"[0-9.]+-([0-9]+)(?:\.[0-9]+)?")


class UnicoreJobs:
    """Implements `SiteJobs`."""

    at_login = True

    def __init__(
        self, cluster: str, site: Unicore, files: UnicoreFiles, settings: SlurmSettings, *, group: str | None
    ) -> None:
        self._cluster = cluster
        self._site = site
        self._files = files
        self._settings = settings
        self._group = group
        self._raw = True
        self._over: dict[str, Job] = {}

    def submit(self, *, name: str, script: str, directory: str) -> str | None:
        """Scripts for the login node are in the directory, by the names of their hooks."""
        attempt_id = name.removeprefix(NAME_PREFIX)
        tags = {"Name": name, "Tags": [TAG, attempt_id], "haveClientStageIn": "true"}
        there = [entry.path for entry in self._files.listing(directory) or ()]
        described = {**tags, **description.login_steps(directory, there)}
        job_id = self._created(described, script)
        text = (
            description.raw_script(script, job_id) if self._raw else description.plain_script(script, job_id)
        )
        place = f"/storages/{self._working(job_id)}/files/{description.SCRIPT}"
        self._site.call("PUT", place, content=text.encode(), headers={"Content-Type": BYTES})
        self._site.call("POST", f"/jobs/{job_id}/actions/start", json={})
        return job_id

    def jobs(self) -> Sequence[Job]:
        """All jobs of ours that the site lists: it keeps ended ones for weeks, of which each is read once."""
        ids = list(self._site.listed("jobs", tags=TAG))
        for job_id in self._over.keys() - set(ids):
            self._over.pop(job_id, None)
        return self._read(ids)

    def recorded(self, job_ids: Sequence[str]) -> Sequence[Job]:
        """Jobs that the list lacks; a site may limit how many it shows."""
        return self._read(job_ids)

    def named(self, name: str) -> Job | None:
        attempt_id = name.removeprefix(NAME_PREFIX)
        found = []
        for job_id in self._site.listed("jobs", tags=attempt_id):
            facts = self._facts(job_id)
            if facts is None or attempt_of(facts) != attempt_id:
                continue
            if facts.get("status") == states.READY:  # a lost start can no longer reach it
                self._site.call("DELETE", f"/jobs/{job_id}")
            else:
                found.append((str(facts.get("submissionTime", "")), self._job(job_id, facts)))
        return max(found, key=lambda each: each[0])[1] if found else None

    def cancel(self, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            try:
                self._site.call("POST", f"/jobs/{job_id}/actions/abort", json={})
            except SiteAnswer:
                facts = self._facts(job_id)
                if facts is not None and facts.get("status") not in states.ENDED:
                    raise

    def partitions(self) -> Mapping[str, Partition]:
        resources = self._resources()
        return {pool.name: offers(pool, resources, cluster=self._cluster) for pool in self._settings.pools}

    def examine(self) -> Iterator[Finding]:
        return examining.findings(
            {
                "token": self._token,
                "system": self._system,
                "directory": self._directory,
                "login node": self._login_node,
                "queue": lambda: examining.check_queue(
                    self._settings.pools, dict.fromkeys(self._resources(), "UP")
                ),
                "account": self._account,
            }
        )

    # --- inside ----------------------------------------------------------------------------------

    def _token(self) -> Checked:
        client = self._site.about(again=True)["client"]
        return True, f"{client['xlogin']['UID']}, with the role {client['role']['selected']}"

    def _system(self) -> Checked:
        server = self._site.about().get("server", {})
        jobs = server.get("jobSubmission", {})
        if jobs.get("enabled") is False:
            return False, f"it takes no jobs now: {jobs.get('message') or 'it does not say why'}"
        return True, f"{self._site.url}: UNICORE {server.get('version', 'of an unknown version')}"

    def _directory(self) -> Checked:
        storage = self._files.place().storage
        _, text = examining.check_directory(self._files, str(self._settings.directory))
        return True, f"{text}, on the storage {storage}; nodes must see it"

    def _login_node(self) -> Checked:
        path = examining.probe(str(self._settings.directory))
        try:
            self._files.create(path, b"tried\n")
        finally:
            self._files.remove(path)
        return True, "runs short commands: runs that wait can be taken back, and login hooks run"

    def _account(self) -> Checked:
        client = self._site.about()["client"]
        groups = [str(each) for each in client["xlogin"].get("availableGroups") or ()]
        if self._group is not None and groups and self._group not in groups:
            return False, f"{self._group} is none of your groups there: {listed(groups, examining.SHOWN)}"
        budgets = {name for factory in self._factories() for name in _budgets(factory)}
        return examining.check_accounts(self._settings.pools, sorted(budgets))

    def _factories(self) -> Iterator[Mapping[str, Any]]:
        for factory in self._site.listed("factories"):
            yield self._site.get(f"/factories/{factory}")

    def _resources(self) -> Mapping[str, Mapping[str, Any]]:
        """The resources of all partitions, by name."""
        found: dict[str, Mapping[str, Any]] = {}
        for factory in self._factories():
            found |= factory.get("resources", {})
        return found

    def _created(self, described: Mapping[str, Any], script: str) -> str:
        """Create a job, of the type RAW unless the site forbids that; its id."""
        try:
            if self._raw:
                try:
                    return self._site.create("/jobs", {**described, **description.RAW})
                except SiteAnswer as error:
                    if not description.forbids_raw(error.message):
                        raise
                    self._raw = False
            return self._site.create("/jobs", {**described, **description.described(script)})
        except SiteAnswer as error:
            if error.status in INVALID:
                raise InvalidInput(error.message) from None
            raise

    def _working(self, job_id: str) -> str:
        """The storage that is the directory of a new job, once it is there."""
        link = self._site.get(f"/jobs/{job_id}").get("_links", {}).get("workingDirectory", {}).get("href")
        storage = id_of(str(link or f"{job_id}-uspace"))
        for _ in range(LONGEST_MAKING_S):
            if self._site.get(f"/storages/{storage}").get("resourceStatus") != "INITIALIZING":
                return storage
            Event().wait(1.0)
        raise Unavailable(f"{self._site.url}: the directory of job {job_id} is not there yet")

    def _read(self, job_ids: Sequence[str]) -> list[Job]:
        """The facts about jobs; those of ended ones do not change."""
        missing = [job_id for job_id in job_ids if job_id not in self._over]
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="unicore-jobs") as threads:
            found = dict(zip(missing, threads.map(self._facts, missing), strict=True))
        jobs = [self._over[job_id] for job_id in job_ids if job_id in self._over]
        for job_id, facts in found.items():
            if facts is None:
                continue
            job = self._job(job_id, facts)
            jobs.append(job)
            if meaning(job.state).stage is Stage.OVER and len(self._over) < REMEMBERED:
                self._over[job_id] = job
        return jobs

    def _facts(self, job_id: str) -> Mapping[str, Any] | None:
        try:
            return self._site.get(f"/jobs/{job_id}")
        except SiteAnswer as error:
            if error.status == GONE:
                return None
            raise

    def _job(self, job_id: str, facts: Mapping[str, Any]) -> Job:
        status = str(facts.get("status", ""))
        batch_id = str(facts.get("batchSystemID") or "")
        details: Mapping[str, Any] = {}
        if batch_id not in states.NO_BATCH_JOB and (status in states.WAITING or status in states.ENDED):
            with suppress(SiteAnswer):  # the batch system may have forgotten it
                details = self._site.get(f"/jobs/{job_id}/details")
        perhaps_never_started = status == states.READY  # then it is known by its id alone
        return Job(
            id=job_id,
            attempt_id="" if perhaps_never_started else attempt_of(facts),
            state=_state(status, batch_id, details, str(facts.get("statusMessage") or "")),
            reason=_reason(status, batch_id, details),
            words=_words(facts),
        )


def _budgets(factory: Mapping[str, Any]) -> Sequence[str]:
    """The projects with time left."""
    found = factory.get("remainingComputeTime")
    return [str(name) for name in found] if isinstance(found, dict) else []


def attempt_of(facts: Mapping[str, Any]) -> str:
    """The attempt of a job of ours, by its name, or else by its tags."""
    name = str(facts.get("name", ""))
    if name.startswith(NAME_PREFIX):
        return name.removeprefix(NAME_PREFIX)
    return next((str(tag) for tag in facts.get("tags") or () if tag != TAG), "")


def _state(status: str, batch_id: str, details: Mapping[str, Any], message: str) -> str:
    """A state in Slurm's words: the batch system's own for an end, which UNICORE calls states.FAILED."""
    if status in states.ENDED:
        words = message.lower()
        if status != states.SUCCESSFUL and LOGIN_COMMAND in words:
            return LOGIN_FAILED
        if status != states.SUCCESSFUL and any(refusal in words for refusal in (*REFUSALS, NO_RESOURCE)):
            return REFUSED
        exact = str(details.get("JobState", "")).partition(" ")[0]
        if exact != "COMPLETED" and meaning(exact).stage is not Stage.UNKNOWN:
            return exact  # also of one that has not ended there, such as after an abort
        if status != states.SUCCESSFUL and batch_id in states.NO_BATCH_JOB and not message:
            return "CANCELLED"  # UNICORE gives no reason for an abort
    return states.SLURM_STATES.get(status, status)


def _words(facts: Mapping[str, Any]) -> str:
    """The site's own words about a failure."""
    if facts.get("status") != states.FAILED:
        return ""
    last = [str(line) for line in facts.get("log") or ()][-LINES:]
    return "; ".join(filter(None, (str(facts.get("statusMessage") or ""), *last)))


def _reason(status: str, batch_id: str, details: Mapping[str, Any]) -> str:
    """The batch system's reason for waiting, and its number of the job."""
    if batch_id in states.NO_BATCH_JOB:
        return "not yet in the batch system" if status in states.WAITING else ""
    words = str(details.get("Reason", "")) if status in states.WAITING else ""
    return ", ".join(filter(None, ("" if words in ("None", "(null)") else words, f"job {batch_id} there")))


def offers(pool: PoolSettings, resources: Mapping[str, Mapping[str, Any]], *, cluster: str) -> Partition:
    """The offer of a pool; empty without its partition. Nodes are alike, as far as UNICORE tells."""
    names = [name for name in pool.partition.split(",") if name in resources]
    if not names:
        return Partition()
    found = resources[names[0]]
    gpus = next((most for name in SLOTS if (most := _most(found.get(name)))), 0)
    most_nodes, longest_s = _most(found.get("Nodes")), _most(found.get("Runtime"))
    machines = [
        Machine(
            f"{names[0]}-{number}",
            cpus=_most(found.get("CPUsPerNode")) or 1,
            memory_bytes=_most(found.get("MemoryPerNode")) or None,
        )
        for number in range(1, min(most_nodes or 1, MOST_NODES) + 1)
    ]
    limits = Limits(longest_s=float(longest_s) if longest_s else None, most_nodes=most_nodes or None)
    return offer(cluster, replace(pool, gpus_per_node=pool.gpus_per_node or gpus), machines, limits)


def _most(value: Any) -> int:
    """The upper end of a range `1-4`; 0 for any other form."""
    match = _RANGE.fullmatch(str(value))
    return int(match[1]) if match else 0
