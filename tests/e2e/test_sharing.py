"""Time sharing end to end (I11, I12, I15): a real server, real processes, turns and periods of seconds.

Cycle runs count by what was seen of them; interruptible runs share periods, are preempted and get their time
back. The story of the second half is the one that `make sharing` shows to people. Times on record are held
against each other, not against a clock: what is late on a busy machine is not wrong. That promises hold
however late everything is is shown in virtual time (tests/simulation/test_promised_time.py).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from processes import home_at
from tarmac import api
from tarmac.client import Client

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from sharing import CARELESS, INTERRUPTIBLE, PROVES, ROUNDING_S, Sharing, claims

pytestmark = [pytest.mark.timeout(900), pytest.mark.heavy]

CYCLES = pytest.mark.xdist_group("cycles")
STORY = pytest.mark.xdist_group("sharing")
"""What is played once for several tests is played in one process."""

PATIENCE_S = 300.0
TURN_S = 3.0
"""Long enough for a script to start and to save where four busy processes share each core."""

SETTINGS = f"""\
[[local]]
nodes = 2
slots = 2

[pools.default]
turn = "{TURN_S}s"
"""

RUN_FILE = """\
name: {name}
mode: cycle
max_rapid_cycles: {turns}
slots: 1
code: .
command: [{python}, -S, {script}]
"""

SCRIPTS = {
    "saves and resumes": """
import json, os, time, tarmac
print(json.dumps(dict(os.environ)), flush=True)
found = tarmac.latest_checkpoint()
step = int((found / "step").read_text()) if found else 0
while not tarmac.should_pause():
    step += 1
    with tarmac.checkpoint(step, keep=1) as directory:
        (directory / "step").write_text(str(step))
    time.sleep(0.05)
""",
    "saves without the SDK": """
import json, os, time
print(json.dumps(dict(os.environ)), flush=True)
path = os.environ["OUTPUT_PATH"] + "/checkpoint.pt"
step = int(open(path).read()) if os.path.exists(path) else 0
while True:
    step += 1
    with open(path + ".temp", "w") as file:
        file.write(str(step))
    os.replace(path + ".temp", path)
    time.sleep(0.05)
""",
    "saves nothing": "import time\nprint('hello', flush=True)\ntime.sleep(600)\n",
    "saves, but begins anew": """
import time, tarmac
with tarmac.checkpoint() as directory:
    (directory / "state").write_text("whole")
time.sleep(600)
""",
    "fails when resumed": """
import sys, time, tarmac
if tarmac.latest_checkpoint():
    sys.exit(3)
with tarmac.checkpoint(1) as directory:
    (directory / "state").write_text("whole")
