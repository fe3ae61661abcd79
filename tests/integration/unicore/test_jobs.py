"""A user's jobs at a site, and what a request with a lost answer leaves (`SiteJobs`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Event

import pytest

from tarmac.engines.slurm.queue import Job
from tarmac.engines.slurm.settings import SlurmSettings
from tarmac.engines.slurm.states import Stage, meaning
from tarmac.engines.unicore.files import UnicoreFiles
from tarmac.engines.unicore.jobs import UnicoreJobs
from tarmac.engines.unicore.settings import read_settings
from tarmac.model.errors import InvalidInput, Unavailable
from unicore_server import Served
from unicore_sites import login

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("unicore")]

BOUND_S = 60.0
SCRIPT = """#!/bin/bash
#SBATCH --job-name=tarmac-{attempt}
#SBATCH --partition={partition}
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
#SBATCH --time=5
#SBATCH --output={home}/{attempt}.log
echo "$tarmac_job" > {home}/{attempt}.began
exec bash -c '{command}'
"""


class Ada:
    """One user's jobs at a site, in a directory of that user."""

    def __init__(self, site: Served, name: str = "ada") -> None:
        self.site = site.site
        self.home = site.site.users[name].directory
        settings = read_settings({"url": site.url, "directory": str(self.home), "partition": "batch"})
        self.settings: SlurmSettings = settings.site.slurm
        access = login(site, name)
        files = UnicoreFiles(access, str(self.home))
        self.jobs = UnicoreJobs("site", access, files, self.settings, group=None)

    def submit(self, attempt: str, command: str, *, partition: str = "batch") -> str | None:
        script = SCRIPT.format(attempt=attempt, partition=partition, home=self.home, command=command)
        return self.jobs.submit(name=f"tarmac-{attempt}", script=script, directory=str(self.home))

    def job(self, attempt: str) -> Job | None:
        """Its only job; None until it is certain that it was started."""
        found = [job for job in self.jobs.jobs() if job.attempt_id == attempt]
        assert len(found) <= 1, found
        return found[0] if found else None

    def until(self, attempt: str, fits: Callable[[Job], bool]) -> Job:
        deadline = time.monotonic() + BOUND_S
        while (job := self.job(attempt)) is None or not fits(job):
            assert time.monotonic() < deadline, job
            Event().wait(0.1)
        return job

    def written(self, name: str) -> str:
        return (self.home / name).read_text()


def over(job: Job) -> bool:
    return meaning(job.state).stage is Stage.OVER


def runs(job: Job) -> bool:
    return job.state == "RUNNING"


@pytest.fixture
def ada(batch: Served) -> Ada:
    return Ada(batch)


def test_a_job_is_our_script_and_shows_its_state_and_number(ada: Ada) -> None:
    job_id = ada.submit("r1.1", "echo said; exit 3")
    job = ada.until("r1.1", over)
    assert (job.id, job.state) == (job_id, "FAILED")
    assert f"job {ada.site.jobs[job.id].batch_id} there" in job.reason
    assert "exit code: <3>" in job.words
    assert ada.site.jobs[job.id].exit_code == 3
    assert ada.written("r1.1.log") == "said\n"
    assert ada.written("r1.1.began").strip() == job_id
    assert ada.jobs.named("tarmac-r1.1") == job
    assert ada.jobs.named("tarmac-r1.2") is None


def test_a_site_that_forbids_raw_gets_resources_in_its_own_words(ada: Ada) -> None:
    ada.site.knobs.forbids_raw = True
    for attempt in ("r1.1", "r1.2"):
        job_id = ada.submit(attempt, "echo said")
        assert job_id is not None
        assert ada.until(attempt, over).state == "COMPLETED"
        assert ada.written(f"{attempt}.log") == "said\n"
        described = ada.site.jobs[job_id].described
        assert described["Resources"] == {"Queue": "batch", "Nodes": "1", "CPUsPerNode": "1", "Runtime": "5m"}
    assert len(ada.site.jobs) == 2
    script = "#!/bin/bash\n#SBATCH --partition=batch\n#SBATCH --exclude=n1\ntrue\n"
    with pytest.raises(InvalidInput, match="no resource for exclude"):
        ada.jobs.submit(name="tarmac-r2.1", script=script, directory=str(ada.home))


def test_a_refusal_of_the_batch_system_is_shown_with_its_words(ada: Ada) -> None:
    ada.submit("r1.1", "true", partition="nowhere")
    job = ada.until("r1.1", over)
    assert job.state == "REFUSED"
    assert "invalid partition" in job.words.lower()


