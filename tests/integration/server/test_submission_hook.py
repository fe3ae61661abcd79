"""The site's submission hook behind the API: what is asked how often, and what users see of it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import pages
from determined_experiments import GRID, SINGLE, create, logged_in, states, turn
from hook_scripts import hook_script
from served import HELLO, Served, served
from tarmac.client import Client
from tarmac.model.errors import InvalidInput, IsExperiment, Refused
from tarmac.server.settings import SubmissionSettings

RECORDING = """
with open(sys.argv[0] + ".asked", "a") as file:
    file.write(json.dumps(question) + "\\n")
if "no" in question["spec"]["name"]:
    answer = {"reject": "not tonight"}
else:
    answer = {"priority": 7, "reason": "night queue"}
print(json.dumps(answer))
"""
CHANGE = "the site's hook set priority to 7: night queue"
SEARCH = """name: sweep
command: ./train.sh
search: {method: grid, metric: loss}
parameters: {lr: {values: [0.1, 0.2, 0.3]}}
"""


@pytest.fixture
def hooked(tmp_path: Path) -> Iterator[Served]:
    """A server with a hook that records its questions."""
    with served(tmp_path / "home", hook=hook_script(tmp_path, RECORDING)) as made:
        yield made


def questions(tmp_path: Path) -> list[dict[str, object]]:
    path = tmp_path / "hook.py.asked"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_run_is_changed_and_its_user_told(hooked: Served, tmp_path: Path) -> None:
    client = hooked.client()
    run = client.submit(HELLO, overrides={"labels": {"team": "vision"}})
    assert (run.priority, run.spec["hook_changes"]) == (7, [CHANGE])
    assert CHANGE in run.warnings
    assert client.why(run.id).hook_changes == (CHANGE,)
    [question] = questions(tmp_path)
    assert (question["user"], question["labels"]) == ("ada", {"team": "vision"})
    assert (question["kind"], question["clone"], question["dry_run"]) == ("run", False, False)


def test_a_rejected_run_does_not_exist(hooked: Served) -> None:
    client = hooked.client()
    with pytest.raises(Refused, match="the site's submission hook rejects no-go: not tonight"):
        client.submit("name: no-go\ncommand: echo hello\n")
    assert client.runs().runs == []


def test_a_dry_run_shows_the_change(hooked: Served, tmp_path: Path) -> None:
    found = hooked.client().dry_run(HELLO)
    assert (found.run["priority"], found.warnings[-1]) == (7, CHANGE)
    assert [each["dry_run"] for each in questions(tmp_path)] == [True]


def test_a_clone_is_asked_about_again(hooked: Served, tmp_path: Path) -> None:
    client = hooked.client()
    first = client.submit(HELLO)
    client.submit(clone=first.id)
    assert [each["clone"] for each in questions(tmp_path)] == [False, True]


def test_arrays_and_experiments_are_asked_about_once(hooked: Served, tmp_path: Path) -> None:
    client = hooked.client()
    client.submit(HELLO + "array: 0-9\n")
    with pytest.raises(IsExperiment):  # as `tarmac run` tries first
        client.submit(SEARCH)
    created = client.create_experiment(SEARCH)
    assert [each["kind"] for each in questions(tmp_path)] == ["array", "experiment"]
    trial = client.trials(created.id)[0]
    assert trial.run is not None
    assert client.run(trial.run).priority == 7
    assert client.why(trial.run).hook_changes == (CHANGE,)


def test_a_batch_is_asked_about_run_by_run_and_accepted_whole_or_not(hooked: Served, tmp_path: Path) -> None:
    client = hooked.client()
    good = {"source": HELLO}
    with pytest.raises(Refused, match="not tonight"):
        client.submit_all([good, {"source": "name: no\ncommand: x\n"}])
    assert client.runs().runs == []
    assert len(client.submit_all([good, good])) == 2
    assert len(questions(tmp_path)) == 4


def test_a_repeated_submission_is_the_same_run_whatever_the_hook_says_now(tmp_path: Path) -> None:
    number = tmp_path / "number"
    settings = hook_script(tmp_path, f'print(json.dumps({{"priority": int(open({str(number)!r}).read())}}))')
    with served(tmp_path / "home", hook=settings) as made:
        client = made.client()
        number.write_text("1")
        first = client.submit(HELLO, idempotency_key="once")
        number.write_text("2")
        again = client.submit(HELLO, idempotency_key="once")
        assert (again.id, again.priority) == (first.id, 1)
        with pytest.raises(Refused, match="was used for another run"):
            client.submit("command: echo other", idempotency_key="once")


def test_a_wrong_run_file_is_refused_before_the_hook_is_asked(hooked: Served, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="unknown field 'slotz'"):
        hooked.client().submit("command: x\nslotz: 1\n")
    assert questions(tmp_path) == []


def test_a_broken_hook_rejects_and_the_log_has_the_details(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = hook_script(tmp_path, 'sys.exit("cannot reach the quota service")')
    with (
        served(tmp_path / "home", hook=settings) as made,
        caplog.at_level(logging.ERROR),
        pytest.raises(Refused) as refused,
    ):
        made.client().submit(HELLO)
    assert refused.value.message == (
        "hello is not accepted, because the site's submission hook fails: it ended with exit code 1"
    )
    assert "server logs" in (refused.value.hint or "")
    assert "cannot reach the quota service" in caplog.text


def test_a_slow_hook_delays_only_its_own_submission(tmp_path: Path) -> None:
    """The event loop answers, and other submissions pass, while a hook waits."""
    gate = tmp_path / "gate"
    body = f"""
