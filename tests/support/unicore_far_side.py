"""The far side of the UNICORE of tests: users, files and jobs of a real Slurm. Served by `unicore_server`.

It is this machine: each user of the site is a system user (or the one who tests), whose files and jobs are
handled by commands of that user, as UNICORE's own helper on a login node does. Jobs change in a thread.
"""

from __future__ import annotations

import base64
import pwd
import re
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, RLock
from typing import Any

LOOK_S = 0.05
DIRECTIVES = {
    "Queue": "partition",
    "Nodes": "nodes",
    "GPUsPerNode": "gpus-per-node",
    "MemoryPerNode": "mem",
    "Reservation": "reservation",
    "NodeConstraints": "constraint",
    "QoS": "qos",
}
ENDED = ("SUCCESSFUL", "FAILED")


@dataclass
class Knobs:
    """What the server does wrong, or else than usual."""

    delay_s: float = 0.0
    down: bool = False
    largest: int | None = None
    """The most bytes of a request: a gateway may limit them."""
    fails_after: list[str] = field(default_factory=list)
    """Parts of paths: the next request to each is done, and answered with 502."""
    forgets_sessions: bool = False
    forbids_raw: bool = False
    forbids_login_node: bool = False
    most_listed: int = 1000
    held: bool = False
    """Jobs wait in UNICORE, and reach no batch system."""
    details: dict[str, str] = field(default_factory=dict)
    """What the batch system says of each job, whatever it says itself."""


@dataclass
class User:
    """A user of the site: its account there, which None is the one who tests."""

    name: str
    password: str
    directory: Path
    account: pwd.struct_passwd | None = None
    groups: tuple[str, ...] = ("proj",)


@dataclass
class UnicoreJob:
    """A job as UNICORE knows it."""

    id: str
    owner: str
    described: dict[str, Any]
    directory: Path
    status: str = "READY"
    started: bool = False
    batch_id: str = ""
    message: str = ""
    exit_code: int | None = None
    details: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None
    step: str = ""
    submitted_at: str = field(default_factory=lambda: iso(time.time()))

    def write(self, text: str) -> None:
        self.log.append(f"{iso(time.time())}: {text}")

    def end(self, status: str, message: str = "") -> None:
        self.status, self.message = status, message
        self.write(f"Result: {status}. {message}")


