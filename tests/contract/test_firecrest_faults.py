"""Every fault of a firecREST that is known: what the user sees, and that nothing is lost or doubled."""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine_harness import BOUND_S, LOG, Work, ended, started, submit
from firecrest_calls import SYSTEM
from firecrest_far_side import FarSide
from firecrest_harness import CLIENT, SECRET, FirecrestHarness
from firecrest_server import Client, Firecrest, serving
from slurm_clusters import Missing, running_slurm
from slurm_harness import TEMPO
from system_users import needs_root, two_users
from tarmac.engines.firecrest.api import Api
from tarmac.engines.firecrest.files import FirecrestFiles
from tarmac.engines.firecrest.jobs import FirecrestJobs, parse_jobs
from tarmac.engines.firecrest.settings import read_settings
from tarmac.engines.sim.clock import VirtualClock
from tarmac.engines.sites.engine import REPORT_LAG_S
from tarmac.launch.compose import secret_launches
from tarmac.model.cluster import Cluster
from tarmac.model.errors import InvalidInput, Refused, Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import ObservedState
from tarmac.model.progress import Outcome
from tarmac.model.secret import SecretForm, SecretUse

SITE = Cluster(name="site", engine="firecrest")

real = [pytest.mark.real_engine, pytest.mark.xdist_group("slurm")]


def jobs_of(firecrest: FirecrestHarness, attempt: str) -> list[str]:
    """The jobs that Slurm has of an attempt."""
    name = f"--name=tarmac-{attempt}"
    return firecrest.command("squeue", "--noheader", "--states=all", name, "--format=%i").split()


# --- submitting ---------------------------------------------------------------------------------------


@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm")
@pytest.mark.parametrize("knows_names", [True, False])
def test_a_lost_answer_submits_no_second_job(firecrest: FirecrestHarness, knows_names: bool) -> None:
    """Also with a server that can neither filter by name nor look further back."""
    firecrest.server.knobs.knows_names = knows_names
    firecrest.server.knobs.loses = 1
    request = firecrest.engine.render(firecrest.launch(Work(output="once\n"), run_id=f"lost-{knows_names}"))
    with pytest.raises(Unavailable, match="upstream request timeout"):
        firecrest.engine.submit(request)
    firecrest.engine = firecrest.open()  # another server continues
    firecrest.engine.submit(request)
    assert firecrest.settle(request.attempt_id, ended).outcome is Outcome.COMPLETED
    assert firecrest.engine.read(request.attempt_id, LOG) == b"once\n"
    assert len(jobs_of(firecrest, request.attempt_id)) == 1
    assert all("env" not in job for job in firecrest.server.submitted)


@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm")
def test_a_job_that_is_missing_at_first_is_waited_for(firecrest: FirecrestHarness) -> None:
    firecrest.engine = firecrest.open(replace(TEMPO, report_lag_s=REPORT_LAG_S))
    firecrest.server.knobs.hides_s = 3.0
    attempt = submit(firecrest, Work())
    assert firecrest.engine.observe([attempt])[attempt].state is not ObservedState.ENDED
    assert firecrest.settle(attempt, ended).outcome is Outcome.COMPLETED


@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm")
def test_a_refusal_of_slurm_is_permanent_and_has_its_words(firecrest: FirecrestHarness) -> None:
    launch = firecrest.launch(Work())
    directives = {"partition": "nope"}
    request = firecrest.engine.render(launch._replace(batch=launch.batch._replace(directives=directives)))
    with pytest.raises(InvalidInput, match="sbatch: Invalid partition name specified"):
        firecrest.engine.submit(request)


@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm")
def test_an_unhealthy_scheduler_is_waited_for_and_no_run_fails(firecrest: FirecrestHarness) -> None:
    """Also where the list of systems says that all is well."""
    attempt = started(firecrest, Work(lasts=True))
    firecrest.server.knobs.sick = True
    with pytest.raises(Unavailable, match="unhealthy"):
        firecrest.engine.observe([attempt])
    failed = {finding.what: finding.text for finding in firecrest.engine.examine(SITE) if not finding.ok}
    assert failed == {"system": "local is unhealthy, and runs wait: scheduler: no answer to a ping"}
    firecrest.server.knobs.lies = True
    (found,) = [finding for finding in firecrest.engine.examine(SITE) if not finding.ok]
    assert (found.what, "unhealthy" in found.text) == ("queue", True)
    firecrest.server.knobs.sick = False
    assert firecrest.engine.observe([attempt])[attempt].state is ObservedState.RUNNING
    firecrest.engine.request_leave(attempt, LeaveRequest.STOP)
    assert firecrest.settle(attempt, ended).outcome is Outcome.STOPPED


