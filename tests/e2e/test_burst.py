"""Runs on rented machines, from their files to the last machine's end: real hosts, SSH, Ray, training."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import sysconfig
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import s3fs

from rented_hosts import COMMANDS, Account, Missing, account
from s3 import BUCKET, CREDENTIALS, s3_server
from shell import Shell
from source_tree import ROOT

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("ray"), pytest.mark.timeout(900)]

LIMIT_S = 400.0
IMAGE = f"{ROOT}/.venv-bench/bin"
DOCUMENT = ROOT / "tests/golden/dialects/isc/good/document-example.isc"

SHAPE = """[{id}]
provider = "lab"
region = "here"
machine = "{machine}"
slots = {slots}
slot_type = "{slot_type}"
cpus = 48
memory = "4GiB"
rate = {rate}
spot = {spot}
rated_on = 2026-11-01
"""

TORCHRUN = """#!/bin/bash
for word; do
  shift
  case $word in --nproc-per-node=*) echo "$word"; word=--nproc-per-node=1 ;; esac
  set -- "$@" "$word"
done
exec {python} -m torch.distributed.run "$@"
"""
"""The torchrun of the image: one process in place of 24 that this machine has no room for."""

TRAIN = """import argparse, torch, torch.distributed as dist
from pathlib import Path
options = argparse.ArgumentParser()
for name, kind in (("lr", float), ("batch-size", int), ("save-dir", Path), ("tboard-path", Path)):
    options.add_argument(f"--{name}", type=kind)
given = options.parse_args()
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), given.lr)
for step in range(5):
    loss = (model(torch.randn(given.batch_size, 4)) - 1).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
total = torch.tensor([1.0]); dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}, together {total.item():g}", flush=True)
if dist.get_rank() == 0:
    torch.save(model.state_dict(), given.save_dir / "model.pt")
dist.barrier()
dist.destroy_process_group()
"""

COUNT = """import sys, tarmac, time
found = tarmac.latest_checkpoint()
start = 0 if found is None else int((found / "step").read_text())
print("start", start, flush=True)
for step in range(start + 1, 100000):
    with tarmac.checkpoint(step, keep=2) as directory:
        (directory / "step").write_text(str(step))
    print("saved", step, flush=True)
    if tarmac.should_pause():
        sys.exit(0)
    time.sleep(0.5)
