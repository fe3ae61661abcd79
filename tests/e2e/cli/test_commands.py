"""The commands beside `run`, against a real server."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator

import pytest

from shell import LIMIT_S, Screen, Shell

LONG = "name: long\nslots: 1\npause: {grace: 10s}\ncommand: exec sleep 600\n"


@pytest.fixture
def long(settled: Shell) -> Iterator[str]:
    """The id of a run that runs until it is stopped; at the latest after the test."""
    settled.write("long.yaml", LONG)
    run = settled.tarmac("run", "long.yaml", "-d", code=0).stdout
    assert run.endswith("\n")
    settled.wait_until(run.strip(), "running")
    yield run.strip()
    settled.tarmac("stop", "--wait", run.strip())


def test_a_detached_run_can_be_waited_for(settled: Shell) -> None:
    first = settled.tarmac("run", "-d", "--", "bash", "-c", "exit 6", code=0)
    assert first.stderr == ""
    second = settled.tarmac("run", "-d", "--", "true", code=0)
    runs = (second.stdout.strip(), first.stdout.strip())
    assert [run["exit_status"] for run in settled.json("wait", *runs, code=6)["runs"]] == [0, 6]
    result = settled.tarmac("wait", runs[1], code=6)
    assert "error: bash failed" in result.stderr


def test_waiting_may_be_bounded(settled: Shell, long: str) -> None:
    result = settled.tarmac("wait", long, "--timeout", "0.1s", code=124)
    assert result.stderr == "tarmac: long is still running\n"


def test_stopping(settled: Shell, long: str) -> None:
    assert "long" in settled.tarmac("stop", "--wait", long, code=0).stdout
    run = settled.json("show", long)["run"]
    assert (run["outcome"], run["exit_status"]) == ("stopped", 143)
    assert settled.tarmac("wait", long).returncode == 143


def test_pausing_and_resuming(settled: Shell, long: str) -> None:
    paused = settled.tarmac("pause", "--wait", long, code=0)
    assert f"is paused; it goes on with: tarmac resume {long}" in paused.stdout
    assert settled.json("resume", "--wait", long)["runs"][0]["state"] == "running"
    asked = settled.tarmac("pause", long, code=0)
    assert "long" in asked.stdout
    settled.tarmac("resume", "--wait", long, code=0)  # perhaps while it is still pausing
    assert settled.json("show", long)["run"]["attempt"] == 3


def test_several_runs_are_asked_whatever_becomes_of_one(settled: Shell, long: str) -> None:
    result = settled.tarmac("stop", "no-such-run", long, code=2)
    assert "error: " in result.stderr
    assert settled.json("wait", long, code=143)["runs"][0]["outcome"] == "stopped"
    again = settled.tarmac("pause", long, code=2)
    assert again.stderr.startswith("error: ")


def test_runs_are_selected_by_name_label_or_all(settled: Shell) -> None:
    settled.write("long.yaml", LONG)
    one, two, three = (
        settled.tarmac("run", "long.yaml", "-d", "--name", name, "-l", f"n={name}", code=0).stdout.strip()
        for name in ("sweep-1", "sweep-2", "other")
    )
    refused = settled.tarmac("stop", "--all", code=2)
    assert "Add -y to do it without a question" in refused.stderr
    assert settled.json("stop", "--name", "nothing-*", "-y") == {"runs": []}
    paused = settled.tarmac("pause", "--name", "sweep-*", "--wait", "-y", code=0)
    assert [line.split(" is paused")[0] for line in paused.stdout.splitlines() if " is paused" in line] == [
        f"sweep-1 ({one})",
        f"sweep-2 ({two})",
    ]
    assert [run["id"] for run in settled.json("resume", "--label", "n=sweep-2", "-y")["runs"]] == [two]
    stopped = settled.json("stop", "--all", "-y", "--wait")["runs"]
    assert [(run["id"], run["outcome"]) for run in stopped] == [(run, "stopped") for run in (one, two, three)]


def test_stopping_all_asks_first(settled: Shell, long: str) -> None:
    with Screen(settled, "stop", "--all") as screen:
        screen.wait_for(rf"stop 1 run: long \({long}, running\) \[y/N\]")
        screen.press("n\n")
        assert screen.process.wait(LIMIT_S) == 130
    assert settled.json("show", long)["run"]["state"] == "running"


def test_waiting_for_several_says_each_and_what_is_missing_at_the_end(settled: Shell) -> None:
    runs = [
        settled.tarmac("run", "-d", "--", "bash", "-c", f"exit {n}", code=0).stdout.strip() for n in (0, 4)
    ]
    result = settled.tarmac("wait", "no-such-run", *runs, code=4)
    assert [line.split(")")[1] for line in result.stdout.splitlines()] == [
        " has ended: completed",
        " has ended: failed",
    ]
    assert "no-such-run" in result.stderr.split("error: ")[-1]


def test_lists(settled: Shell, long: str) -> None:
    table = settled.tarmac("ls", code=0).stdout.splitlines()
    assert table[0].split()[:4] == ["RUN", "NAME", "STATE", "SLOTS"]
    assert table[1].split()[:4] == [long, "long", "running", "1"]
    assert settled.json("ls", "--state", "running")["runs"][0]["id"] == long
    assert settled.json("ls", "--label", "no=such") == {"runs": []}
    assert len(settled.json("ls", "--all", "--limit", "1")["runs"]) == 1
    narrow = settled.tarmac("ls", "--columns", "name,state,project", "--sort=-created", code=0)
    head, first = (line.split() for line in narrow.stdout.splitlines()[:2])
    assert (head, first) == (["NAME", "STATE", "PROJECT"], ["long", "running", "default"])
    newest_last = settled.json("ls", "--all", "--sort", "created")["runs"]
    assert newest_last[-1]["id"] == long
    assert settled.json("ls", "--all", "--sort", "created", "--limit", "1")["runs"] == newest_last[:1]
    assert "did you mean state?" in settled.tarmac("ls", "--sort", "sate", code=2).stderr
    settled.tarmac("stop", "--wait", long, code=0)
    assert settled.json("ls", "--state", "stopped", "--name", "long")["runs"][0]["id"] == long


def test_a_run_is_found_by_id_prefix_name_and_as_the_last(settled: Shell, long: str) -> None:
    for reference in (long, long[:-1], "long", "@last"):
        assert settled.json("show", reference)["run"]["id"] == long
    result = settled.tarmac("show", "lnog", code=2)
    assert "error: " in result.stderr
    assert "long" in result.stderr


def test_show(settled: Shell, long: str) -> None:
    text = settled.tarmac("show", long, "--events", code=0).stdout
    assert f"run       {long}" in text
    assert "main.0.0" in text
    assert "accepted" in text
    assert settled.tarmac("show", long, "--source", code=0).stdout == LONG


def test_why_a_run_waits(settled: Shell, long: str) -> None:
    settled.write("long.yaml", LONG)
    node = settled.json("nodes")["nodes"][0]
    run = settled.tarmac("run", "long.yaml", "--slots", str(node["slots"]), "-d", code=0).stdout.strip()
    settled.wait_until(run, "queued")
    answer = settled.json("why", run)
    assert answer["state"] == "queued"
    text = settled.tarmac("why", run, code=0).stdout
    assert answer["headline"] in text
    assert node["name"] in text
    settled.tarmac("stop", run, code=0)


def test_nodes_show_what_runs_and_can_be_drained(settled: Shell, long: str) -> None:
    node = settled.json("nodes")["nodes"][0]
    assert node["slots_used"] == 1
    assert "long (1)" in settled.tarmac("nodes", code=0).stdout
    assert "still there: long" in settled.tarmac("nodes", "drain", node["name"], code=0).stdout
    waiting = settled.tarmac("run", "-d", "--slots", "1", "--", "true", code=0).stdout.strip()
    settled.wait_until(waiting, "queued")
    assert "drained" in settled.tarmac("nodes", code=0).stdout
    assert settled.json("nodes", "undrain", node["name"])["nodes"][0]["state"] == "up"
    assert settled.json("wait", waiting)["runs"][0]["outcome"] == "completed"
    settled.tarmac("stop", "--wait", long, code=0)
    assert "error: " in settled.tarmac("nodes", "drain", "no-such-node", code=2).stderr


def test_of_the_submitters_shell_a_run_finds_what_the_pages_say(settled: Shell) -> None:
    """PATH, the virtual environment and conda's, and nothing else; `-e` copies more."""
    of_the_shell = {"VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c", "HTTPS_PROXY": "http://p", "COPIED": "yes"}
    others = {"LD_LIBRARY_PATH": "/l", "PYTHONPATH": "/p", "LC_ALL": "C", "TERM": "dumb"}
    path = f"/only/here:{os.environ['PATH']}"
    started = settled.start(
        "run", "-e", "COPIED", "--", "env", variables={**of_the_shell, **others, "PATH": path}
    )
    found = dict(line.partition("=")[::2] for line in started.communicate()[0].splitlines())
    assert started.returncode == 0
    assert (found["PATH"], found["VIRTUAL_ENV"], found["CONDA_PREFIX"]) == (path, "/v", "/c")
    assert found["COPIED"] == "yes"
    assert found.get("PYTHONPATH") != "/p"
    assert not found.keys() & {"HTTPS_PROXY", "LD_LIBRARY_PATH", "LC_ALL", "TERM"}


