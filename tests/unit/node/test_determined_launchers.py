"""`determined.launch` as its document prints it (D2-D8): arguments, prefixes, exit codes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

STANDINS = Path(__file__).resolve().parents[3] / "src/tarmac/systems/determined/standins"
LIMIT_S = 120.0

Result = subprocess.CompletedProcess[str]


def launch(name: str, *arguments: str, directory: Path | None = None, **variables: str) -> Result:
    return subprocess.run(
        [sys.executable, "-m", f"determined.launch.{name}", *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(STANDINS), **variables},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


@pytest.mark.parametrize("name", ["torch_distributed", "deepspeed", "horovod", "autohorovod", "wrap_rank"])
def test_the_usage_is_printed(name: str) -> None:
    """D5: `python3 -m determined.launch.deepspeed -h`."""
    result = launch(name, "-h")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"usage: python3 -m determined.launch.{name} ")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "empty script is not allowed"),
        (["--fusion-threshold-mb", "1", "--"], "empty script is not allowed"),
        (["--trial"], "--trial names no trial class"),
        (["--trial", "model_def:A", "train.py"], "extra arguments to --trial: train.py"),
        (["--trial", "model_def:A"], "needs the package 'determined'"),
    ],
)
def test_a_trial_or_a_script(arguments: list[str], problem: str) -> None:
    """D1, D7."""
    result = launch("autohorovod", *arguments)
    assert result.returncode == 1
    assert problem in result.stderr


def test_one_slot_needs_no_launcher_and_keeps_the_code(tmp_path: Path) -> None:
    """D8: below another program, and a script by its name."""
    (tmp_path / "train.py").write_text("import sys; print('trained', sys.argv[1:]); sys.exit(5)\n")
    result = launch("autohorovod", "--", "train.py", "--", "x", directory=tmp_path)
    assert (result.returncode, result.stdout) == (5, "trained ['--', 'x']\n")


def test_lines_begin_with_their_rank_and_the_code_is_kept() -> None:
    """D6: a carriage return ends a line, too; the first variable that is set counts."""
    script = "printf 'one\\rtwo\\nthree'; echo four >&2; exit 7"
    result = launch("wrap_rank", "NONE,RANK", "--", "sh", "-c", script, RANK="3")
    assert result.stdout == "[rank=3] one\n[rank=3] two\n[rank=3] three\n"
    assert result.stderr == "[rank=3] four\n"
    assert result.returncode == 7
    assert launch("wrap_rank", "2", "sh", "-c", "kill -9 $$").returncode == 137


def test_what_names_no_rank_is_refused() -> None:
    result = launch("wrap_rank", "NONE", "true")
    assert result.returncode == 1
    assert "'NONE' is no rank, and names no variable that is set" in result.stderr


def test_horovod_starts_the_workers_of_several_nodes_itself(tmp_path: Path) -> None:
    """D4: one world, which meets beside rank 0; the first that fails ends its node and gives its code."""
    (tmp_path / "train.py").write_text(MEETING)
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = str(found.getsockname()[1])
    place = {"NNODES": "2", "N_PROC": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}

    def node(rank: int) -> Result:
        return launch("horovod", "train.py", directory=tmp_path, NODE_RANK=str(rank), **place)

    with ThreadPoolExecutor() as pool:
        first, second = pool.map(node, (0, 1))
    said = sorted((first.stdout + second.stdout).splitlines())
    assert said == [f"[rank={rank}] {rank} of 4, local {rank % 2}, found 1" for rank in range(4)]
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    script = "[ $HOROVOD_RANK = 3 ] && exit 7; exec sleep 100"
    failed = launch("horovod", "--x", "--", "sh", "-c", script, NODE_RANK="1", **place)
    assert failed.returncode == 7
    assert "--x is ignored: Horovod reads it, and No module named 'horovod'" in failed.stderr


def test_options_of_horovodrun_reach_the_workers_of_several_nodes(tmp_path: Path) -> None:
    """D4: as the variables that the installed Horovod makes of them, over those of the environment."""
    util = tmp_path / "horovod/runner/common/util"
    util.mkdir(parents=True)
    (tmp_path / "horovod/runner/launch.py").write_text(HOROVODRUN)
    (util / "config_parser.py").write_text(
        "def set_env_from_args(env, args):\n"
        "    return {'HOROVOD_CYCLE_TIME': str(args.cycle), 'HOROVOD_FUSION': str(args.fusion << 20)}\n"
    )
    place = {"NNODES": "2", "NODE_RANK": "1", "N_PROC": "1", "HOROVOD_CYCLE_TIME": "9"}
    place["PYTHONPATH"] = f"{STANDINS}{os.pathsep}{tmp_path}"
    found = launch("horovod", "--cycle-time-ms=3.5", "--cycle-time-ms", "5", "--", "printenv", **place)
    assert (found.returncode, found.stderr) == (0, "")
    env = dict(line.removeprefix("[rank=1] ").split("=", 1) for line in found.stdout.splitlines())
    assert [env[f"HOROVOD_{name}"] for name in ("CYCLE_TIME", "FUSION", "SIZE")] == ["5.0", "67108864", "2"]
    wrong = launch("horovod", "--fusion-threshold-mb", "much", "--", "true", **place)
    assert wrong.returncode == 2
    assert "argument --fusion-threshold-mb: invalid int value: 'much'" in wrong.stderr


HOROVODRUN = """\
import argparse
def parse_args():
    parser = argparse.ArgumentParser("horovodrun", allow_abbrev=False)
    parser.add_argument("-np", type=int, required=True)
    parser.add_argument("--cycle-time-ms", dest="cycle", type=float)
    parser.add_argument("--fusion-threshold-mb", dest="fusion", type=int)
    for option in ("--gloo-timeout-seconds", "--cache-capacity"):
        parser.add_argument(option, type=int)
    for option in ("--no-hierarchical-allreduce", "--no-hierarchical-allgather"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args()
"""
MEETING = """\
import os, time, urllib.request
rank, size = os.environ["HOROVOD_RANK"], os.environ["HOROVOD_SIZE"]
place = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]
def ask(method, key, data=None):
    url = "http://%s:%s/scope/%s" % (*place, key)
    while True:
        try:
            return urllib.request.urlopen(urllib.request.Request(url, data, method=method)).read().decode()
        except OSError:
            time.sleep(0.02)