"""
COUNT_RUN = """name: count
mode: burst
slots: cpu:2
code: .
artifacts: {checkpoint_every: 1s}
command: exec python3 count.py
burst: {shapes: [spot, other]}
"""

SPOT_FIRST = {"spot": "true", "other": "false"}

PAIR = "name: pair\nmode: burst\nslots: cpu:4\ntime_limit: 1h\ncommand: {}\n"


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Account]:
    if not Path(IMAGE, "ray").exists():
        pytest.skip("there is no Ray in .venv-bench")
    try:
        with account(tmp_path / "account", path=IMAGE) as made:
            yield made
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def user(shell: Shell, hosts: Account) -> Shell:
    """An administrator who has added the account."""
    settings = [word for name in COMMANDS for word in ("--set", f"{name}={hosts.command(name)}")]
    shell.tarmac("providers", "add", "lab", "--kind", "machines", *settings, code=0)
    return shell


def shapes(user: Shell, *found: dict[str, object]) -> None:
    lines = [
        SHAPE.format(**{"slots": 2, "slot_type": "cpu", "rate": 0.3, "spot": "false", **each})
        for each in found
    ]
    user.tarmac("shapes", "import", user.write("shapes.toml", "\n".join(lines)), code=0)


def rentals(user: Shell) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = user.json("burst", "ls")["rentals"]
    return found


def until(user: Shell, seen: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not seen():
        assert time.monotonic() < deadline, (what, user.tarmac("burst", "ls").stdout, log(user))
        Event().wait(0.2)


def log(user: Shell) -> str:
    return (user.home / "server.log").read_text()[-4000:]


def until_given_back(user: Shell, hosts: Account) -> None:
    """Until no machine is on, and the server knows it."""
    until(user, lambda: not hosts.on(), "machines end")
    until(user, lambda: all(each["state"] == "ended" for each in rentals(user)), "rentals end")


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: make demo")
def test_the_documented_burst_experiment_from_submission_to_credits(user: Shell, hosts: Account) -> None:
    """I9: two shapes without capacity, a third that has it; artifacts and logs outlive the machines."""
    hosts.stock(h100=0, spot=1, dozen=2)
    ids = ("oblivus-mon1-h100n", "gcp-us-central-h100-spot", "aws-us-east-1-dozen")
    machines = ("h100", "spot", "dozen")
    gpus: dict[str, object] = {"slots": 24, "slot_type": "h100", "rate": 60.0}
    shapes(
        user, *({"id": name, "machine": machine, **gpus} for name, machine in zip(ids, machines, strict=True))
    )
    programs = hosts.root / ".fashion/bin"
    programs.mkdir(parents=True)
    (programs / "activate").write_text("export PATH=/root/.fashion/bin:$PATH\n")
    (programs / "torchrun").write_text(TORCHRUN.format(python=sys.executable))
    (programs / "torchrun").chmod(0o755)
    (hosts.root / "isc-demos/fashion_mnist").mkdir(parents=True)
    (hosts.root / "isc-demos/fashion_mnist/train.py").write_text(TRAIN)
    listed = f"burst_shape_priority_list = {json.dumps(ids)}"
    text = DOCUMENT.read_text().replace('compute_mode = "cycle"', f'compute_mode = "burst"\n{listed}')
    user.tarmac("credits", "grant", "1000", "--user", "root", code=0)

    user.tarmac("run", "--detach", user.write("foo.isc", text), code=0)
    assert "burst_staged" in user.tarmac("ls", "--as", "isc", code=0).stdout
    shown = user.tarmac("burst", "show", "foo_experiment", code=0).stdout
    assert [line.split()[0] for line in shown.splitlines() if "120.00 USD" in line] == list(ids)
    user.tarmac("burst", "approve", "foo_experiment", "--yes", code=0)
    assert "enqueued" in user.tarmac("ls", "--as", "isc", code=0).stdout
    until(user, lambda: user.json("show", "foo_experiment")["run"]["state"] == "ended", "it ends")

    run = user.json("show", "foo_experiment")["run"]
    printed = user.tarmac("logs", "foo_experiment", code=0).stdout
    assert run["outcome"] == "completed", (printed, log(user))
    until_given_back(user, hosts)
    tries = [(each["shape"]["id"], each["end"]) for each in rentals(user)]
    assert tries == [(ids[0], "no_capacity"), (ids[1], "no_capacity"), (ids[2], "run_ended")]
    printed = user.tarmac("logs", "foo_experiment", code=0).stdout
    assert printed.count("--nproc-per-node=24") == 2
    for rank in (0, 1):
        assert f"rank {rank} of 2, together 2\n" in printed
    user.tarmac("artifacts", "get", "foo_experiment", "--output", "kept", code=0)
    assert list((user.directory / "kept").rglob("model.pt"))
    charged = [
        each for each in user.json("credits", "ledger", "--user", "root")["entries"] if each["amount"] < 0
    ]
    assert all(each["key"].startswith("rental/") for each in charged), "slots cost no credits in addition"
    [last] = [each for each in hosts_rented(user) if each["state"] == "ended"]
    assert -sum(each["amount"] for each in charged) == pytest.approx(last["spent"], rel=1e-6)
    assert [each["name"] for each in user.json("clusters")["clusters"]] == ["local"]
    assert not list((user.home / "rentals").iterdir())


@pytest.fixture
def bucket(shell: Shell, hosts: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A store in S3. The environments of the server and of the machines have its credentials, and s3fs."""
    with s3_server(hosts.neighbour) as line:
        variables = {**CREDENTIALS, "AWS_ENDPOINT_URL": line.url}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        programs = environment_with_s3(hosts.directory / "environment")
        with (hosts.root / ".profile").open("a") as profile:
            for name, value in {**variables, "PATH": f"{programs}:$PATH"}.items():
                profile.write(f"export {name}={value}\n")
        shell.home.mkdir(mode=0o700)
        (shell.home / "settings.toml").write_text(f'[artifacts]\nstore = "s3://{BUCKET}/kept"\n')
        yield s3fs.S3FileSystem(skip_instance_cache=True)


