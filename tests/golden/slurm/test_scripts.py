"""The job of an attempt as Slurm is sent it: stable, and with nothing in it that a user wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine_harness import make_launch
from golden import assert_golden
from slurm_harness import late
from tarmac.engines.slurm.partition import parse_nodes
from tarmac.engines.slurm.script import job_script
from tarmac.engines.slurm.settings import read_settings
from tarmac.model.launch import Launch
from tarmac.model.resources import Resources
from tarmac.node.starting import Installation

HERE = Path(__file__).parent
DIRECTORY = Path("/shared/tarmac/runs/run1/attempts/1")
INSTALLATION = Installation("python3.9", "/shared/tarmac/node/0123/tarmac/node")
GPUS = "NodeName=g1 CPUTot=64 Gres=gpu:a100:4(S:0-1) NodeAddr=g1 RealMemory=512000 Partitions=batch"
CPUS = "NodeName=c1 CPUTot=16 Gres=(null) NodeAddr=c1 RealMemory=64000 Partitions=batch"
PLAIN = {"directory": "/shared/tarmac", "partition": "batch"}


def script(launch: Launch, nodes: str, **settings: object) -> str:
    partition = parse_nodes(nodes, cluster="site", partition="batch", gpu_type=None)
    return job_script(
        launch,
        DIRECTORY,
        settings=read_settings(PLAIN | settings),
        partition=partition,
        installation=INSTALLATION,
    )


def test_gpus_on_two_nodes_with_directives_added_and_dropped() -> None:
    launch = late(make_launch(("train",), nodes=2, time_limit_s=7200.0, grace_s=30.0))
    nodes = tuple(
        replace(node, workers=tuple(replace(worker, slots=(0, 1, 2)) for worker in node.workers))
        for node in launch.nodes
    )
    extra = {
        "constraint": "a100&nvlink",
        "exclusive": True,
        "mail-user": "ada@site.org",
        "cpus-per-task": None,
    }
    made = script(
        replace(launch, nodes=nodes), GPUS, account="proj", qos="long", extra=extra, python="python3.9"
    )
    assert_golden(HERE / "gpus.sh", made)


def test_hostile_values_do_not_reach_the_script() -> None:
    """A run's name, arguments and variables stay in attempt.json: no line of the script is theirs."""
    bad = "x\n#SBATCH --nodes=9\n$(touch x) `y` 'q\" \\"
    launch = replace(late(make_launch((bad, bad))), run_name=bad)
    worker = replace(
        launch.nodes[0].workers[0],
        env={"BAD": bad},
        slots=(),
        limits=Resources(cpus=2.5, memory_bytes=3 * 2**30 + 1),
    )
    launch = replace(launch, nodes=(replace(launch.nodes[0], workers=(worker,)),))
    made = script(launch, CPUS)
    assert "touch" not in made
    assert_golden(HERE / "hostile.sh", made)
