"""Secrets of attempts that wait in a queue: sealed on the site's disk for as long as they wait, then gone."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from engine_harness import WORKING, Work, ended
from slurm_clusters import install_standin
from slurm_harness import RealSlurmHarness, SlurmHarness, StandInHarness
from tarmac.engines.slurm.script import SlurmRequest
from tarmac.launch.compose import secret_launches
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.progress import CauseCode, Outcome
from tarmac.model.secret import SecretForm, SecretName, SecretUse
from tarmac.node.attempt.protocol import KEY_VARIABLE

pytestmark = pytest.mark.xdist_group("slurm")

MARK = uuid.uuid4().hex[:8]
"""Of this process alone: the same tests may be run beside these, and all processes are looked at."""

VALUES = {"plain": f"plain-{MARK}", "key": f"key-one-{MARK}\nkey-two-{MARK}\n"}
USES = [
    SecretUse(name="plain", form=SecretForm.VARIABLE, variable="PLAIN"),
    SecretUse(name="key", form=SecretForm.FILE, variable="KEY"),
]


def given(_names: Sequence[SecretName]) -> Mapping[str, str]:
    return VALUES


@pytest.fixture
def standin(standin: StandInHarness) -> StandInHarness:
    standin.secrets = given
    return standin


@pytest.fixture(params=["slurm-standin", pytest.param("slurm", marks=pytest.mark.real_engine)])
def slurm_harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SlurmHarness]:
    if request.param == "slurm":
        made: SlurmHarness = RealSlurmHarness(tmp_path / "site", request.getfixturevalue("slurm"))
    else:
        made = StandInHarness(tmp_path / "site", install_standin(tmp_path / "standin"))
    made.secrets = given
    yield made
    made.close()


def wanted(harness: SlurmHarness, script: str, *, nodes: int = 1) -> SlurmRequest:
    """The request of an attempt that is given the secrets."""
    argvs = dict.fromkeys(range(nodes), ("bash", "-c", script))
    launch = harness.launch(Work(), argvs=argvs, nodes=nodes)
    return harness.engine.render(launch._replace(secrets=secret_launches(USES)))


def sealed_files(request: SlurmRequest) -> list[Path]:
    return list(request.directory.glob("sealed.*"))


def files_with_values(*roots: Path) -> list[Path]:
    """The files below these that hold a value."""
    lines = [line.encode() for value in VALUES.values() for line in value.splitlines()]
    files = [path for root in roots for path in root.rglob("*") if path.is_file()]
    return [path for path in files if any(line in path.read_bytes() for line in lines)]


def told_by_slurm(harness: SlurmHarness, job: str) -> str:
    """What Slurm keeps of a job, and what every process of the machine was started with."""
    told = harness.command("scontrol", "show", "job", job)
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                told += (process / "cmdline").read_bytes().decode("latin-1")
            except OSError:
                continue  # it has ended
    return told


def test_values_are_sealed_while_the_job_waits_and_gone_once_it_runs(
    slurm_harness: SlurmHarness, tmp_path: Path
) -> None:
    """N4: in no file, record or argument, before, during and after; the workers of every node have them."""
    slurm_harness.hold_the_queue(True)
    script = f'echo "{WORKING} ${{#PLAIN}} $(wc -c < "$KEY") ${{{KEY_VARIABLE}:-none}}"; exec sleep 3600'
    request = wanted(slurm_harness, script, nodes=2)
    slurm_harness.engine.submit(request)
    (sealed,) = sealed_files(request)
    assert (sealed.stat().st_mode & 0o777, sealed.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert files_with_values(tmp_path) == []
    job, attempt = slurm_harness.job(request.attempt_id), request.attempt_id
    assert not any(line in told_by_slurm(slurm_harness, job) for line in VALUES.values())

    slurm_harness.hold_the_queue(False)
    slurm_harness.at_work(attempt)
    for rank in (0, 1):
        said = slurm_harness.engine.read(attempt, f"logs/main.{rank}.0.log").decode()
        assert said == f"{WORKING} 14 34 none\n"
    assert sealed_files(request) == []
    assert files_with_values(tmp_path) == []
    assert not any(line in told_by_slurm(slurm_harness, job) for line in VALUES.values())
    slurm_harness.engine.request_leave(attempt, LeaveRequest.STOP)
    assert slurm_harness.settle(attempt, ended).outcome is Outcome.STOPPED
    assert files_with_values(tmp_path) == []


def test_one_that_never_begins_leaves_nothing(standin: StandInHarness) -> None:
    standin.hold_the_queue(True)
    request = wanted(standin, "echo never")
    standin.engine.submit(request)
    assert sealed_files(request)
    standin.engine.request_leave(request.attempt_id, LeaveRequest.PAUSE)
    assert standin.settle(request.attempt_id, ended).outcome is Outcome.PAUSED
    assert sealed_files(request) == []


def test_a_job_submitted_twice_opens_its_own(standin: StandInHarness) -> None:
    """The first `sbatch` failed without a job: the second has another key, for another file."""
    standin.knob("down", True)
    request = wanted(standin, 'test "${#PLAIN}" = 14')
    with pytest.raises(Unavailable):
        standin.engine.submit(request)
    standin.knob("down", False)
    standin.engine.submit(request)
    assert standin.settle(request.attempt_id, ended).outcome is Outcome.COMPLETED
    assert sealed_files(request) == []


def test_what_was_submitted_needs_the_values_no_more(standin: StandInHarness) -> None:
    """A secret that is changed or removed while its run waits: it was delivered when that was submitted."""
    standin.hold_the_queue(True)
    request = wanted(standin, 'test "${#PLAIN}" = 14')
    standin.engine.submit(request)

    def gone(_names: Sequence[SecretName]) -> Mapping[str, str]:
        raise InvalidInput("there is no secret 'plain' any more")

    standin.secrets = gone
    standin.engine.submit(request)
    standin.hold_the_queue(False)
    assert standin.settle(request.attempt_id, ended).outcome is Outcome.COMPLETED


def test_a_site_that_keeps_the_key_from_the_job_is_told_so(standin: StandInHarness) -> None:
    standin.hold_the_queue(True)
    request = wanted(standin, "echo never")
    standin.engine.submit(request)
    for path in Path(standin.variables["STANDIN"]).glob("jobs/*.env"):
        path.write_text(path.read_text().replace(KEY_VARIABLE, "OTHER"))
    standin.hold_the_queue(False)
    over = standin.settle(request.attempt_id, ended)
    assert over.cause is not None
    assert over.cause.code is CauseCode.PLATFORM_FAULT
    assert "did not come with the job: its key is missing, or its file" in over.cause.message