def test_metrics(settled: Shell) -> None:
    program = "import tarmac; [tarmac.report(step=i, progress=i / 2, loss=1 / (i + 1)) for i in range(3)]"
    settled.write("train.py", program)
    settled.tarmac("run", "--", "python3", "train.py", code=0)
    [series] = settled.json("metrics", "@last")["metrics"]
    assert (series["name"], series["last_step"], series["count"], series["high"]) == ("loss", 2, 3, 1.0)
    table = settled.tarmac("metrics", "@last", code=0).stdout.splitlines()
    assert table[0].split()[:2] == ["METRIC", "LAST"]
    assert table[1].split()[:5] == ["loss", "0.3333", "2", "0.3333", "2"]
    reports = settled.json("metrics", "@last", "--all")["reports"]
    assert [report["step"] for report in reports] == [0, 1, 2]
    table = settled.tarmac("metrics", "@last", "--all", code=0).stdout.splitlines()
    assert table[0].split() == ["WHEN", "STEP", "PROGRESS", "loss"]
    assert table[-1].split()[-3:] == ["2", "100%", "0.3333"]
    assert settled.json("show", "@last")["report"]["step"] == 2
    elsewhere = settled.tarmac("metrics", "@last", "--group", "validation", code=0).stderr
    assert elsewhere == "tarmac: no metrics of group validation were reported; these groups were: training\n"


