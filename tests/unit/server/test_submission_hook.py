"""The site's submission hook: what it is asked, what its answers do, how a broken one is refused."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tarmac.dialects.dialect import NO_EXTRAS
from tarmac.dialects.native.reader import read_native
from tarmac.model.errors import InvalidInput, Refused, Unavailable
from tarmac.model.spec import RunSpec
from tarmac.node.processes.programs import LARGEST_BYTES, BrokenProgram, output_of
from tarmac.server.settings import SubmissionSettings, read_settings
from tarmac.server.submission_hook import (
    MOST_WAITING,
    SubmissionHook,
    answered,
    question_of,
)

LIMIT_S = 30.0
KEY = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"  # the form of a key, no real one


def spec_of(more: str = "") -> RunSpec:
    text = f"name: train\ncommand: ./train.sh\nslots: 4\nlabels: {{team: vision}}\n{more}"
    return read_native(text, filename="run.yaml", directory="/work", extras=NO_EXTRAS).spec


def answer(spec: RunSpec, **keys: Any) -> RunSpec:
    return answered(spec, json.dumps(keys).encode())


def asked(spec: RunSpec) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(question_of(spec, user="ada", clone=False, dry_run=False))
    return found


def test_the_question_has_the_run_file_and_who_asks() -> None:
    found = asked(spec_of("project: vision\npool: big\ncluster: lab\n"))
    spec = found.pop("spec")
    assert found == {
        "user": "ada",
        "project": "vision",
        "cluster": "lab",
        "pool": "big",
        "labels": {"team": "vision"},
        "slots": 4,
        "kind": "run",
        "clone": False,
        "dry_run": False,
    }
    assert (spec["command"], spec["slots"]) == ("./train.sh", 4)
    again = json.dumps(spec)  # JSON is YAML: the hook sees what a run file may say
    assert read_native(again, filename="run.yaml", directory="/work").spec.roles == spec_of().roles


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ("", "run"),
        ("array: 0-9\n", "array"),
        ("search: {method: grid, metric: loss}\nparameters: {lr: {values: [1, 2]}}\n", "experiment"),
    ],
)
def test_the_question_tells_a_run_from_an_array_and_an_experiment(more: str, kind: str) -> None:
    assert asked(spec_of(more))["kind"] == kind


def test_no_secret_reaches_the_hook() -> None:
    """A key in plain text is masked, the address of a webhook (often a key) left out."""
    more = f"env: {{HF_TOKEN: {KEY}}}\nnotify: [{{to: 'https://hooks.example.org/{KEY}'}}]\n"
    question = question_of(spec_of(more), user="ada", clone=False, dry_run=False).decode()
    assert KEY not in question
    assert "hooks.example.org" not in question
    assert '"HF_TOKEN":"***"' in question


@pytest.mark.parametrize("keys", [{}, {"reason": "fine"}, {"pool": None, "reject": None}])
def test_an_answer_without_a_change_leaves_the_spec(keys: dict[str, Any]) -> None:
    assert answer(spec_of(), **keys) == spec_of()


def test_each_change_is_recorded_with_its_reason() -> None:
    changed = answer(
        spec_of(),
        cluster="lab",
        pool="small",
        priority=3,
        labels={"queue": "night"},
        time_limit="2h",
        reason="night\nqueue",
    )
    assert (changed.target.cluster, changed.target.pool, changed.priority) == ("lab", "small", 3)
    assert (changed.labels, changed.time_limit_s) == ({"team": "vision", "queue": "night"}, 7200.0)
    assert changed.hook_changes == (
        "the site's hook set cluster to lab: night queue",
        "the site's hook set pool to small: night queue",
        "the site's hook set priority to 3: night queue",
        "the site's hook set labels to queue=night, team=vision: night queue",
        "the site's hook set time limit to 2h: night queue",
    )


def test_a_change_to_the_present_value_is_none() -> None:
    assert answer(spec_of("pool: small\n"), pool="small").hook_changes == ()


def test_slots_at_once_are_limited_over_trials_and_members() -> None:
    search = "search: {method: grid, metric: loss, max_slots: 32}\nparameters: {lr: {values: [1, 2]}}\n"
    trials = answer(spec_of(search), max_slots=8)
    assert trials.search is not None
    assert trials.search.max_slots == 8
    members = answer(spec_of("array: 0-99\n"), max_slots=9)
    assert members.array is not None
    assert (members.array.at_most, members.hook_changes) == (
        2,
        ("the site's hook set most members at once to 2",),
    )
    fewer = answer(spec_of("array: 0-99%1\n"), max_slots=9)
    assert fewer.array is not None
    assert (fewer.array.at_most, fewer.hook_changes) == (1, ())
    assert answer(spec_of(), max_slots=4) == spec_of()
    with pytest.raises(Refused, match=r"rejects train: it requests 4 slots, and 3 are allowed: small share"):
        answer(spec_of(), max_slots=3, reason="small share")


def test_a_rehearsal_stays_on_its_own_cluster() -> None:
    changed = answer(spec_of("rehearse: 2x2\n"), cluster="lab", pool="small", priority=1)
    assert changed.rehearsal == spec_of("rehearse: 2x2\n").rehearsal
    assert (changed.target, changed.priority) == (spec_of("rehearse: 2x2\n").target, 1)


def test_a_rejection_has_the_reason() -> None:
    with pytest.raises(Refused, match="the site's submission hook rejects train: the cluster is full"):
        answer(spec_of(), reject="the cluster is full", pool="ignored")


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("", "its answer is not JSON"),
        ("accepted", "its answer is not JSON"),
        ("[" * 100_000, "its answer is not JSON"),
        ("[]", "its answer is no JSON object"),
        (
            '{"pol": "x", "pool": "y"}',
            "its answer has unknown keys: 'pol' (known: reject, reason, cluster, pool, priority, labels, "
            "time_limit, max_slots)",
        ),
        ('{"command": "rm"}', "its answer has unknown keys: 'command'"),
        ('{"reject": true}', "reject: a text is expected, not True"),
        ('{"priority": "soon"}', "its answer is wrong: priority: "),
        ('{"pool": ["small"]}', "its answer is wrong: pool: "),
        ('{"labels": ["a"]}', "its answer is wrong: labels: "),
        ('{"time_limit": 3600}', "its answer is wrong: time_limit: a duration such as"),
        ('{"max_slots": 0}', "max_slots: a number from 1 is expected, not 0"),
        ('{"max_slots": true}', "max_slots: a number from 1 is expected, not True"),
    ],
)
def test_a_wrong_answer_names_what_is_wrong(output: str, problem: str) -> None:
    with pytest.raises(BrokenProgram) as broken:
        answered(spec_of(), output.encode())
    assert problem in str(broken.value)


def test_an_answer_that_is_no_text_is_a_broken_hook() -> None:
    with pytest.raises(BrokenProgram, match="its answer is not JSON"):
        answered(spec_of(), b'{"reason": "\xff"}')


def run_script(code: str, question: bytes = b"{}", *, timeout_s: float = LIMIT_S) -> bytes:
    return output_of((sys.executable, "-S", "-c", code), question, timeout_s=timeout_s)


def test_a_hook_gets_the_question_and_little_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may leave a large question unread, and gets no variable of the server that may hold a secret."""
    monkeypatch.setenv("DATABASE_PASSWORD", "hidden")
    code = "import os, sys; print(sys.stdin.read(3), 'DATABASE_PASSWORD' in os.environ, os.getcwd())"
    assert run_script(code, b"abc" * 1_000_000) == b"abc False /\n"


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import sys; sys.exit(3)", "it ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "it ended with exit code -9"),
        (f"print('x' * {LARGEST_BYTES + 1})", "it printed more than 64 KiB"),
        (f"import sys; sys.stderr.write('x' * {LARGEST_BYTES + 1})", "it printed more than 64 KiB"),
        ("while True: print('x' * 1000)", "it printed more than 64 KiB"),
    ],
)
def test_a_hook_that_fails_is_broken(code: str, problem: str) -> None:
    with pytest.raises(BrokenProgram, match=problem):
        run_script(code)