time.sleep(600)
""",
    "is done early": "import sys\nprint('done')\n",
}


class Cycles:
    """What became of the cycle runs, by what their scripts do."""

    def __init__(self, home: Path, runs: dict[str, api.Run], attempts: dict[str, list[api.Attempt]]) -> None:
        self.home = home
        self.runs = runs
        self.attempts = attempts

    def environments(self, name: str) -> list[dict[str, str]]:
        """What each attempt found in its environment."""
        logs = self.home / "runs" / self.runs[name].id / "attempts"
        numbers = [str(attempt.number) for attempt in self.attempts[name]]
        return [
            json.loads((logs / number / "logs/main.0.0.log").read_text().splitlines()[0])
            for number in numbers
        ]


@pytest.fixture(scope="module")
def cycles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cycles]:
    """Every script in a cycle run of its own; they take turns on four slots."""
    directory = tmp_path_factory.mktemp("cycles")
    (directory / "home").mkdir()
    (directory / "home/settings.toml").write_text(SETTINGS)
    with home_at(directory / "home"), Client(home=directory / "home") as client:
        runs = {}
        for number, (name, script) in enumerate(SCRIPTS.items()):
            (directory / f"{number}.py").write_text(script)
            source = RUN_FILE.format(name=f"r{number}", turns=2, python=sys.executable, script=f"{number}.py")
            code = source.replace("code: .", f"code: {directory}")
            runs[name] = client.submit(code, directory=directory)
        ended = {name: client.wait(run.id, timeout_s=PATIENCE_S) for name, run in runs.items()}
        attempts = {name: client.attempts(run.id) for name, run in runs.items()}
        yield Cycles(directory / "home", ended, attempts)


@CYCLES
@pytest.mark.parametrize("name", ["saves and resumes", "saves without the SDK"])
def test_a_cycle_run_that_goes_on_from_its_checkpoint_is_proven(cycles: Cycles, name: str) -> None:
    """I11: two turns, and the second read what the first had left."""
    run = cycles.runs[name]
    assert run.outcome == "completed"
    assert run.cause is None
    report = run.cycle_report
    assert report is not None
    assert (report.turns, report.committed, report.resumed, report.proven) == (
        2,
        True,
        True,
        True,
    )
    assert report.first_output_s is not None
    assert [attempt.milestones.read_at is not None for attempt in cycles.attempts[name]] == [
        False,
        True,
    ]


@CYCLES
@pytest.mark.parametrize(("name", "committed"), [("saves nothing", False), ("saves, but begins anew", True)])
def test_a_cycle_run_that_never_resumes_is_completed_and_unproven(
    cycles: Cycles, name: str, committed: bool
) -> None:
    """I11: no error, so it is completed; the cycle report says what was not seen."""
    run = cycles.runs[name]
    assert run.outcome == "completed"
    assert run.cause is not None
    assert run.cause.message.startswith("completed, pause and resume unproven")
    report = run.cycle_report
    assert report is not None
    assert (report.turns, report.committed, report.resumed, report.proven) == (
        2,
        committed,
        False,
        False,
    )


@CYCLES
def test_a_cycle_run_that_fails_in_its_second_turn_has_failed(cycles: Cycles) -> None:
    """I11: an error in a turn is the end."""
    run = cycles.runs["fails when resumed"]
    assert (run.outcome, run.turns) == ("failed", 2)
    assert run.cause is not None
    assert run.cause.exit_code == 3


@CYCLES
def test_a_cycle_run_that_is_done_early_is_completed(cycles: Cycles) -> None:
    run = cycles.runs["is done early"]
    assert (run.outcome, run.turns, run.attempt) == ("completed", 1, 1)


@CYCLES
@pytest.mark.parametrize("name", ["saves and resumes", "saves without the SDK"])
def test_turns_are_told_in_the_documented_variables(cycles: Cycles, name: str) -> None:
    """I15: the count grows with every start, from 1; the time is the pool's turn."""
    told = cycles.environments(name)
    assert [env["STRONG_CYCLE_COUNT"] for env in told] == ["1", "2"]
    assert {env["STRONG_CYCLE_TIME_MS"] for env in told} == {str(round(TURN_S * 1000))}
    assert {env["STRONG_COMPUTE_MODE"] for env in told} == {"cycle"}
    assert all(float(env["TARMAC_LEAVE_AT"]) > 0 for env in told)


@CYCLES
def test_turns_last_what_was_promised(cycles: Cycles) -> None:
    for name in ("saves and resumes", "saves without the SDK", "saves nothing"):
        for attempt in cycles.attempts[name]:
            assert attempt.started_at is not None
            assert attempt.ended_at is not None
            assert attempt.ended_at - attempt.started_at >= TURN_S - ROUNDING_S


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Sharing:
    """Three interruptible runs share periods, and cycle runs interrupt them."""
    made = Sharing(tmp_path_factory.mktemp("sharing") / "home")
    made.play()
    return made


@STORY
def test_every_promise_of_the_shared_periods_is_kept(story: Sharing) -> None:
    """I11, I12, I15: shares, cycle reports, slots and variables, as `make sharing` tells them."""
    assert [text for text, kept in claims(story) if not kept] == []


@STORY
def test_who_was_interrupted_gets_its_time_back(story: Sharing) -> None:
    """I12: it goes on with what is left of its block and is told so; in a new period that is its credit."""
    cutters = {story.runs[name].id for name in (PROVES, CARELESS)}
    cuts = 0
    for name in INTERRUPTIBLE:
        stretches = story.rows[name].stretches(story.ended_at)
        for cut, rest in pairwise(stretches):
            if cut.made_way_for not in cutters or cut.started_at is None:
                continue
            cuts += 1
            period_at = max(at for at in story.promised[name] if at <= rest.began_at)
            had_s = sum(each.served_s(period_at, rest.began_at) for each in stretches)
            left_s = story.promised[name][period_at] - had_s
            told_s = rest.allotted_s or 0.0
            assert told_s == pytest.approx(max(0.0, left_s), abs=ROUNDING_S)
    assert cuts


@STORY
def test_two_that_fit_side_by_side_run_so(story: Sharing) -> None:
    """I12: blocks of small gangs are not run one at a time."""
    left, right = (story.rows[name].stretches(story.ended_at) for name in ("left", "right"))
    assert any(
        min(one.ended_at, other.ended_at) > max(one.began_at, other.began_at)
        for one in left
        for other in right
    )
    assert set(INTERRUPTIBLE) == {"wide", "left", "right"}