class Refusal(Exception):
    """An error that the client gets, with UNICORE's form."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Unicore:
    """The site: its users, storages and jobs."""

    def __init__(self, directory: Path, users: Sequence[User], variables: Mapping[str, str]) -> None:
        self.directory = directory
        self.users = {user.name: user for user in users}
        self.tokens: dict[str, str] = {}
        self.variables = dict(variables)
        self.knobs = Knobs()
        self.hides_root = False
        self.jobs: dict[str, UnicoreJob] = {}
        self.requests: list[str] = []
        self.preferences: list[str] = []
        self.sessions: dict[str, str] = {}
        self._lock = RLock()
        self._over = Event()

    def counted(self, text: str) -> int:
        """The number of requests with this text."""
        return sum(text in request for request in self.requests)

    # --- who asks --------------------------------------------------------------------------------

    def user_of(self, authorization: str) -> User | None:
        """The user with these credentials; None for anonymous, as after a wrong password."""
        kind, _, value = authorization.partition(" ")
        if kind == "Bearer":
            return self.users.get(self.tokens.get(value, ""))
        if kind != "Basic":
            return None
        name, _, password = base64.b64decode(value).decode().partition(":")
        user = self.users.get(name)
        return user if user is not None and user.password == password else None

    def session(self, given: str | None, user: User | None) -> str | None:
        """The session of a request, or a new one; raises for one that is not known."""
        if given is not None and (self.knobs.forgets_sessions or given not in self.sessions):
            raise Refusal(432, "No such security session")
        if given is None and user is not None:
            given = uuid.uuid4().hex
            self.sessions[given] = user.name
        return given

    # --- files -----------------------------------------------------------------------------------

    def storages(self, user: User) -> dict[str, Path]:
        own = {f"{user.name}-HOME": user.directory} | ({} if self.hides_root else {"ROOT": Path("/")})
        return own | {
            f"{job.id}-uspace": job.directory for job in self.jobs.values() if job.owner == user.name
        }

    def root(self, user: User, storage: str) -> Path:
        try:
            return self.storages(user)[storage]
        except KeyError:
            raise Refusal(404, f"No such resource: {storage}") from None

    def run(
        self, user: User, argv: Sequence[str], *, given: bytes = b"", directory: Path | None = None
    ) -> bytes:
        """Run a command as a user of the site; raises with its words if it fails."""
        done = subprocess.run(
            [*_as(user), *argv],
            input=given,
            capture_output=True,
            env=self.environment(user),
            cwd=directory,
            check=False,
        )
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip()
            raise Refusal(404 if "No such file" in words else 500, words or f"exit code {done.returncode}")
        return done.stdout

    def environment(self, user: User) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "HOME": str(user.directory), "USER": user.name, **self.variables}

    # --- jobs ------------------------------------------------------------------------------------

    def create(self, user: User, described: dict[str, Any]) -> str:
        kind = str(described.get("Job type", "BATCH")).upper()
        if kind == "RAW" and self.knobs.forbids_raw:
            raise Refusal(500, "Could not submit job: Job type 'RAW' is not allowed")
        if kind == "RAW" and "BSS file" not in described:
            raise Refusal(500, "Could not submit job: Job type 'raw' requires 'BSS file'")
        if kind == "ON_LOGIN_NODE" and self.knobs.forbids_login_node:
            raise Refusal(500, "Could not submit job: Execution on login node is disabled")
        job_id = str(uuid.uuid4())
        directory = user.directory / "UNICORE_Jobs" / job_id
        self.run(user, ["mkdir", "-p", "-m", "700", str(directory)])
        job = UnicoreJob(job_id, user.name, described, directory)
        job.write("Created.")
        job.started = str(described.get("haveClientStageIn")).lower() != "true"
        with self._lock:
            self.jobs[job_id] = job
        return job_id

    def job(self, user: User, job_id: str) -> UnicoreJob:
        found = self.jobs.get(job_id)
        if found is None:
            raise Refusal(404, f"No such resource: {job_id}")
        if found.owner != user.name:
            raise Refusal(403, "Access denied")
        return found

    def described(self, job: UnicoreJob) -> dict[str, Any]:
        links = {"workingDirectory": {"href": f"https://elsewhere.invalid/storages/{job.id}-uspace"}}
        facts = {
            "status": job.status,
            "statusMessage": job.message,
            "batchSystemID": job.batch_id or "N/A",
            "name": job.described.get("Name", "N/A"),
            "tags": job.described.get("Tags", []),
            "log": job.log,
            "submissionTime": job.submitted_at,
            "queue": job.described.get("Resources", {}).get("Queue", "N/A"),
            "_links": links,
        }
        return facts if job.exit_code is None else {**facts, "exitCode": str(job.exit_code)}

    def abort(self, job: UnicoreJob) -> None:
        with self._lock:
            if job.status in ENDED:
                return
            if job.batch_id:
                self.run(self.users[job.owner], ["scancel", job.batch_id])
            if job.process is not None:
                job.process.kill()
                job.process.wait()
            job.end("FAILED")

    def delete(self, user: User, job: UnicoreJob) -> None:
        self.abort(job)
        with self._lock:
            del self.jobs[job.id]
        self.run(user, ["rm", "-rf", str(job.directory)])

    def details(self, job: UnicoreJob) -> dict[str, str]:
        if not job.batch_id:
            return {"rawDetailsData": "N/A"}
        return job.details or self._details(job)

    def serve(self) -> None:
        """Bring jobs on, until the site is closed."""
        while not self._over.wait(LOOK_S):
            with self._lock:
                for job in list(self.jobs.values()):
                    if job.started and job.status not in ENDED:
                        try:
                            self._bring_on(job)
                        except Refusal as problem:
                            job.end("FAILED", f"Could not submit job: {problem}")

    def close(self) -> None:
        self._over.set()

    def _bring_on(self, job: UnicoreJob) -> None:
        """One step in the life of a job."""
        if job.step == "":
            job.step = self._login_step(job, "pre", "main")
        elif job.step == "pre":
            self._ends_step(job, "Pre-command(s)", "main")
        elif job.step == "main":
            if job.described.get("Job type") == "ON_LOGIN_NODE":
                job.process, job.status, job.step = self._start(job, _command(job)), "RUNNING", "login"
            elif not self.knobs.held:
                self._submit(job)
        elif job.step == "login":
            self._ends_step(job, "Command", "done")
        elif job.step == "batch":
            self._look(job)
        elif job.step == "post":
            self._ends_step(job, "Post-command(s)", "done")
        if job.step == "done" and job.status not in ENDED:
            job.end("SUCCESSFUL")

    def _login_step(self, job: UnicoreJob, which: str, otherwise: str) -> str:
        command = job.described.get(f"User {which}command")
        if command is None:
            job.status = "QUEUED" if which == "pre" else job.status
            return otherwise
        job.status = "QUEUED" if which == "pre" else "STAGINGOUT"
        job.process = self._start(job, str(command))
        return which

    def _ends_step(self, job: UnicoreJob, what: str, following: str) -> None:
        assert job.process is not None
        code = job.process.poll()
        if code is None:
            return
        job.process = None
        if code != 0:
            job.end("FAILED", f"{what} failed: [Command exited with non-zero exit code: <{code}>.]")
            return
        job.step = following

    def _start(self, job: UnicoreJob, command: str) -> subprocess.Popen[bytes]:
        user = self.users[job.owner]
        return subprocess.Popen(
            [*_as(user), "bash", "-c", command],
            cwd=job.directory,
            env=self.environment(user),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _submit(self, job: UnicoreJob) -> None:
        """Give it to Slurm, with UNICORE's own script as the last line, which stores the exit code."""
        user, described = self.users[job.owner], job.described
        if not described.get("Executable"):
            job.step = "done"
            job.write("No application to execute, changing action status to POSTPROCESSING")
            return
        if described.get("Job type") == "RAW":
            head = self.run(user, ["cat", str(job.directory / described["BSS file"])]).decode()
        else:
            head = self._head(job)
        stored = f"echo $? > {job.directory}/UNICORE_SCRIPT_EXIT_CODE"
        own = f"#!/bin/bash\ncd {job.directory}\n{_command(job)}\n{stored}\n"
        for name, text in (("UNICORE_Job", own), ("bss_submit", f"{head}\n{job.directory}/UNICORE_Job\n")):
            self.run(user, ["tee", str(job.directory / name)], given=text.encode())
            self.run(user, ["chmod", "700", str(job.directory / name)])
        answer = self.run(user, ["sbatch", "./bss_submit"], directory=job.directory).decode()
        job.batch_id = re.findall(r"Submitted\D*(\d+)", answer)[0]
        job.step, job.status = "batch", "QUEUED"
        job.write(f"Submitted to TSI with BSSID={job.batch_id}")

    def _head(self, job: UnicoreJob) -> str:
        """UNICORE's directives for the resources of a job."""
        wanted = job.described.get("Resources", {})
        lines = [
            f"#SBATCH --{DIRECTIVES[name]}={value}" for name, value in wanted.items() if name in DIRECTIVES
        ]
        if "CPUsPerNode" in wanted:
            lines.append(f"#SBATCH --ntasks-per-node={wanted['CPUsPerNode']}")
        if "Runtime" in wanted:
            lines.append(f"#SBATCH --time={int(wanted['Runtime'].removesuffix('m'))}")
        if job.described.get("Project"):
            lines.append(f"#SBATCH --account={job.described['Project']}")
        lines += [f"#SBATCH --output={job.directory}/stdout", f"#SBATCH --chdir={job.directory}"]
        return "\n".join(["#!/bin/bash", "#SBATCH --job-name=UNICORE_job", *lines])

    def _look(self, job: UnicoreJob) -> None:
        details = self._details(job)
        state = details.get("JobState", "UNKNOWN")
        if state in ("PENDING", "CONFIGURING"):
            job.status = "QUEUED"
        elif state in ("RUNNING", "COMPLETING", "SUSPENDED"):
            job.status = "RUNNING"
        else:
            job.details = details
            self._finish(job)

    def _finish(self, job: UnicoreJob) -> None:
        job.write("Job completed on BSS.")
        try:
            text = self.run(self.users[job.owner], ["cat", str(job.directory / "UNICORE_SCRIPT_EXIT_CODE")])
        except Refusal:
            job.end(
                "FAILED",
                "Job did not complete normally on BSS, please check standard error file and job log.",
            )
            return
        job.exit_code = int(text)
        if job.exit_code != 0 and str(job.described.get("IgnoreNonZeroExitCode")).lower() != "true":
            job.end("FAILED", f"User application exited with non-zero exit code: <{job.exit_code}>.")
            return
        job.step = self._login_step(job, "post", "done")

    def _details(self, job: UnicoreJob) -> dict[str, str]:
        text = self.run(self.users[job.owner], ["scontrol", "show", "job", job.batch_id]).decode()
        return dict(pair.split("=", 1) for pair in text.split() if "=" in pair) | self.knobs.details


def _as(user: User) -> tuple[str, ...]:
    if user.account is None:
        return ()
    return ("setpriv", f"--reuid={user.account.pw_uid}", f"--regid={user.account.pw_gid}", "--init-groups")


def _command(job: UnicoreJob) -> str:
    """The line of shell that UNICORE makes of an executable and its arguments."""
    return " ".join([str(job.described.get("Executable", "")), *job.described.get("Arguments", [])])


def iso(at: float) -> str:
    """A time as UNICORE shows it."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%S%z")