def test_a_job_that_somebody_cancels_or_that_we_abort_is_cancelled(ada: Ada) -> None:
    for attempt, abort in (("r1.1", False), ("r1.2", True)):
        job_id = ada.submit(attempt, "sleep 600")
        assert job_id is not None
        ada.until(attempt, runs)
        if abort:
            ada.jobs.cancel([job_id])
            ada.jobs.cancel([job_id, "no-such-job"])
        else:
            ada.site.run(ada.site.users["ada"], ["scancel", ada.site.jobs[job_id].batch_id])
        assert ada.until(attempt, over).state == "CANCELLED"


def test_an_end_by_the_batch_system_has_its_word_for_the_cause(ada: Ada) -> None:
    """The run goes on in another job, because it reached the wall time."""
    job_id = ada.submit("r1.1", "sleep 600")
    assert job_id is not None
    ada.until("r1.1", runs)
    ada.site.knobs.details = {"JobState": "TIMEOUT"}
    assert ada.until("r1.1", over).state == "TIMEOUT"
    ada.site.knobs.details = {"JobState": "COMPLETING"}
    assert ada.until("r1.1", over).state == "TIMEOUT", "it is read once"
    ada.site.run(ada.site.users["ada"], ["scancel", ada.site.jobs[job_id].batch_id])


def test_a_job_whose_creation_had_no_answer_is_found_by_its_tag_and_never_begins_twice(ada: Ada) -> None:
    """K7: created and never started: it is removed, and submitted again."""
    ada.site.knobs.fails_after = ["POST /jobs"]
    with pytest.raises(Unavailable):
        ada.submit("r1.1", "true")
    assert [job.status for job in ada.site.jobs.values()] == ["READY"]
    assert ada.jobs.named("tarmac-r1.1") is None
    assert ada.site.jobs == {}
    ada.submit("r1.1", "true")
    assert ada.until("r1.1", over).state == "COMPLETED"


def test_a_job_whose_start_had_no_answer_is_the_one(ada: Ada) -> None:
    ada.site.knobs.fails_after = ["/actions/start"]
    with pytest.raises(Unavailable):
        ada.submit("r1.1", "true")
    ada.until("r1.1", over)
    found = ada.jobs.named("tarmac-r1.1")
    assert found is not None
    assert [found.id] == list(ada.site.jobs)


def test_pages_of_two_list_all_jobs(ada: Ada) -> None:
    ada.site.knobs.most_listed = 2
    for number in range(5):
        ada.submit(f"r{number}.1", "true")
    for number in range(5):
        ada.until(f"r{number}.1", over)
    assert len(ada.jobs.jobs()) == 5
    asked = len(ada.site.requests)
    ada.jobs.jobs()
    assert len(ada.site.requests) == asked + 4, "of ended jobs only the list is read again"


def test_login_commands_run_before_and_after_the_job(ada: Ada) -> None:
    """K6"""
    order = ada.home / "order"
    (ada.home / "before_login").write_text(f"echo before >> {order}\n")
    (ada.home / "after_login").write_text(f"echo after >> {order}\n")
    ada.submit("r1.1", f"echo job >> {order}; exit 4")
    ada.until("r1.1", over)
    assert order.read_text().split() == ["before", "job", "after"]
    (ada.home / "before_login").write_text("exit 5\n")
    ada.submit("r1.2", f"echo job >> {order}")
    job = ada.until("r1.2", over)
    assert job.state == "LOGIN_FAILED"
    assert "<5>" in job.words
    assert len(order.read_text().split()) == 3


def test_the_steps_of_a_check_name_the_one_that_failed(batch: Served, ada: Ada) -> None:
    def failed() -> Sequence[str]:
        findings = list(ada.jobs.examine())
        assert all(finding.ok for finding in findings[:-1])
        return [finding.what for finding in findings if not finding.ok]

    assert [finding.what for finding in ada.jobs.examine()] == [
        *("token", "system", "directory", "login node", "queue", "account")
    ]
    assert failed() == []
    ada.site.knobs.forbids_login_node = True
    assert failed() == ["login node"]
    ada.site.hides_root = True
    ada.site.users["ada"].password = "another"
    assert failed() == ["token"]


def test_a_user_neither_sees_nor_ends_jobs_of_another(batch: Served, ada: Ada) -> None:
    bob = Ada(batch, "bob")
    job_id = ada.submit("r1.1", "sleep 600")
    assert job_id is not None
    assert bob.jobs.jobs() == []
    assert bob.jobs.named("tarmac-r1.1") is None
    with pytest.raises(Unavailable, match="denied"):
        bob.jobs.cancel([job_id])
    ada.until("r1.1", runs)
    ada.jobs.cancel([job_id])
