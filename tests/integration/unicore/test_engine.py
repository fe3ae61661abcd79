"""Attempts as jobs of UNICORE: what this engine adds to the one for a Slurm (K6, K7)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engine_harness import BOUND_S, Work, ended, make_launch, running, started, submit
from slurm_harness import AGAIN_S, late
from system_users import needs_root, two_users
from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.sites.engine import SiteEngine
from tarmac.model.errors import Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import ObservedState
from tarmac.model.progress import CauseCode, Outcome
from unicore_far_side import User
from unicore_harness import UnicoreHarness, unicore_engine
from unicore_server import Served, served
from unicore_sites import login

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("unicore")]

SAYS = ("bash", "-c", 'echo "$NAME says $0"; exit ${CODE:-0}')


@pytest.fixture
def harness(tmp_path: Path, slurm: dict[str, str]) -> Iterator[UnicoreHarness]:
    made = UnicoreHarness(tmp_path, slurm)
    yield made
    made.close()


def until(fits: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_S
    while not fits():
        assert time.monotonic() < deadline
        Event().wait(AGAIN_S)


def with_hooks(harness: UnicoreHarness, *, before: int = 0, after: int = 0, **wanted: Any) -> str:
    """Submit an attempt with commands on the login node, which exit with these codes; its id."""
    launch = harness.launch(Work(output="work\n"), **wanted)
    hooks = {
        "before_login": ((*SAYS, "first"), ("env", f"CODE={before}", *SAYS, "second")),
        "before": ((*SAYS, "on the node"),),
        "after_login": (("env", f"CODE={after}", *SAYS, "last"),),
    }
    launch = launch._replace(hooks=hooks, setup_env={**launch.setup_env, "NAME": "it's $HOME"})
    harness.engine.submit(harness.engine.render(launch))
    return launch.attempt_id


def setup_log(harness: UnicoreHarness, attempt: str) -> list[str]:
    text = harness.engine.read(attempt, "logs/setup.n1.log").decode()
    return [line for line in text.splitlines() if not line.startswith("+ ")]


def test_k6_login_commands_run_on_the_login_node_around_the_job(harness: UnicoreHarness) -> None:
    attempt = with_hooks(harness)
    over = harness.settle(attempt, ended)
    assert (over.outcome, over.cause) == (Outcome.COMPLETED, None)
    said = [f"it's $HOME says {who}" for who in ("first", "second", "on the node", "last")]
    assert setup_log(harness, attempt) == said
    described = next(iter(harness.site.site.jobs.values())).described
    assert described["RunUserPrecommandOnLoginNode"] == "true"
    assert described["RunUserPostcommandOnLoginNode"] == "true"


def test_k6_a_failed_login_command_before_the_job_ends_the_attempt(harness: UnicoreHarness) -> None:
    attempt = with_hooks(harness, before=5)
    over = harness.settle(attempt, ended)
    assert over.outcome is Outcome.FAILED
    assert over.cause is not None
    assert over.cause.code is CauseCode.SETUP_FAILED
    assert "login node" in over.cause.message
    assert "<5>" in over.cause.message
    assert harness.command("squeue", "--noheader", "--me") == ""


def test_k6_a_failed_login_command_after_the_job_counts(harness: UnicoreHarness) -> None:
    attempt = with_hooks(harness, after=6)
    over = harness.settle(attempt, ended)
    assert over.outcome is Outcome.FAILED
    assert over.cause is not None
    assert "<6>" in over.cause.message
    assert setup_log(harness, attempt)[-1] == "it's $HOME says last"


def test_k6_a_stopped_attempt_runs_no_commands_after_it(harness: UnicoreHarness) -> None:
    launch = harness.launch(Work(lasts=True))
    launch = launch._replace(hooks={"after_login": ((*SAYS, "last"),)})
    harness.engine.submit(harness.engine.render(launch))
    harness.at_work(launch.attempt_id)
    harness.engine.request_leave(launch.attempt_id, LeaveRequest.STOP)
    assert harness.settle(launch.attempt_id, ended).outcome is Outcome.STOPPED
    site = harness.site.site
    job = next(iter(site.jobs.values()))
    until(lambda: job.status in ("SUCCESSFUL", "FAILED"))
    assert "says last" not in (harness.home / "runs/run1/attempts/1/logs/setup.n1.log").read_text()


def test_a_request_can_be_printed_with_its_login_commands(harness: UnicoreHarness) -> None:
    launch = harness.launch(Work())._replace(hooks={"before_login": ((*SAYS, "first"),)})
    assert "says $0" in str(harness.engine.render(launch))


def test_a_job_that_the_batch_system_refuses_fails_with_its_words(harness: UnicoreHarness) -> None:
    launch = harness.launch(Work())
    launch = launch._replace(batch=launch.batch._replace(directives={"partition": "nowhere"}))
    harness.engine.submit(harness.engine.render(launch))
    over = harness.settle(launch.attempt_id, ended)
    assert over.outcome is Outcome.FAILED
    assert over.cause is not None
    assert "invalid partition" in over.cause.message.lower()


@pytest.mark.parametrize("lost", ["POST /jobs", "/actions/start", "PUT /storages"])
def test_an_attempt_whose_submission_had_no_answer_runs_once(harness: UnicoreHarness, lost: str) -> None:
    launch = harness.launch(Work(output="once\n"))
    request = harness.engine.render(launch)
    harness.settle(submit(harness, Work(), run_id="other"), ended)
    harness.site.site.knobs.fails_after = [lost]
    with pytest.raises((Unavailable, OSError)):
        harness.engine.submit(request)
    harness.engine = harness.open()  # the server that made it is gone
    harness.engine.submit(request)
    assert harness.settle(launch.attempt_id, ended).outcome is Outcome.COMPLETED
    assert harness.engine.read(launch.attempt_id, "logs/main.0.0.log") == b"once\n"
    ours = [
        job for job in harness.site.site.jobs.values() if launch.attempt_id in job.described.get("Tags", ())
    ]
    assert len(ours) == 1


def test_while_the_site_is_down_nothing_ends_and_the_next_server_adopts_all(harness: UnicoreHarness) -> None:
    attempt = started(harness, Work(lasts=True))
    harness.site.site.knobs.down = True
    with pytest.raises(Unavailable, match="shutting down"):
        harness.engine.observe([attempt])
    harness.site.site.knobs.down = False
    harness.engine = harness.open()
    seen = harness.settle(attempt, running)
    assert seen.native is not None
    assert "there" not in seen.native.id
    harness.engine.request_leave(attempt, LeaveRequest.STOP)
    assert harness.settle(attempt, ended).outcome is Outcome.STOPPED


def test_a_site_that_forbids_raw_runs_attempts(harness: UnicoreHarness) -> None:
    harness.site.site.knobs.forbids_raw = True
    attempt = submit(harness, Work(output="said\n"), nodes=2)
    over = harness.settle(attempt, ended)
    assert (over.outcome, over.nodes) == (Outcome.COMPLETED, ("n1", "n2"))
    assert harness.engine.read(attempt, "logs/main.0.0.log") == b"said\n"


@pytest.fixture
def two(tmp_path_factory: pytest.TempPathFactory, slurm: dict[str, str]) -> Iterator[Served]:
    """A site whose two users are system users."""
    with two_users() as accounts:
        users = [
            User(name, f"pass of {name}", Path(account.pw_dir), account)
            for name, account in zip(("ada", "bob"), accounts, strict=True)
        ]
        with served(tmp_path_factory.mktemp("site"), users, slurm) as made:
            yield made


@needs_root
@pytest.mark.skipif(
    shutil.which("python3", path="/usr/bin") is None, reason="users need a Python of their own"
)
def test_two_users_of_a_site_neither_read_nor_end_runs_of_each_other(two: Served, tmp_path: Path) -> None:
    def engine(name: str, owner: str) -> SiteEngine:
        directory = two.site.users[owner].directory / "tarmac"
        settings = {
            "url": two.url,
            "directory": str(directory),
            "partition": "batch",
            "python": "/usr/bin/python3",
        }
        supplies = Supplies(copies=tmp_path / name)
        return unicore_engine({**settings, "ca": str(two.ca)}, supplies, login(two, name))

    ada, bob = engine("ada", "ada"), engine("bob", "ada")
    launch = late(make_launch(("bash", "-c", "id -un; exec sleep 3600")))
    ada.submit(ada.render(launch))
    attempt = launch.attempt_id
    until(lambda: ada.observe([attempt])[attempt].state is ObservedState.RUNNING)
    until(lambda: bool(ada.read(attempt, "logs/main.0.0.log")))
    account = two.site.users["ada"].account
    assert account is not None
    assert ada.read(attempt, "logs/main.0.0.log").decode().strip() == account.pw_name
    with pytest.raises((Unavailable, OSError)):
        bob.read(attempt, "logs/main.0.0.log")
    with pytest.raises((Unavailable, OSError)):
        bob.request_leave(attempt, LeaveRequest.STOP)
    assert ada.observe([attempt])[attempt].state is ObservedState.RUNNING
    ada.request_leave(attempt, LeaveRequest.STOP)
    until(lambda: ada.observe([attempt])[attempt].outcome is Outcome.STOPPED)