@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm")
def test_a_server_that_is_away_pauses_the_watching_and_not_the_run(firecrest: FirecrestHarness) -> None:
    attempt = started(firecrest, Work(output="before\n", lasts=True), nodes=2)
    for name in ("jobs", "ls"):
        firecrest.server.knobs.fails[name] = [502, 503, 504, 429]
    failures = 0
    deadline = time.monotonic() + BOUND_S
    while any(firecrest.server.knobs.fails.values()):
        assert time.monotonic() < deadline
        try:
            firecrest.engine.observe([attempt])
        except Unavailable:
            failures += 1
    assert failures
    assert firecrest.engine.observe([attempt])[attempt].state is ObservedState.RUNNING
    firecrest.engine.request_leave(attempt, LeaveRequest.PAUSE)
    assert firecrest.settle(attempt, ended).outcome is Outcome.PAUSED


# --- files --------------------------------------------------------------------------------------------


@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm")
def test_a_file_that_arrives_with_other_content_is_sent_again(firecrest: FirecrestHarness) -> None:
    files = FirecrestFiles(firecrest.api)
    firecrest.server.knobs.corrupts = 1
    files.write(f"{firecrest.near}/small", b"whole")
    assert (firecrest.near / "small").read_bytes() == b"whole"
    firecrest.server.knobs.corrupts = 2
    with pytest.raises(OSError, match="differs from the one that was sent"):
        files.write(f"{firecrest.near}/small", b"whole")


@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm")
def test_of_two_that_create_a_file_one_wins_also_where_the_other_is_a_job(
    firecrest: FirecrestHarness,
) -> None:
    files = FirecrestFiles(firecrest.api)
    path = firecrest.near / "begun"
    assert files.create(str(path), b"taken back") == b"taken back"
    assert files.create(str(path), b"another") == b"taken back"
    job = f"set -o noclobber; echo 7 > {path}"
    assert firecrest.server.clients[CLIENT].far.run(["bash", "-c", job]).returncode != 0
    other = firecrest.near / "other"
    other.write_text("7\n")
    assert files.create(str(other), b"taken back") == b"7\n"
    assert {each.name for each in firecrest.near.iterdir() if each.name.startswith("other")} == {"other"}


@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm")
@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_log_is_read_by_ranges_between_characters(firecrest: FirecrestHarness, has_ranges: bool) -> None:
    firecrest.server.knobs.has_ranges = has_ranges
    files = FirecrestFiles(firecrest.api)
    content = "größer ☃ 🙂\n".encode() * 3
    path = firecrest.near / "main.log"
    path.write_bytes(content)
    for limit in (5, 9):
        offset, pieces = 0, []
        while piece := files.read(str(path), offset=offset, limit=limit):
            pieces.append(piece)
            offset += len(piece)
        assert b"".join(pieces) == content
    assert content.endswith(files.read(str(path), offset=-7, limit=7) or b"-")
    other = firecrest.near / "other.log"
    other.write_bytes(b"\xff\xfe" * 10)
    assert files.read(str(other), offset=3, limit=4) == b"\xfe\xff\xfe\xff"


@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm")
def test_paths_that_the_site_does_not_offer_are_named(firecrest: FirecrestHarness) -> None:
    with pytest.raises(OSError, match="does not match any of the defined filesystem paths"):
        FirecrestFiles(firecrest.api).listing("/etc")


@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm")
def test_the_first_job_unpacks_what_came_and_later_ones_find_it(firecrest: FirecrestHarness) -> None:
    """What travels goes up once, in parts; nothing is left of them."""
    first = submit(firecrest, Work())
    assert firecrest.settle(first, ended).outcome is Outcome.COMPLETED
    uploads = firecrest.server.calls["upload"]
    second = submit(firecrest, Work(), run_id="run2")
    assert firecrest.settle(second, ended).outcome is Outcome.COMPLETED
    assert firecrest.server.calls["upload"] - uploads <= 4
    assert list((firecrest.home / "packed").iterdir()) == []
    assert firecrest.home.stat().st_mode & 0o777 == 0o700


