"""Following a run: live output, detaching, coming back, failures, a server that dies."""

from __future__ import annotations

import json
import os
import re
import signal
import time

from shell import Screen, Shell

TWO_NODES = """\
name: pair
slots: 2
command: |
  echo "node $NODE_RANK is here"
  if [ "$NODE_RANK" = 1 ]; then
    echo "about to fail" >&2
    date +%s.%N > FAILED
    exit 7
  fi
  exec sleep 600
"""


def test_ctrl_c_detaches_and_leaves_the_run_alone(shell: Shell) -> None:
    gate = shell.gate()
    script = f"echo before; read line < {gate}; echo after; exit 5"
    with Screen(shell, "run", "--", "bash", "-c", script) as screen:
        run = screen.wait_for(r"bash is run (\S+?)\x1b")[1]
        screen.wait_for("before")
        screen.press("\x03")
        assert screen.end() == 130
    assert f"tarmac logs -f {run}" in screen.text
    assert f"tarmac stop {run}" in screen.text
    with Screen(shell, "logs", "-f", run) as screen:
        screen.wait_for("before")
        gate.write_text("go on\n")
        screen.wait_for("after")
        assert screen.end() == 5
    assert shell.json("show", run)["run"]["exit_status"] == 5


def test_colour_is_for_terminals_that_want_it(settled: Shell) -> None:
    with Screen(settled, "run", "--", "echo", "hi") as screen:
        assert screen.end() == 0
    assert "\x1b[2mtarmac: " in screen.text
    with Screen(settled, "run", "--", "echo", "hi", variables={"NO_COLOR": "1"}) as screen:
        assert screen.end() == 0
    assert "\x1b" not in screen.text
    assert "hi\r\n" in screen.text


def test_what_nodes_tell_is_remarked_and_shown(settled: Shell) -> None:
    settled.write(
        "run.yaml",
        "name: bound\nslots: 2\nbinds: [{source: /no/such/source, target: /data/x}]\ncommand: 'true'\n",
    )
    followed = settled.tarmac("run", "run.yaml", "--rehearse", "2x1", code=0)
    (remark,) = [line for line in followed.stderr.splitlines() if "/data/x" in line]
    assert remark.startswith("tarmac: not available here: /data/x")
    (shown,) = [
        line for line in settled.tarmac("show", "@last", code=0).stdout.splitlines() if "/data/x" in line
    ]
    assert shown.startswith("notice    not available here: /data/x")
    assert shown.endswith(" and 1 more)")
    failed = settled.tarmac("run", "run.yaml", "--cluster", "local", code=1)
    assert re.search(
        r"cannot bind /no/such/source to /data/x on \S+: no such file or directory", failed.stderr
    )
    assert "tarmac run --clone " in failed.stderr


def test_several_workers_have_prefixes_a_single_one_has_none(settled: Shell) -> None:
    settled.write("run.yaml", "name: pair\nslots: 2\ncommand: echo rank $NODE_RANK\n")
    result = settled.tarmac("run", "run.yaml", "--rehearse", "2x1", code=0)
    assert sorted(result.stdout.splitlines()) == ["main.0| rank 0", "main.1| rank 1"]
    one = settled.tarmac("logs", "@last", "--replica", "1", code=0)
    assert one.stdout == "rank 1\n"
    both = settled.tarmac("logs", "pair", code=0)
    assert sorted(both.stdout.splitlines()) == ["main.0| rank 0", "main.1| rank 1"]


def test_bytes_of_a_single_worker_come_as_they_are(settled: Shell) -> None:
    script = r"printf 'a\rb\tc\xff\u2028 d\x0c e\x85 f'"
    result = settled.tarmac("run", "--", "bash", "-c", script, code=0)
    assert result.stdout.startswith("a")
    assert "\t" in result.stdout
    assert "d\x0c e" in result.stdout
    assert result.stdout.endswith(" f")


def test_one_of_two_nodes_fails(shell: Shell) -> None:
    """I6, C5: the failing worker, its node and its code are named, the other is ended, every slot is free."""
    shell.write("run.yaml", TWO_NODES)
    result = shell.tarmac("run", "run.yaml", "--rehearse", "2x1", code=7)
    ended_at = time.time()
    failed_at = next((shell.home / "runs").rglob("FAILED"))
    assert ended_at - float(failed_at.read_text()) < 2.0
    run = shell.json("show", "@last")
    node = run["run"]["cause"]["node"]
    error = next(line for line in result.stderr.splitlines() if line.startswith("error: "))
    assert "main.1.0" in error
    assert node in error
    assert "7" in error
    assert "main.1| about to fail" in result.stdout
    assert "  | about to fail" in result.stderr
    assert all(node["slots_used"] == 0 and node["runs"] == [] for node in shell.json("nodes")["nodes"])
    assert run["attempts"][0]["workers"][0]["ended_at"] is not None


def test_a_killed_server_is_started_again_and_nothing_is_lost(shell: Shell) -> None:
    gate = shell.gate()
    lines = " ".join(str(number) for number in range(1000))
    script = f"for i in {lines}; do echo line $i; done; read line < {gate}; echo the end; exit 4"
    with Screen(shell, "run", "--", "bash", "-c", script) as screen:
        screen.wait_for(r"line 999\r\n")
        os.kill(shell.json("server", "status")["pid"], signal.SIGKILL)
        screen.wait_for("Connecting again")
        gate.write_text("go on\n")
        screen.wait_for("the end")
        assert screen.end() == 4
    numbers = re.findall(r"line (\d+)\r\n", screen.text)
    assert numbers == [str(number) for number in range(1000)]
    assert screen.text.count("Connecting again") == 1


def test_a_wait_without_news_is_explained(shell: Shell) -> None:
    shell.write("run.yaml", "name: greedy\nslots: 8\ncommand: exec sleep 600\n")
    shell.write("next.yaml", "name: patient\nslots: 1\ncommand: echo my turn\n")
    total = shell.json("nodes")["nodes"][0]["slots"]
    first = shell.tarmac("run", "run.yaml", "--slots", str(total), "-d", code=0).stdout.strip()
    shell.wait_until(first, "running")
    with Screen(shell, "run", "next.yaml", variables={"NO_COLOR": "1"}) as screen:
        assert "slot" in screen.wait_for(r"tarmac: (.*) \(tarmac why \S+\)")[1]
        shell.tarmac("stop", first, code=0)
        screen.wait_for("my turn")
        assert screen.end() == 0
    assert screen.text.count("tarmac why") == 1


def test_json_lines_tell_the_same(settled: Shell) -> None:
    result = settled.tarmac("run", "--json", "--", "bash", "-c", "echo hi; exit 3", code=3)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    kinds = [line["event"] for line in lines]
    assert (kinds[0], kinds[-1]) == ("submitted", "end")
    assert [line["text"] for line in lines if line["event"] == "log"] == ["hi\n"]
    assert lines[-1]["run"]["exit_status"] == 3
    replay = settled.tarmac("logs", "@last", "--json", code=0)
    assert [json.loads(line)["text"] for line in replay.stdout.splitlines()] == ["hi\n"]


def test_tail_and_since(settled: Shell) -> None:
    settled.tarmac("run", "--", "bash", "-c", "seq 1 100", code=0)
    assert settled.tarmac("logs", "@last", "--tail", "2", code=0).stdout == "99\n100\n"
    assert settled.tarmac("logs", "@last", "--tail", "0", code=0).stdout == ""
    assert settled.tarmac("logs", "@last", "--since", "10m", code=0).stdout.startswith("1\n2\n")
    assert settled.tarmac("logs", "-f", "@last", code=0).stdout.count("\n") == 100