if question["spec"]["name"] == "slow":
    while not os.path.exists({str(gate)!r}):
        time.sleep(0.01)
print("{{}}")
"""
    hook = hook_script(tmp_path, body)
    with served(tmp_path / "home", hook=hook) as made, ThreadPoolExecutor(1) as beside:
        slow = beside.submit(made.client().submit, "name: slow\ncommand: x\n")
        client = made.client()
        assert client.submit(HELLO).name == "hello"
        assert client.version().pid
        assert not slow.done()
        gate.touch()
        assert slow.result().name == "slow"


def test_the_gateway_asks_as_well(hooked: Served, tmp_path: Path) -> None:
    """`det experiment create` and `continue` with another configuration pass the same check."""
    calls, client = logged_in(hooked), hooked.client()
    create(calls, GRID)
    create(calls, SINGLE)
    assert [each["kind"] for each in questions(tmp_path)] == ["experiment", "run"]
    assert {client.run(each.id).priority for each in client.runs().runs} == {7}
    for _ in range(20):
        turn(hooked, 10.0)
    assert states(calls, 2)[0] == "STATE_COMPLETED"
    body = {"id": 2, "overrideConfig": "name: no-go"}
    status, refusal = calls.post("/api/v1/experiments/continue", body)
    assert (status, "not tonight" in refusal["message"]) == (409, True)
    assert calls.post("/api/v1/experiments/continue", {**body, "overrideConfig": "name: more"})[0] == 200
    assert len(questions(tmp_path)) == 4


def documented(tmp_path: Path) -> SubmissionSettings:
    """The example of the page, as printed there."""
    text = (pages.DOCS / "operating/submission-hook.md").read_text(encoding="utf-8")
    [script] = re.findall(r"```python\n(#!.*?)```", text, flags=re.DOTALL)
    path = tmp_path / "hook"
    path.write_text(script)
    path.chmod(0o755)
    return SubmissionSettings(hook=(str(path),), hook_timeout_s=30.0)


def test_the_example_of_the_page_works_as_printed(tmp_path: Path) -> None:
    with served(tmp_path / "home", hook=documented(tmp_path)) as made:
        client: Client = made.client()
        small = client.submit(HELLO + "slots: 2\n")
        assert small.spec["hook_changes"] == ["the site's hook set time limit to 1d: the usual limit here"]
        large = "name: big\ncommand: x\nslots: 4\nlabels: {grant: g-12}\ntime_limit: 2h\n"
        assert "hook_changes" not in client.submit(large).spec
        with pytest.raises(Refused, match="runs of more than 2 slots need a label 'grant'"):
            client.submit("name: big\ncommand: x\nslots: 4\n")