def test_a_dry_run_keeps_nothing(settled: Shell) -> None:
    before = settled.json("ls", "--all")["runs"]
    settled.write("pair.yaml", "name: pair\nslots: 2\ncommand: echo $NODE_RANK\n")
    dry_run = ("run", "pair.yaml", "--rehearse", "2x1", "-e", "LR=0.1", "--dry-run")
    text = settled.tarmac(*dry_run, code=0).stdout
    assert "nothing is started or kept" in text
    assert "echo $NODE_RANK" in text
    assert "LR=0.1" in text
    assert re.search("CHECKPOINT_ARTIFACT_PATH=/.*/artifacts/checkpoint", text)
    assert "NODE_RANK=1" not in text
    assert "NODE_RANK=1" in settled.tarmac(*dry_run, "--verbose", code=0).stdout
    answer = json.loads(settled.tarmac("run", "pair.yaml", "--dry-run", "--json", code=0).stdout)
    assert [worker["role"] for node in answer["nodes"] for worker in node["workers"]] == ["main"]
    assert answer["request"]
    assert settled.json("ls", "--all")["runs"] == before


def test_a_dry_run_needs_no_dataset_yet(settled: Shell) -> None:
    settled.write("data.yaml", "datasets: [mnist]\ncommand: echo\n")
    shown = settled.tarmac("run", "data.yaml", "--dry-run", code=0)
    assert "it would be refused: there is no dataset 'mnist'" in shown.stderr
    assert "nothing is started or kept" in shown.stdout
    settled.tarmac("run", "data.yaml", code=2)


def test_what_never_fits_is_refused_with_what_would(settled: Shell) -> None:
    result = settled.tarmac("run", "--slots", "4096", "--", "true", code=2)
    assert result.stderr.startswith("error: ")
    assert "slots: " in result.stderr


def test_a_real_server_is_watched(settled: Shell) -> None:
    settled.tarmac("run", "--", "true", code=0)
    for path, expected in (
        ("/healthz", '{"healthy":true'),
        ("/metrics", 'tarmac_runs_ended_total{outcome="comp'),
    ):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(settled.home / "server.sock"))
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: tarmac\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
        assert answer.startswith("HTTP/1.1 200 ")
        assert expected in answer
    assert re.search(r"^tarmac_scheduling_cycle_seconds_count [1-9]", answer, re.MULTILINE)


def test_lines_of_logs_are_chosen_and_dated(settled: Shell) -> None:
    script = "for n in 1 2 3; do echo step $n; echo loss 0.$n; done"
    run = settled.tarmac("run", "-d", "--", "bash", "-c", script, code=0).stdout.strip()
    settled.tarmac("wait", run, code=0)
    assert settled.tarmac("logs", run, "--grep", "loss .*[23]$", code=0).stdout == "loss 0.2\nloss 0.3\n"
    dated = settled.tarmac("logs", "-f", run, "-t", "--grep", "step 3", code=0).stdout
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d step 3\n", dated)
    chunks = settled.tarmac("logs", run, "-t", "--json", code=0).stdout.splitlines()
    created_at = settled.json("show", run)["run"]["created_at"]
    assert all(json.loads(line)["at"] >= int(created_at) for line in chunks)
    assert "marked as one of rank 1" in settled.tarmac("logs", run, "--rank", "1", code=0).stderr
    assert "is no regular expression" in settled.tarmac("logs", run, "--grep", "(", code=2).stderr