if rank == "0":
    ask("PUT", "said", b"1")
print(f"{rank} of {size}, local {os.environ['HOROVOD_LOCAL_RANK']}, found {ask('GET', 'said')}", flush=True)
ask("PUT", rank, b"x")
if rank == "0":
    for other in "123":
        ask("GET", other)
"""


def test_an_installed_package_keeps_its_own_modules(tmp_path: Path) -> None:
    for name in ("exec", "launch"):
        (tmp_path / "determined" / name).mkdir(parents=True)
        (tmp_path / "determined" / name / "__init__.py").write_text("")
    (tmp_path / "determined/__init__.py").write_text("version = 'installed'\n")
    (tmp_path / "determined/exec/harness.py").write_text(
        "import sys, determined; print(determined.version, sys.argv[1])\n"
    )
    (tmp_path / "determined/launch/horovod.py").write_text("raise SystemExit('theirs')\n")
    (tmp_path / "determined/launch/tensorflow.py").write_text("print('their tensorflow')\n")
    both = f"{STANDINS}{os.pathsep}{tmp_path}"
    trial = launch("autohorovod", "--trial", "model_def:A", PYTHONPATH=both)
    assert (trial.returncode, trial.stdout) == (0, "installed model_def:A\n"), trial.stderr
    assert launch("tensorflow", PYTHONPATH=both).stdout == "their tensorflow\n"
