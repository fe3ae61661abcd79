"""A real Slurm that keeps accounts: what it knows of jobs that are over, what it refuses or never starts.

Its nodes have GPUs of two types, for which other devices stand, and hold jobs to their memory where the
control groups of this machine allow it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell import Shell
from slurm_clusters import Missing, can_hold_memory, running_slurm

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("slurm-accounts")]

LINES = "MinJobAge=2"
"""So soon the queue forgets a job that is over."""

LASTS = "name: lasts\ncluster: site\nslots: 1\ncommand: echo begins; exec sleep 3600\n"
WAITS = "name: waits\ncluster: {cluster}\nslots: {slots}\ntime_limit: 10m\ncommand: sleep 3600\n"
DEVICES = """name: {name}
cluster: site
slots: {slots}
command: echo "rank $NODE_RANK of $NNODES has $CUDA_VISIBLE_DEVICES of type $SLURM_JOB_PARTITION"
"""
HUNGRY = """name: hungry
cluster: site
slots: 1
command: |
  echo "allocates"
  exec python3 -c "x = bytearray(1 << 30)"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A user of that Slurm: one partition, as the cluster `site` with the account proj, and others beside."""
    directory = tmp_path_factory.mktemp("site")
    shell = Shell(directory / "home", directory / "project")
    shell.directory.mkdir()
    before = os.environ.get("SLURM_CONF")
    try:
        with running_slurm(
            directory / "slurm",
            cpus_per_node=4,
            lines=LINES,
            accounting=True,
            gpus="a100:2,v100:1",
            memory=can_hold_memory(),
        ) as variables:
            os.environ |= variables
            accounts("add", "qos", "narrow", "MaxTRESPerUser=gres/gpu=1", "MaxWall=5")
            accounts("modify", "user", "set", "qos+=narrow")
            for name, terms in {
                "site": ("account=proj",),
                "narrow": ("account=proj", "qos=narrow"),
                "stranger": ("account=absent",),
                "unknown": ("account=proj", "qos=absent"),
            }.items():
                add_cluster(shell, name, directory / f"runs of {name}".replace(" ", "-"), *terms)
            yield shell
            shell.close()
    except Missing as missing:
        pytest.skip(str(missing))
    finally:
        os.environ.pop("SLURM_CONF", None)
        os.environ |= {"SLURM_CONF": before} if before is not None else {}


def add_cluster(shell: Shell, name: str, directory: Path, *terms: str) -> None:
    settings = [f"--set={term}" for term in (f"directory={directory}", "partition=batch", *terms)]
    shell.tarmac("clusters", "add", name, "--engine=slurm", *settings, code=0)


def accounts(*words: str) -> None:
    """Change what the accounts have, as an administrator."""
    subprocess.run(["sacctmgr", "--immediate", "--quiet", *words], check=True, timeout=120)


def known_to_queue(job: str) -> bool:
    argv = ["squeue", "--me", "--noheader", "--states=all", "--format=%i"]
    found = subprocess.run(argv, check=True, timeout=120, capture_output=True, text=True)
    return job in found.stdout.split()


def test_accounting_tells_the_end_of_a_job_that_the_queue_has_forgotten(site: Shell) -> None:
    site.tarmac("run", site.write("lasts.yaml", LASTS), "--detach", code=0)
    site.until("logs", "lasts", said="begins")
    job = site.json("show", "lasts")["attempts"][-1]["native"]["id"]
    site.tarmac("server", "stop", code=0)
    subprocess.run(["scancel", job], check=True, timeout=120)
    while known_to_queue(job):
        pass
    site.wait_until("lasts", "ended")
    shown = site.json("show", "lasts")["run"]
    assert shown["outcome"] == "stopped"
    assert shown["cause"]["message"] == f"job {job} was cancelled in Slurm, not through tarmac"


@pytest.mark.parametrize(
    ("cluster", "refusal", "own"),
    [
        ("stranger", "Invalid account or account/partition combination specified", "accounts here: proj"),
        ("unknown", "Invalid qos specification", "QoS here: narrow, normal"),
    ],
)
def test_what_slurm_refuses_is_said_with_what_it_would_take(
    site: Shell, cluster: str, refusal: str, own: str
) -> None:
    check = site.tarmac("clusters", "check", cluster)
    assert check.returncode == 1
    assert f"{refusal} (your {own}" in check.stdout
    site.write("waits.yaml", WAITS.format(cluster=cluster, slots=1))
    site.tarmac("run", "waits.yaml", "--name", cluster, "--detach", code=0)
    site.wait_until(cluster, "ended")
    message = site.json("show", cluster)["run"]["cause"]["message"]
    assert message.startswith(f"the engine refuses it: sbatch: {refusal} (your {own}")


def test_a_limit_that_no_end_of_another_job_lifts_is_told_from_one_that_passes(site: Shell) -> None:
    accounts("modify", "account", "proj", "set", "GrpTRES=gres/gpu=2")
    try:
        site.write("waits.yaml", WAITS.format(cluster="site", slots=2))
        for name, slots in {"holds": 2, "passes": 2, "too-many": 4}.items():
            site.tarmac("run", "waits.yaml", "--slots", str(slots), "--name", name, "--detach", code=0)
            if name == "holds":
                site.wait_until("holds", "running")
        site.until(
            *("why", "too-many"),
            said="account proj may have at most 2 GPUs at once, and this job asks for 4 (AssocGrpGRES)",
        )
        assert "never starts as things are" in site.tarmac("why", "too-many", code=0).stdout
        site.until("why", "passes", said="starts when some of that ends (AssocGrpGRES)")
        assert "never starts" not in site.tarmac("why", "passes", code=0).stdout
        site.tarmac("stop", "--wait", "holds", "too-many", code=0)
        site.wait_until("passes", "running")
        site.tarmac("stop", "--wait", "passes", code=0)
    finally:
        accounts("modify", "account", "proj", "set", "GrpTRES=gres/gpu=-1")


def test_the_limits_of_a_qos_are_explained(site: Shell) -> None:
    site.write("waits.yaml", WAITS.format(cluster="narrow", slots=2))
    site.tarmac("run", "waits.yaml", "--name", "long", "--detach", code=0)
    site.tarmac("run", "waits.yaml", "--name", "wide", "--time-limit", "1m", "--detach", code=0)
    site.until("why", "long", said="its time limit is longer than a job may have (QOSMaxWall")
    site.until("why", "wide", said="(QOSMaxGRESPerUser)")
    site.until(
        "why", "wide", said="a user under QoS narrow may have at most 1 GPUs at once, and this job asks"
    )
    for run in ("long", "wide"):
        assert "never starts as things are" in site.tarmac("why", run, code=0).stdout
    site.tarmac("stop", "--wait", "long", "wide", code=0)


def test_a_run_gets_gpus_of_its_type(site: Shell) -> None:
    for name, slots, said in (
        ("both", "a100:2", "rank 0 of 1 has 0,1"),
        ("other", "v100:1", "rank 0 of 1 has "),
        ("nodes", "a100:4", "rank 1 of 2 has 0,1"),
    ):
        site.tarmac("run", site.write("devices.yaml", DEVICES.format(name=name, slots=slots)), code=0)
        assert said in site.tarmac("logs", name, code=0).stdout
        job = site.json("show", name)["attempts"][-1]["native"]["id"]
        argv = ["sacct", "--allocations", "--noheader", "--parsable2", "--format=AllocTRES", f"--jobs={job}"]
        asked = subprocess.run(argv, check=True, timeout=120, capture_output=True, text=True).stdout
        assert f"gres/gpu={slots.partition(':')[2]}" in asked
    refused = site.tarmac("run", site.write("devices.yaml", DEVICES.format(name="h100", slots="h100:1")))
    assert refused.returncode == 2
    assert "a100" in refused.stderr


@pytest.mark.skipif(not can_hold_memory(), reason="needs root, and a memory control group of version 1")
def test_slurm_ends_a_run_that_uses_more_memory_than_its_job_has(site: Shell) -> None:
    site.tarmac("run", site.write("hungry.yaml", HUNGRY), "--detach", code=0)
    site.wait_until("hungry", "ended")
    shown = site.json("show", "hungry")
    job = shown["attempts"][-1]["native"]["id"]
    cause = shown["run"]["cause"]
    assert (shown["run"]["outcome"], cause["code"]) == ("failed", "out_of_memory"), cause
    assert cause["message"].startswith(f"job {job} used more memory than its job has")
    argv = ["sacct", "--noheader", "--parsable2", "--format=State", f"--jobs={job}"]
    assert (
        "OUT_OF_MEMORY" in subprocess.run(argv, check=True, timeout=120, capture_output=True).stdout.decode()
    )