def test_a_run_resumes_from_s3_after_the_notice_of_a_spot_machine(
    bucket: Any, user: Shell, hosts: Account
) -> None:
    """The machines reach the store themselves: nothing of an artifact is on the server."""
    hosts.stock(one=2)
    shapes(user, *({"id": name, "machine": "one", "spot": spot} for name, spot in SPOT_FIRST.items()))
    user.write("count.py", COUNT)
    user.tarmac("run", "--detach", user.write("count.yaml", COUNT_RUN), code=0)
    user.tarmac("burst", "approve", "count", "--yes", code=0)
    until(user, lambda: "saved 3" in user.tarmac("logs", "count").stdout, "it saves checkpoints")
    hosts.notice("host1")
    until(user, lambda: user.tarmac("logs", "count").stdout.count("start ") == 2, "it starts again")
    first, _, second = user.tarmac("logs", "count", code=0).stdout.partition("start 0")[2].partition("start ")
    assert second.split()[0] == first.split("saved ")[-1].split()[0]
    user.tarmac("stop", "count", "--wait", code=0)
    until_given_back(user, hosts)
    ends = [(each["shape"]["id"], each["end"]) for each in rentals(user)]
    assert sorted(ends) == [("other", "run_ended"), ("spot", "reclaimed")]
    assert bucket.find(f"{BUCKET}/kept")
    assert not list((user.home / "artifacts").glob("*"))


def test_a_killed_server_loses_no_machine_and_rents_none_twice(user: Shell, hosts: Account) -> None:
    """Killed while the run waits, in the create, in the start, in the run, and in the give-back."""
    hosts.stock(pair=4)
    shapes(user, {"id": "pair", "machine": "pair"})
    user.tarmac(
        "run",
        "--detach",
        user.write("pair.yaml", PAIR.format("echo began; read -r _ < " + str(gate(user)))),
        code=0,
    )
    kill(user)
    answer = hosts.hold("create")
    user.tarmac("burst", "approve", "pair", "--yes", code=0)
    until(user, lambda: len(hosts.on()) == 2, "machines are created")
    kill(user)
    answer.write_text("")
    assert rentals(user)[0]["state"] == "creating"
    until(user, lambda: rentals(user)[0]["state"] == "starting", "they are adopted")
    kill(user)
    until(user, lambda: rentals(user)[0]["state"] == "ready", "their cluster starts")
    kill(user)
    user.until("logs", "pair", said="began")
    kill(user)
    assert user.json("show", "pair")["run"]["state"] == "running"
    deletes = hosts.hold("delete")
    (user.home.parent / "gate").write_text("\n\n")
    until(user, lambda: rentals(user)[0]["state"] == "releasing" and not hosts.on(), "they are given back")
    kill(user)
    deletes.write_text("")
    deletes.unlink()
    until_given_back(user, hosts)
    assert user.json("show", "pair")["run"]["outcome"] == "completed"
    assert len(hosts.records()) == 2, "nothing was rented twice"
    assert "began" in user.tarmac("logs", "pair", code=0).stdout


def test_an_owner_who_stops_in_a_create_leaves_no_machine(user: Shell, hosts: Account) -> None:
    """Ctrl-C ends the command alone; `tarmac stop` ends the run, and what the provider still makes."""
    hosts.stock(pair=2)
    shapes(user, {"id": "pair", "machine": "pair"})
    answer = hosts.hold("create")
    follower = user.start("run", user.write("pair.yaml", PAIR.format("echo began")))
    user.until("ls", said="pair")
    user.tarmac("burst", "approve", "pair", "--yes", code=0)
    until(user, lambda: len(hosts.on()) == 2, "machines are created")
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=LIMIT_S)
    user.tarmac("stop", "pair", "--wait", code=0)
    assert len(hosts.on()) == 2
    answer.write_text("")
    answer.unlink()
    until_given_back(user, hosts)
    assert [(each["state"], each["end"]) for each in rentals(user)] == [("ended", "run_ended")]
    assert user.json("show", "pair")["attempts"] == []


def environment_with_s3(directory: Path) -> Path:
    """The `bin` of an environment with the image's Ray, and the s3fs of this environment."""
    venv.create(directory, symlinks=True)
    [packages] = directory.glob("lib/python3*/site-packages")
    [of_ray] = Path(IMAGE).parent.glob("lib/python3*/site-packages")
    (packages / "others.pth").write_text(f"{of_ray}\n{sysconfig.get_path('purelib')}\n")
    ray = directory / "bin/ray"
    _, _, program = Path(IMAGE, "ray").read_text().partition("\n")
    ray.write_text(f"#!{directory}/bin/python\n{program}")
    ray.chmod(0o755)
    return ray.parent


def gate(user: Shell) -> Path:
    """A FIFO, at which both nodes of a run wait: all hosts see the same."""
    return user.gate()


def kill(user: Shell) -> None:
    """Kill the server; the next command starts another."""
    os.kill(user.json("server", "status")["pid"], signal.SIGKILL)


def hosts_rented(user: Shell) -> list[dict[str, Any]]:
    """The rentals that had machines."""
    return [each for each in rentals(user) if each["things"]]
