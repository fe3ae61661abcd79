"""`SiteAccess`: a Slurm that is reached by the interface of a site. Made by `SiteEngine`."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tarmac.engines.hosts.host import Host
from tarmac.engines.sites.wire import SiteJobs
from tarmac.engines.slurm.access import Examined
from tarmac.engines.slurm.partition import Partition
from tarmac.engines.slurm.queue import NAME_PREFIX, Job, Place
from tarmac.engines.slurm.script import SlurmRequest
from tarmac.engines.slurm.states import Reason
from tarmac.model.cluster import Finding
from tarmac.model.errors import Refused, Unavailable
from tarmac.node.attempt.protocol import KEY_VARIABLE, SEALED_PREFIX
from tarmac.node.starting import Installation

KEY_FILE = f"{SEALED_PREFIX}key"
"""The key of an attempt's secrets, for its job alone, which removes the file: scripts and requests of jobs
appear in the records of a site."""

TAKE_KEY = f"""if [ -e "$attempt/{KEY_FILE}" ]; then
    read -r {KEY_VARIABLE} < "$attempt/{KEY_FILE}" && export {KEY_VARIABLE}
    rm -f "$attempt/{KEY_FILE}"
fi
"""

REMEMBERED = 8192


class SiteAccess:
    """Implements `SlurmAccess` over the jobs of a site. `host` has its files."""

    def __init__(self, jobs: SiteJobs, host: Host) -> None:
        self._jobs = jobs
        self._host = host
        self._attempts: dict[str, str] = {}

    def jobs(self) -> Mapping[str, Sequence[Job]]:
        found: dict[str, list[Job]] = {}
        for job in self._jobs.jobs():
            named = self._with_attempt(job)
            found.setdefault(named.attempt_id, []).append(named)
        return found

    def recorded(self, job_ids: Sequence[str]) -> Sequence[Job]:
        return [self._with_attempt(job) for job in self._jobs.recorded(job_ids)]

    def named(self, attempt_id: str) -> Job | None:
        return self._jobs.named(f"{NAME_PREFIX}{attempt_id}")

    def submit(self, request: SlurmRequest, variables: Mapping[str, str]) -> str | None:
        if KEY_VARIABLE in variables:
            key = f"{variables[KEY_VARIABLE]}\n".encode()
            self._host.write(request.directory / KEY_FILE, key, private=True)
        name, directory = f"{NAME_PREFIX}{request.attempt_id}", str(request.directory)
        job_id = self._jobs.submit(name=name, script=request.script, directory=directory)
        if job_id is not None:
            self._remember(job_id, request.attempt_id)
        return job_id

    def cancel(self, job_ids: Sequence[str]) -> None:
        self._jobs.cancel(job_ids)

    def partitions(self) -> Mapping[str, Partition]:
        return self._jobs.partitions()

    def place_of(self, job_id: str) -> Place | None:  # noqa: ARG002 - a site shows its user's own jobs alone
        return None

    def exceeded_by(self, job: Job) -> Reason | None:  # noqa: ARG002 - nor the limits of accounts
        return None

    def open_session(self, job_id: str, node: str, installation: Installation) -> socket.socket:  # noqa: ARG002
        raise Refused(
            f"no session can be opened {self._host.where}: its interface reaches no nodes",
            hint="tarmac logs shows what workers print, tarmac files their files",
        )

    def examine(self, examined: Examined) -> Sequence[Finding]:
        findings = list(self._jobs.examine())
        if all(finding.ok for finding in findings):
            try:
                examined.prepare()
                examined.site.read()
                text = "what a run needs is there, for its first job to unpack"
                findings.append(Finding(what="delivery", ok=True, text=text))
            except Unavailable as error:
                findings.append(Finding(what="delivery", ok=False, text=str(error)))
        return findings

    def _with_attempt(self, job: Job) -> Job:
        """The job with its attempt: some records of a site lack the name."""
        if job.attempt_id:
            self._remember(job.id, job.attempt_id)
            return job
        return replace(job, attempt_id=self._attempts.get(job.id, ""))

    def _remember(self, job_id: str, attempt_id: str) -> None:
        if len(self._attempts) >= REMEMBERED:
            self._attempts.clear()
        self._attempts[job_id] = attempt_id