def test_labels_and_notes_are_added_later(settled: Shell) -> None:
    run = settled.tarmac("run", "-d", "-l", "draft=1", "--", "true", code=0).stdout.strip()
    settled.tarmac("wait", run, code=0)
    assert settled.tarmac("label", run, "team=vision", "draft-", code=0).stdout == "team=vision\n"
    assert settled.json("ls", "--all", "--label", "team=vision")["runs"][0]["id"] == run
    settled.tarmac("note", run, "lr", "too", "high", code=0)
    assert "lr too high" in settled.tarmac("show", run, code=0).stdout
    notes = settled.json("note", run)["annotations"]
    assert [(each["kind"], each["text"]) for each in notes] == [
        ("label", "team=vision draft-"),
        ("note", "lr too high"),
    ]
    assert "is neither K=V nor K-" in settled.tarmac("label", run, "team", code=2).stderr
    assert "did you mean team?" in settled.tarmac("label", run, "taem-", code=2).stderr


def test_what_a_run_worked_in_is_listed_and_fetched(settled: Shell) -> None:
    script = "mkdir -p plots/deep; echo 1 > plots/deep/a.txt; head -c 1500000 /dev/zero > big; ln -s /etc out"
    run = settled.tarmac("run", "-d", "--no-code", "--", "bash", "-c", script, code=0).stdout.strip()
    settled.tarmac("wait", run, code=0)
    found = {each["name"]: each for each in settled.json("files", run)["files"]}
    assert {name: each["kind"] for name, each in found.items()} == {
        "big": "file",
        "out": "link",
        "plots": "directory",
    }
    assert "plots/" in settled.tarmac("files", run, code=0).stdout
    settled.tarmac("files", run, "big", "-o", "fetched-big", code=0)
    assert (settled.directory / "fetched-big").stat().st_size == 1_500_000
    settled.tarmac("files", run, "-o", "everything", code=0)
    assert (settled.directory / "everything/plots/deep/a.txt").read_text() == "1\n"
    assert not (settled.directory / "everything/out").exists()
    assert "did you mean big?" in settled.tarmac("files", run, "bih", "-o", "x", code=2).stderr
    assert "exists already" in settled.tarmac("files", run, "big", "-o", "fetched-big", code=2).stderr
    for path in ("../logs", "out", "out/passwd"):
        settled.tarmac("files", run, path, code=2)


def test_completion_of_runs_and_nodes(settled: Shell, long: str) -> None:
    def complete(words: str, at: int) -> str:
        process = settled.start(
            variables={"_TARMAC_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
        )
        return process.communicate(timeout=LIMIT_S)[0]

    assert complete("tarmac show lo", 2) == "plain,long\n"
    assert f"plain,{long}\n" in complete(f"tarmac stop {long[:3]}", 2)
    node = settled.json("nodes")["nodes"][0]["name"]
    assert complete("tarmac nodes drain ", 3) == f"plain,{node}\n"


def test_the_server_comes_and_goes_and_runs_stay(shell: Shell) -> None:
    assert shell.tarmac("server", "status", code=1).stdout == ""
    assert shell.json("server", "status", code=1)["running"] is False
    assert "no server is running" in shell.tarmac("server", "stop", code=0).stderr
    assert not shell.home.exists()
    first = shell.json("server", "start")
    shell.write("long.yaml", LONG)
    run = shell.tarmac("run", "long.yaml", "-d", code=0).stdout.strip()
    shell.wait_until(run, "running")
    second = shell.json("server", "restart")
    assert second["pid"] != first["pid"]
    assert shell.json("show", run)["run"]["state"] == "running"
    assert "the server runs" in shell.tarmac("server", "status", code=0).stdout
    assert shell.tarmac("server", "logs", "--tail", "5", code=0).stdout.count("\n") <= 5
    assert shell.json("server", "stop") == {"stopped": second["pid"]}
    shell.tarmac("stop", "--wait", run, code=0)


def test_the_doctor_looks_at_the_server_and_its_clusters(settled: Shell) -> None:
    answer = settled.json("doctor")
    found = {finding["what"]: finding for finding in answer["findings"]}
    assert answer["ok"]
    assert f"home {settled.home}" in found["server"]["text"]
    assert found["cluster local"]["state"] == "ok"
    assert [
        line.split()[0] for line in settled.tarmac("doctor", code=0).stdout.splitlines() if line[0] != " "
    ] == [finding["state"] for finding in answer["findings"]]
