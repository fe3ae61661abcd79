"""What `tarmac doctor` makes of each fact: whether it works, what that means, whether runs can do without."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from click.testing import CliRunner

from tarmac.cli.doctor import command, machine
from tarmac.cli.doctor.command import doctor, finding_text
from tarmac.cli.doctor.machine import Finding, State, missing
from tarmac.cli.views.terminal import Terminal
from tarmac.client import Client
from tarmac.model import cluster
from tarmac.node.kernel.namespaces import AS_USER, Way
from tarmac.node.kernel.workergroup import choose

GIB = 1 << 30

MOUNTS = """\
21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 21 0:40 / /home rw - nfs4 server:/home rw
31 30 0:41 / /home/ada/my\\040scratch rw - xfs /dev/vdb rw
32 21 0:42 / /home2 rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("finding", "state", "words"),
    [
        (machine.room(2 * GIB), State.OK, "2.0 GiB free"),
        (machine.room(GIB // 2), State.WARN, "once the disk is full"),
        (machine.room(0), State.MISSING, "remove files"),
        (machine.free_files(10**6), State.OK, "1,000,000 files"),
        (machine.free_files(9_999), State.WARN, "remove files"),
        (machine.free_files(0), State.MISSING, "remove files"),
        (machine.process_namespace(Way(AS_USER)), State.OK, "as user"),
        (machine.process_namespace(Way(None, "not permitted")), State.WARN, "none: not permitted"),
        (machine.mount_namespace(""), State.OK, "/mnt/checkpoints"),
        (machine.mount_namespace("not permitted"), State.WARN, "CHECKPOINT_ARTIFACT_PATH"),
        (machine.accelerators(["NVIDIA H100 80GB HBM3"] * 2, driver=True), State.OK, "2 x NVIDIA H100"),
        (machine.accelerators([], driver=True), State.WARN, "nvidia-smi"),
        (machine.accelerators([], driver=False), State.MISSING, "8 virtual slots"),
        (machine.shared_memory("/no/such/place"), State.MISSING, "NCCL will fail"),
        (machine.open_files((1024, 4096)), State.OK, "1,024 (may be raised to 4,096)"),
        (machine.open_files((256, 4096)), State.WARN, "ulimit -n"),
        (machine.open_files((-1, -1)), State.OK, "no limit"),
        (machine.slurm(set()), State.MISSING, "--engine slurm"),
        (machine.slurm({"sbatch", "squeue"}), State.WARN, "no scancel, scontrol, sacct in PATH"),
        (machine.ray("2.60.0", elsewhere=False), State.OK, "2.60.0"),
        (machine.ray(None, elsewhere=True), State.OK, "in the Python that each cluster of Ray names"),
        (machine.ray(None, elsewhere=False), State.MISSING, "--set python=PATH"),
        (command.clock(0.4), State.OK, "the same"),
        (command.clock(-90.0), State.WARN, "90 s behind"),
        (command.cluster("site", []), State.OK, "has what runs need"),
    ],
)  # fmt: skip
def test_a_fact_is_judged_and_explained(finding: Finding, state: State, words: str) -> None:
    assert finding.state is state
    assert words in f"{finding.text}\n{finding.meaning}"
    assert bool(finding.meaning) == (state is not State.OK)


def test_only_what_every_run_needs_stops_runs() -> None:
    assert machine.room(0).stops_runs
    assert machine.free_files(0).stops_runs
    assert not machine.room(1).stops_runs
    assert not machine.accelerators([], driver=False).stops_runs
    assert not machine.slurm(set()).stops_runs


def test_limits_that_the_kernel_does_not_hold_are_watched_or_not_enforced() -> None:
    memory, cpu = machine.limit_findings(choose(("memory", "cpu"), []))
    assert (memory.state, cpu.state) == (State.WARN, State.WARN)
    assert "watched twice a second" in memory.meaning
    assert "not enforced" in cpu.meaning


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "ext4"), ("/home/ada", "nfs4"), ("/home/ada/my scratch/x", "xfs"), ("/home2/x", "tmpfs")],
)
def test_the_kind_of_a_disk_is_that_of_the_longest_mount_above(path: str, kind: str) -> None:
    assert machine.disk_kind(Path(path), MOUNTS) == kind


def test_a_home_that_cannot_be_made_stops_runs() -> None:
    (found,) = machine.home_findings(Path("/dev/null/tarmac"))
    assert found.stops_runs
    assert "/dev/null cannot be written" in found.text


def test_a_cluster_without_what_runs_need_says_which() -> None:
    bad = [
        cluster.Finding(what="sbatch", ok=True, text="slurm 23"),
        cluster.Finding(what="python", ok=False, text="3.6 is too old"),
    ]
    found = command.cluster("site", bad)
    assert (found.state, found.text) == (State.MISSING, "python: 3.6 is too old")
    assert "tarmac clusters check site" in found.meaning


@pytest.mark.parametrize(
    ("pythons", "elsewhere"), [([], False), (["/opt/ray/bin/python"], True), (["/opt/a", None], False)]
)
def test_ray_is_needed_here_only_by_clusters_that_name_no_python(
    pythons: list[str | None], elsewhere: bool
) -> None:
    class Answers:
        def clusters(self) -> list[SimpleNamespace]:
            rays = [
                SimpleNamespace(engine="ray", settings={"python": path} if path else {}) for path in pythons
            ]
            return [SimpleNamespace(engine="local", settings={}), *rays]

    assert command.has_ray_elsewhere(cast(Client, Answers())) is elsewhere


def test_the_meaning_stands_below_its_line() -> None:
    shown = finding_text(missing("git", "no git in PATH", "install git."), Terminal())
    assert shown.splitlines() == [
        "missing  git                 no git in PATH",
        "                             install git.",
    ]


def test_a_machine_without_a_server_works_and_none_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARMAC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TARMAC_URL", raising=False)
    result = CliRunner().invoke(doctor, ["--json"])
    assert result.exit_code == 0
    found = {finding["what"]: finding for finding in json.loads(result.stdout)["findings"]}
    assert {
        "python",
        "home",
        "disk",
        "process namespace",
        "images",
        "gpus",
        "ssh",
        "git",
        "slurm",
        "ray",
    } <= found.keys()
    assert "none runs" in found["server"]["text"]
    assert not (tmp_path / "home").exists()


def test_a_server_that_is_named_and_does_not_answer_stops_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARMAC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TARMAC_URL", "http://127.0.0.1:9")
    result = CliRunner().invoke(doctor, ["--json"])
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert not answer["ok"]
    (stopping,) = [finding for finding in answer["findings"] if finding["needed"]]
    assert (stopping["what"], stopping["state"]) == ("server", "missing")