def test_what_a_broken_hook_printed_is_kept_for_the_log() -> None:
    with pytest.raises(BrokenProgram) as broken:
        run_script("import sys; sys.exit('no such table: quotas')")
    assert broken.value.details == "no such table: quotas\n"


def test_a_missing_program_is_a_broken_hook() -> None:
    with pytest.raises(BrokenProgram, match="it cannot be started"):
        output_of(("/nonexistent/hook",), b"{}", timeout_s=LIMIT_S)


def test_a_late_hook_is_ended_with_its_children(tmp_path: Path) -> None:
    """The group is ended: a child that holds a lock lets it go."""
    lock = tmp_path / "lock"
    lock.touch()
    child = f"exec 9<{lock}; flock 9; sleep 600 & wait"
    with pytest.raises(BrokenProgram, match="it did not answer within 1 s"):
        output_of(("/bin/bash", "-c", child), b"{}", timeout_s=1.0)
    assert output_of(("/bin/bash", "-c", f"flock {lock} echo free"), b"{}", timeout_s=LIMIT_S) == b"free\n"


def test_a_child_left_behind_does_not_delay_the_answer(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    script = f"exec 9<{lock}; flock 9; sleep 600 & echo answer"
    assert output_of(("/bin/bash", "-c", script), b"{}", timeout_s=LIMIT_S) == b"answer\n"
    assert output_of(("/bin/bash", "-c", f"flock {lock} echo free"), b"{}", timeout_s=LIMIT_S) == b"free\n"


def test_beyond_the_most_submissions_at_a_time_another_is_refused_for_now() -> None:
    hook, gate = SubmissionHook(SubmissionSettings(hook=("/bin/true",))), threading.Event()
    waiting = [hook.begin(gate.wait) for _ in range(MOST_WAITING)]
    with pytest.raises(Unavailable, match="too many submissions wait for the site's hook"):
        hook.begin(gate.wait)
    gate.set()
    assert all(each.result() for each in waiting)
    assert hook.begin(lambda: "again").result() == "again"


def test_the_setting_names_a_program_with_its_arguments(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('[submission]\nhook = ["/bin/echo", "{}"]\nhook_timeout_s = 2\n')
    assert read_settings(path).submission == SubmissionSettings(hook=("/bin/echo", "{}"), hook_timeout_s=2.0)
    plain = tmp_path / "script"
    plain.touch(0o644)
    for program in ("hook.py", "/nonexistent/hook", str(plain)):
        path.write_text(f'[submission]\nhook = ["{program}"]\n')
        with pytest.raises(InvalidInput, match=r"submission\.hook: there is no program at the absolute path"):
            read_settings(path)
