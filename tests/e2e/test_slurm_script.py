"""The batch script of a configuration of Mantik, run by a real Slurm where its packages are installed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_clusters import Missing, running_slurm
from tarmac.dialects.dialect import Extras
from tarmac.launch.batch_script import batch_script
from tarmac.launch.unicore_job import unicore_description
from tarmac.model.spec import RunSpec
from tarmac.systems.registry import read

NAME = r"""it's \ a "name" # $(x) ü"""
VALUE = 'it\'s "one" $(touch x) `y`\n#SBATCH --nodes=9 ü'
CONFIGURATION = f"""
Firecrest: {{ApiUrl: "https://a.b", TokenUrl: "https://a.b/t", Machine: m}}
Environment:
  Apptainer: {{Path: image.sif, Options: [--nv, "-B $MINE/data:/data"]}}
  Variables: {{ANY: {json.dumps(VALUE)}, MINE: /some where}}
  PreRunCommandOnComputeNode: ['export PATH="$PWD/programs:$PATH"', export FROM_BEFORE=1]
  PostRunCommandOnComputeNode: [echo after]
Resources: {{Queue: batch, Nodes: 2, CPUsPerNode: 2, Runtime: 5m, MemoryPerNode: 100}}
"""
PROJECT = 'entry_points: {main: {command: "python3 say.py ${{SLURM_PROCID}}"}}'
SAY = """
import json, os, sys
names = ("ANY", "FROM_BEFORE", "SRUN_CPUS_PER_TASK", "MANTIK_WORKING_DIRECTORY", "SLURM_NNODES")
env = {name: os.environ.get(name) for name in names}
print(json.dumps({"argv": sys.argv[1:], "task": os.environ["SLURM_PROCID"], **env}), flush=True)
"""
APPTAINER = """#!/bin/bash
while [ "$1" != image.sif ]; do echo "apptainer: $1"; shift; done
shift
exec "$@"
"""

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("slurm-script")]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a user of a Slurm of two nodes."""
    try:
        with running_slurm(tmp_path_factory.mktemp("cluster") / "slurm") as variables:
            yield {**os.environ, **variables}
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The directory of a run at a site, with the project in it."""
    work = tmp_path / "the 'run'"
    (work / "programs").mkdir(parents=True)
    (work / "say.py").write_text(SAY)
    (work / "programs/apptainer").write_text(APPTAINER)
    (work / "programs/apptainer").chmod(0o755)
    return work


def spec_in(work: Path) -> RunSpec:
    return read(
        CONFIGURATION,
        filename="backend.yaml",
        directory=str(work),
        dialect="mantik",
        extras=Extras(files=(("MLproject", PROJECT),)),
    ).spec


def submitted(script: Path, slurm: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Submit a script and wait for its end."""
    return subprocess.run(
        ["sbatch", "--wait", "--parsable", str(script)],
        env=slurm,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def told(log: str) -> list[dict[str, object]]:
    """What each task was given."""
    found = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return sorted(found, key=lambda task: str(task["task"]))


def expected(work: Path) -> list[dict[str, object]]:
    return [
        {
            "argv": [task],
            "task": task,
            "ANY": VALUE,
            "FROM_BEFORE": "1",
            "SRUN_CPUS_PER_TASK": "2",
            "MANTIK_WORKING_DIRECTORY": str(work),
            "SLURM_NNODES": "2",
        }
        for task in ("0", "1")
    ]


def test_a_batch_script_does_on_two_nodes_what_the_configuration_says(
    slurm: dict[str, str], work: Path
) -> None:
    """K2 to K8: one task on each node, every variable as it is, the commands around once; any name."""
    script = work.parent / "script.sh"
    script.write_text(batch_script(spec_in(work), name=NAME, directory=str(work)))
    result = submitted(script, slurm)
    log = (work / "mantik.log").read_text()
    assert (result.returncode, result.stderr) == (0, ""), log
    assert told(log) == expected(work)
    assert log.count("apptainer: /some where/data:/data") == 2
    assert log.count("after") == 1
    shown = subprocess.run(
        ["scontrol", "show", "job", result.stdout.strip()],
        env=slurm,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"JobName={NAME}\n" in shown
    assert "NumNodes=2 NumCPUs=4 NumTasks=2 CPUs/Task=2" in shown
    assert "TimeLimit=00:05:00" in shown
    assert "MinMemoryNode=100M" in shown
    assert not (work / "x").exists()


def test_what_unicore_is_sent_does_the_same(slurm: dict[str, str], work: Path) -> None:
    """K2, K5, K6, K8: in a script that asks as UNICORE does, for CPUsPerNode as tasks on each node."""
    described = unicore_description(spec_in(work), name="r1")
    (script,) = described["Imports"]
    (work / script["To"]).write_text(script["Data"])
    asked = described["Resources"]
    wrapper = work.parent / "unicore.sh"
    wrapper.write_text(
        f"#!/bin/bash\n#SBATCH --nodes={asked['Nodes']} --ntasks-per-node={asked['CPUsPerNode']}\n"
        f"#SBATCH --output=/dev/null\ncd {shlex.quote(str(work))}\n"
        f"{shlex.join([described['Executable'], *described['Arguments']])} > {described['Stdout']} 2>&1\n"
    )
    result = submitted(wrapper, slurm)
    log = (work / "mantik.log").read_text()
    assert (result.returncode, result.stderr) == (0, ""), log
    assert told(log) == expected(work)