@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm")
def test_the_key_of_secrets_is_in_no_script_and_no_request_and_gone_once_the_job_began(
    firecrest: FirecrestHarness,
) -> None:
    firecrest.secrets = lambda _names: {"plain": "the value"}
    use = SecretUse(name="plain", form=SecretForm.VARIABLE, variable="PLAIN")
    script = 'echo "$PLAIN"; env | grep -c TARMAC_SEALED_KEY; exit 0'
    launch = firecrest.launch(Work(), argvs={0: ("bash", "-c", script)})
    request = firecrest.engine.render(launch._replace(secrets=secret_launches([use])))
    firecrest.hold_the_queue(True)
    firecrest.engine.submit(request)
    key = request.directory / "sealed.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text().strip() not in json.dumps(firecrest.server.submitted)
    firecrest.hold_the_queue(False)
    assert firecrest.settle(request.attempt_id, ended).outcome is Outcome.COMPLETED
    assert firecrest.engine.read(request.attempt_id, LOG) == b"the value\n0\n"
    assert list(request.directory.glob("sealed.*")) == []


@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm")
def test_a_session_is_refused_with_a_reason(firecrest: FirecrestHarness) -> None:
    attempt = started(firecrest, Work(lasts=True))
    with pytest.raises(Refused, match="no session can be opened at site: its interface reaches no nodes"):
        firecrest.engine.open_session(attempt, firecrest.engine.workers(attempt)[0])


@pytest.fixture
def shared_slurm() -> Iterator[tuple[dict[str, str], Path]]:
    """A Slurm for every user of this machine, and a directory that all may enter."""
    with tempfile.TemporaryDirectory(prefix="shared") as name:
        place = Path(name)
        place.chmod(0o755)
        try:
            with running_slurm(place / "slurm", cpus_per_node=2) as variables:
                yield variables, place
        except Missing as missing:
            pytest.skip(str(missing))


@needs_root
@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm")
def test_two_users_neither_read_nor_end_each_others_jobs(shared_slurm: tuple[dict[str, str], Path]) -> None:
    variables, place = shared_slurm
    firecrest = FirecrestHarness(place / "far", variables)
    attempt = started(firecrest, Work(lasts=True))
    with two_users() as (other, _):
        become = ("setpriv", f"--reuid={other.pw_uid}", f"--regid={other.pw_gid}", "--clear-groups")
        firecrest.server.clients[other.pw_name] = Client(SECRET, FarSide(other.pw_name, become, variables))
        api = firecrest.reach(client=other.pw_name)
        files = FirecrestFiles(api)
        jobs = FirecrestJobs(api, files, "site", read_settings(firecrest.settings()).site.slurm)
        assert jobs.jobs() == []
        with pytest.raises(Unavailable, match="Access/permission denied"):
            jobs.cancel([firecrest.job(attempt)])
        with pytest.raises(OSError, match="Permission denied"):
            files.listing(str(firecrest.home))
    assert firecrest.engine.observe([attempt])[attempt].state is ObservedState.RUNNING
    firecrest.close()


# --- tokens -------------------------------------------------------------------------------------------


def reached(stack: ExitStack, server: Firecrest, *, secret: str = SECRET, **given: Any) -> Api:
    """A connection that the stack closes."""
    api = Api(server.url, SYSTEM, server.token_url, lambda: (CLIENT, secret), **given)
    stack.callback(api.close)
    return api


def test_tokens_of_40_s_last_for_a_watch_of_an_hour() -> None:
    """Servers refuse a token with less than 30 s left, so each is used for a few seconds alone."""
    clock = VirtualClock(1_000.0)
    server = Firecrest({CLIENT: Client(SECRET, FarSide("root", (), {}))}, ("/nowhere",), now=clock.now)
    server.knobs.token_life_s = 40.0
    with serving(server), ExitStack() as stack:
        api = reached(stack, server, clock=clock.now)
        while clock.now() < 4_600.0:
            assert api.get("/status/systems")["systems"]
            clock.advance_to(clock.now() + 4.0)
    assert server.calls["systems"] == 900
    assert 400 <= server.calls["token"] <= 900
    assert server.refused == 0


