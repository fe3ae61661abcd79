"""The job of an attempt as Slurm is sent it: stable, and with nothing in it that a user wrote."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from engine_harness import make_launch
from golden import assert_golden
from slurm_harness import late
from tarmac.engines.slurm.partition import Limits, parse_nodes
from tarmac.engines.slurm.script import job_script
from tarmac.engines.slurm.settings import read_settings
from tarmac.model.resources import Resources
from tarmac.node.attempt.document import BatchLaunch, Launch
from tarmac.node.starting import Installation

HERE = Path(__file__).parent
DIRECTORY = Path("/shared/tarmac/runs/run1/attempts/1")
INSTALLATION = Installation("python3.9", "/shared/tarmac/node/0123/tarmac/node")
GPUS = "NodeName=g1 CPUTot=64 Gres=gpu:a100:4(S:0-1) NodeAddr=g1 RealMemory=512000 Partitions=batch"
CPUS = "NodeName=c1 CPUTot=16 Gres=(null) NodeAddr=c1 RealMemory=64000 Partitions=batch"
PLAIN = {"directory": "/shared/tarmac", "partition": "batch"}


def script(launch: Launch, nodes: str, **settings: object) -> str:
    (pool,) = read_settings(PLAIN | settings).pools
    partition = parse_nodes(nodes, cluster="site", partition="batch", gpu_type=pool.gpu_type)
    return job_script(
        launch,
        DIRECTORY,
        pool=pool,
        partition=partition,
        installation=INSTALLATION,
    )


def test_gpus_on_two_nodes_with_directives_added_and_dropped() -> None:
    launch = late(make_launch(("train",), nodes=2, time_limit_s=7200.0, grace_s=30.0))
    nodes = tuple(
        node._replace(workers=tuple(worker._replace(slots=(0, 1, 2)) for worker in node.workers))
        for node in launch.nodes
    )
    extra = {
        "constraint": "a100&nvlink",
        "exclusive": True,
        "mail-user": "ada@site.org",
        "cpus-per-task": None,
    }
    made = script(
        launch._replace(nodes=nodes), GPUS, account="proj", qos="long", extra=extra, python="python3.9"
    )
    assert_golden(HERE / "gpus.sh", made)


def test_i11_the_job_of_a_cycle_run_is_for_all_of_its_turns() -> None:
    launch = late(make_launch(("train",), nodes=2, turns=3))
    assert_golden(HERE / "turns.sh", script(launch, CPUS))


def test_a_type_is_asked_for_where_the_run_names_it_or_there_is_but_one() -> None:
    """K7: GPUs of a type; on a partition with several, any will do where the run does not say."""
    both = GPUS.replace("gpu:a100:4(S:0-1)", "gpu:A100:4,gpu:V100:2")
    launch = late(make_launch(("train",)))
    for nodes, wanted, asked in (
        (GPUS, None, "a100:1"),
        (both, None, "1"),
        (both, "v100", "V100:1"),
        (both, "a100", "A100:1"),
    ):
        made = script(
            launch._replace(batch=BatchLaunch(slot_types={"main": wanted} if wanted else {})), nodes
        )
        assert f"#SBATCH --gpus-per-node={asked}\n" in made


def with_roles(roles: tuple[tuple[str, int, Resources], ...]) -> Launch:
    """A launch with a worker on each node: of which role, on how many slots, and what it may use."""
    launch = late(make_launch(("train",), nodes=len(roles), time_limit_s=7200.0, grace_s=30.0))
    nodes = []
    for node, (role, slots, limits) in zip(launch.nodes, roles, strict=True):
        (worker,) = node.workers
        worker = worker._replace(
            role=role, slots=tuple(range(slots)), cpus=limits.cpus, memory_bytes=limits.memory_bytes
        )
        nodes.append(node._replace(workers=(worker,)))
    return launch._replace(nodes=tuple(nodes))


ACTOR = Resources(cpus=1.5, memory_bytes=2**30)
LEARNER = Resources(memory_bytes=2**33)


def test_roles_that_need_different_nodes_are_components_of_one_job() -> None:
    launch = with_roles((("learner", 4, LEARNER), ("learner", 4, LEARNER), ("actor", 0, ACTOR)))
    assert_golden(HERE / "components.sh", script(launch, GPUS, account="proj", extra={"exclusive": True}))


def test_roles_that_need_alike_nodes_are_one_component() -> None:
    """As is one role whose last node needs less: Slurm places such a job sooner, and counts it once."""
    two_roles = with_roles((("left", 2, LEARNER), ("right", 2, LEARNER)))
    made = script(two_roles, GPUS)
    assert "hetjob" not in made
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n" in made
    uneven = with_roles((("main", 4, LEARNER), ("main", 2, LEARNER)))
    assert "hetjob" not in script(uneven, GPUS)
    steps = with_roles((("a", 2, LEARNER), ("b", 1, ACTOR)))._replace(batch=BatchLaunch(starts_steps=True))
    assert "hetjob" not in script(steps, GPUS), "the job's own script starts its steps on all nodes"


def test_each_component_has_gpus_of_the_type_of_its_roles() -> None:
    both = GPUS.replace("gpu:a100:4(S:0-1)", "gpu:A100:4,gpu:V100:2")
    launch = with_roles((("learner", 4, LEARNER), ("actor", 1, ACTOR)))
    made = script(launch._replace(batch=BatchLaunch(slot_types={"learner": "a100", "actor": "v100"})), both)
    first, second = made.split("#SBATCH hetjob\n")
    assert "#SBATCH --gpus-per-node=A100:4\n" in first
    assert "#SBATCH --gpus-per-node=V100:1\n" in second


def test_memory_is_not_asked_of_nodes_that_count_none() -> None:
    launch = late(make_launch(("train",)))
    (worker,) = launch.nodes[0].workers
    worker = worker._replace(memory_bytes=2**30)
    launch = launch._replace(nodes=(launch.nodes[0]._replace(workers=(worker,)),))
    assert "--mem=1024M" in script(launch, CPUS)
    assert "--mem" not in script(launch, CPUS.replace("RealMemory=64000", "RealMemory=1"))


def test_the_directives_of_a_run_come_after_those_of_its_cluster() -> None:
    launch = late(make_launch(("train",)))._replace(
        batch=BatchLaunch(directives={"constraint": "a b", "mem": None, "nice": "100", "exclusive": ""}),
    )
    made = script(launch, CPUS, extra={"constraint": "ib", "mem": "4G", "nice": "5", "mail-type": "END"})
    said = [line for line in made.splitlines() if line.startswith("#SBATCH")]
    assert said[-4:] == [
        "#SBATCH --constraint='a b'",
        "#SBATCH --nice=100",
        "#SBATCH --mail-type=END",
        "#SBATCH --exclusive",
    ]


def directive(made: str, name: str) -> str | None:
    lines = [line.partition("=")[2] for line in made.splitlines() if line.startswith(f"#SBATCH --{name}=")]
    return lines[0] if lines else None


@pytest.mark.parametrize(
    ("limit_s", "longest_s", "wall_time", "minutes"),
    [
        (None, None, None, None),
        (None, 3600.0, None, "60"),
        (None, 3600.0, "30m", "30"),
        (None, None, "2h", "120"),
        (600.0, None, None, "12"),
        (600.0, 3600.0, None, "12"),
        (7200.0, 3600.0, None, "60"),
        (3590.0, 3600.0, None, "60"),
        (86400.0, 3600.0, "4h", "60"),
    ],
)
def test_a_job_is_asked_for_no_longer_than_one_may_take(
    limit_s: float | None, longest_s: float | None, wall_time: str | None, minutes: str | None
) -> None:
    launch = late(make_launch(("train",), time_limit_s=limit_s, grace_s=30.0))
    partition = replace(
        parse_nodes(CPUS, cluster="site", partition="batch"), limits=Limits(longest_s=longest_s)
    )
    (pool,) = read_settings(PLAIN | {"wall_time": wall_time}).pools
    made = job_script(launch, DIRECTORY, pool=pool, partition=partition, installation=INSTALLATION)
    assert directive(made, "time") == minutes


@pytest.mark.parametrize(
    ("variables", "left", "seconds"),
    [
        ({"SLURM_JOB_END_TIME": "1795366800"}, "", None),
        ({"SLURM_JOB_END_TIME": "Unknown"}, "9:59", 599),
        ({}, "9:59", 599),
        ({}, "welcome\n1-02:03:04", 93784),
        ({}, "08:09:08", 29348),
        ({}, "UNLIMITED", 720),
        ({}, "", 720),
    ],
)
def test_the_job_finds_out_when_it_ends(
    tmp_path: Path, variables: dict[str, str], left: str, seconds: int | None
) -> None:
    """By its environment (Slurm 23.02 and later), else from squeue, else by what it was asked for."""
    for name, text in (
        ("squeue", f"printf '{left}'\n"),
        ("scontrol", "echo n1\n"),
        ("getent", ""),
        ("srun", 'echo "$ends_at"\n'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}")
        (tmp_path / name).chmod(0o755)
    launch = late(make_launch(("train",), time_limit_s=600.0, grace_s=30.0))
    made = script(launch, CPUS).replace(str(DIRECTORY), str(tmp_path))
    (tmp_path / "job.sh").write_text(made)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", **variables}
    began = int(time.time())
    done = subprocess.run(
        ["bash", str(tmp_path / "job.sh")], env=env, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stderr == ""
    if seconds is None:
        assert done.stdout == f"{variables['SLURM_JOB_END_TIME']}\n"
    else:
        assert began + seconds <= int(done.stdout) <= time.time() + seconds


def test_hostile_values_do_not_reach_the_script() -> None:
    """A run's name, arguments and variables stay in attempt.json: no line of the script is theirs."""
    bad = "x\n#SBATCH --nodes=9\n$(touch x) `y` 'q\" \\"
    launch = late(make_launch((bad, bad)))._replace(run_name=bad)
    worker = (
        launch.nodes[0]
        .workers[0]
        ._replace(
            env={"BAD": bad},
            slots=(),
            cpus=2.5,
            memory_bytes=3 * 2**30 + 1,
        )
    )
    launch = launch._replace(nodes=(launch.nodes[0]._replace(workers=(worker,)),))
    made = script(launch, CPUS)
    assert "touch" not in made
    assert_golden(HERE / "hostile.sh", made)
