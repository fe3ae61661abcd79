"""What a run can do to the files of its attempt: it harms itself at most, and its word alone ends nothing."""

from __future__ import annotations

import os

import pytest

from attempts import wait_for_end
from engine_harness import LocalHarness, Work, ended, running
from tarmac.model.errors import NotFound, Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.progress import Outcome

FILES = (
    "ask failed attempt.json prepared logs/main.0.0.log logs/main.0.0.idx nodes/node1/claim nodes/node1/wake"
    " nodes/node1/events.jsonl nodes/node1/heartbeat nodes/node1/reports.jsonl nodes/node1/finished"
    " nodes/node1/pause nodes/node1/sync.jsonl"
)

PUT = {
    "fifo": "mkfifo $file",
    "link": "ln -s /etc/passwd $file",
    "link to a fifo": "mkfifo $file.fifo; ln -s $PWD/$file.fifo $file",
    "device": "ln -s /dev/zero $file",
    "directory": "mkdir -p $file/full",
    "gigabytes": "truncate -s 2G $file",
    "a long line": "head -c 3000000 /dev/zero | tr '\\0' x > $file",
    "deep": "head -c 200000 /dev/zero | tr '\\0' '[' > $file",
    "odd values": """echo '{"at": 1e999, "kind": [], "ask": [], "cause": 7, "nodes": 3}' > $file""",
    "other types": """echo '{"at": {}, "kind": "ended", "outcome": {}, "fenced": 0, "nodes": [1]}' > $file""",
    "nothing": ": > $file",
    "gone": ":",
}


def hostile(local: LocalHarness, script: str, **wanted: object) -> str:
    """An attempt whose worker runs a script in the attempt directory; returns once that was done.

    The script begins after the engine has seen the attempt run: whoever destroys a claim before that is lost.
    """
    begin = "cd ../../..; until [ -e go ]; do sleep 0.01; done"
    argv = ("bash", "-c", f"{begin}; {script}; : > done; exec sleep 3600")
    launch = local.launch(Work(), argvs={0: argv}, **wanted)
    local.engine.submit(local.engine.render(launch))
    local.settle(launch.attempt_id, running)
    (local.home / "runs" / launch.run_id / "attempts" / str(launch.number) / "go").touch()
    local.settle(launch.attempt_id, lambda _seen: _is_there(local, launch.attempt_id, "done"))
    return launch.attempt_id


def _is_there(local: LocalHarness, attempt: str, path: str) -> bool:
    try:
        local.engine.read(attempt, path)
    except NotFound:
        return False
    return True


@pytest.mark.parametrize("put", PUT.values(), ids=PUT)
def test_whatever_a_run_puts_in_place_of_its_files_others_go_on_and_it_can_be_stopped(
    local: LocalHarness, put: str
) -> None:
    attempt = hostile(local, f"for file in {FILES}; do rm -rf $file; {put}; done")
    for _ in range(2):  # this server, and the next one
        local.engine.observe([attempt])
        local.engine.workers(attempt)
        local.engine.notices(attempt)
        other = local.launch(Work(output="fine"), run_id=f"other{_}")
        local.engine.submit(local.engine.render(other))
        assert local.settle(other.attempt_id, ended).outcome is Outcome.COMPLETED
        local.reopen()
    try:
        local.engine.request_leave(attempt, LeaveRequest.STOP)
    except Unavailable:
        local.engine.reap(
            attempt
        )  # a directory stands where the ask belongs: what the control plane does next
    local.settle(attempt, ended)


def test_an_end_that_a_worker_wrote_itself_is_not_believed_while_it_lives(local: LocalHarness) -> None:
    forged = '{"at": 1.0, "kind": "ended", "outcome": "completed", "cause": null, "finished": true}'
    attempt = hostile(local, f"echo '{forged}' >> nodes/node1/events.jsonl")
    (worker,) = local.engine.workers(attempt)
    for _ in range(2):
        assert running(local.engine.observe([attempt])[attempt])
        local.reopen()
    assert worker.pid is not None
    os.kill(worker.pid, 9)
    seen = local.settle(attempt, ended)
    assert (seen.outcome, seen.cause and seen.cause.signal) == (Outcome.FAILED, "SIGKILL")
    assert any("written anew" in notice.text for notice in local.engine.notices(attempt))


def test_a_claim_that_is_destroyed_leaves_no_process_behind(local: LocalHarness) -> None:
    attempt = hostile(local, "echo x > nodes/node1/claim")
    pid = local.engine.workers(attempt)[0].pid
    assert pid is not None
    local.reopen()
    assert local.settle(attempt, ended).outcome is Outcome.LOST
    wait_for_end(pid)


@pytest.mark.parametrize(
    ("put", "said"),
    [
        ("rm $file; mkfifo $file", "events.jsonl cannot be read: not a regular file"),
        ("truncate -s 2G $file", "events.jsonl holds more than a runner writes: not all of it is read"),
    ],
    ids=["fifo", "gigabytes"],
)
def test_what_cannot_be_read_is_said(local: LocalHarness, put: str, said: str) -> None:
    attempt = hostile(local, f"file=nodes/node1/events.jsonl; {put}")
    local.engine.observe([attempt])
    assert [notice.text for notice in local.engine.notices(attempt)] == [said]