def test_a_long_token_is_renewed_with_a_minute_left_and_one_that_is_refused_at_once() -> None:
    clock = VirtualClock(1_000.0)
    server = Firecrest({CLIENT: Client(SECRET, FarSide("root", (), {}))}, ("/nowhere",), now=clock.now)
    with serving(server), ExitStack() as stack:
        api = reached(stack, server, clock=clock.now)
        for _ in range(239):
            api.get("/status/systems")
            clock.advance_to(clock.now() + 1.0)
        assert server.calls["token"] == 1
        clock.advance_to(clock.now() + 1.0)
        api.get("/status/systems")
        assert server.calls["token"] == 2
        server.forget_tokens()
        api.get("/status/systems")
        assert server.calls["token"] == 3


def test_a_wrong_secret_is_reported_and_never_printed(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    server = Firecrest({CLIENT: Client(SECRET, FarSide("root", (), {}))}, ("/nowhere",))
    with serving(server), caplog.at_level(logging.DEBUG), ExitStack() as stack:
        api = reached(stack, server, secret="wrong secret")
        with pytest.raises(Unavailable, match="Invalid client secret"):
            api.get("/status/systems")
    assert "wrong secret" not in "".join((*capfd.readouterr(), caplog.text))


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    server = Firecrest({}, ())
    server.url = "http://127.0.0.1:9"
    with ExitStack() as stack, pytest.raises(Unavailable, match=r"no token from http://127\.0\.0\.1:9/token"):
        reached(stack, server).get("/status/systems")


# --- answers ------------------------------------------------------------------------------------------


def record(**given: object) -> dict[str, object]:
    """A job as a server shows it."""
    status = {"state": "PENDING", "stateReason": "None", "exitCode": None, "interruptSignal": None}
    times = {"elapsed": 0, "start": None, "end": None}
    return {"jobId": "7", "name": "tarmac-run1.1", "status": status, "tasks": [], "time": times, **given}


def status(state: str) -> dict[str, object]:
    return {"state": state, "stateReason": "None", "exitCode": None}


def test_a_state_is_its_first_word() -> None:
    (job,) = parse_jobs({"jobs": [record(status=status("CANCELLED by 1001"))]})
    assert (job.id, job.attempt_id, job.state, job.reason) == ("7", "run1.1", "CANCELLED", "")


def test_a_job_whose_steps_run_is_running_though_accounting_lags_behind() -> None:
    """As recorded: the name is 'allocation' then, and the state that of before."""
    task = {"id": "7.batch", "name": "batch", "status": status("RUNNING")}
    (job,) = parse_jobs({"jobs": [record(name="allocation", tasks=[task])]})
    assert (job.attempt_id, job.state) == ("", "RUNNING")


def test_the_components_of_a_job_are_one() -> None:
    parts = [
        record(jobId=f"7+{number}", status=status(state))
        for number, state in enumerate(("COMPLETED", "RUNNING"))
    ]
    (job,) = parse_jobs({"jobs": parts})
    assert (job.id, job.state) == ("7", "RUNNING")


@pytest.mark.parametrize("answer", [{}, {"jobs": [{}]}, {"jobs": "none"}, [], None])
def test_an_answer_in_a_wrong_form_is_no_answer(answer: object) -> None:
    with pytest.raises(Unavailable, match="wrong form"):
        parse_jobs(answer)


def test_no_jobs_are_an_answer() -> None:
    assert parse_jobs({"jobs": None}) == []


# --- checks -------------------------------------------------------------------------------------------


@pytest.mark.real_engine
@pytest.mark.xdist_group("slurm")
def test_the_check_tries_each_step_and_names_the_one_that_failed(firecrest: FirecrestHarness) -> None:
    found = firecrest.engine.examine(SITE)
    assert [finding.what for finding in found] == [
        *("token", "system", "directory", "queue", "account", "delivery")
    ]
    assert all(finding.ok for finding in found), found
    for changes, what, text in (
        ({"system": "other"}, "system", "there is no system other at http"),
        ({"directory": "/etc/tarmac"}, "directory", "/etc/tarmac: The provided path (/etc/tarmac) does not"),
        ({"partition": "none"}, "queue", "pool default: there is no partition none; there are batch"),
        ({"account": "other"}, "account", "other is none of your accounts: proj"),
    ):
        last = firecrest.engine_with(**changes).examine(SITE)[-1]
        assert (last.what, last.ok, last.text[: len(text)]) == (what, False, text)
