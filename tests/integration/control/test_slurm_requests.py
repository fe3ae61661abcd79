"""What a run asks a Slurm for, through the control plane: dry runs, pools, refusals; over stand-ins."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from actors import ADA
from simulated import CountingIds, InstantCode, nodes, spec
from slurm_clusters import install_standin
from tarmac.control.service import ControlPlane, Submission
from tarmac.dialects import read
from tarmac.engines.sim import Behaviour, SimEngine, VirtualClock
from tarmac.engines.slurm.commands import Commands
from tarmac.engines.slurm.engine import SlurmEngine
from tarmac.engines.slurm.settings import read_settings
from tarmac.model.spec import RunSpec, Target
from tarmac.store.memory import MemoryStore


class Site:
    """A control plane with a Slurm that is a directory, as the cluster `site`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.variables = install_standin(directory / "slurm")
        self.knobs = directory / "slurm"

    def plane(self, **settings: Any) -> ControlPlane:
        given: Mapping[str, Any] = {"directory": str(self.directory / "shared"), "python": sys.executable}
        commands = Commands(variables=self.variables)
        engine = SlurmEngine("site", read_settings({**given, **settings}), commands=commands)
        clock = VirtualClock(1_000_000.0)
        return ControlPlane(
            store=MemoryStore(),
            engine=SimEngine(clock, nodes(1, 4), behaviour=lambda _launch: Behaviour()),
            engines={"site": engine},
            code=InstantCode(),
            clock=clock,
            ids=CountingIds(),
        )

    def calls(self) -> list[str]:
        return (self.knobs / "calls").read_text().split()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def there(**wanted: object) -> Submission:
    return Submission(spec=spec(target=Target(cluster="site"), **wanted), actor=ADA)


def written(text: str) -> Submission:
    found: RunSpec = read(text, filename="run.yaml", directory="/home/ada").spec
    return Submission(spec=found, actor=ADA)


def directives(script: str | None) -> list[str]:
    assert script is not None
    return [line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH")]


def test_a_dry_run_is_the_script_of_the_job_before_anything_is_sent(site: Site) -> None:
    plane = site.plane(partition="batch")
    found = plane.dry_run(
        written("cluster: site\nslots: 8\nslurm: {nice: 100, exclusive: true}\ncommand: hostname\n")
    )
    said = directives(found.rendered)
    assert {"partition=batch", "nodes=2", "cpus-per-task=4", "nice=100", "exclusive"} <= set(said)
    assert found.rendered in str(found.request)
    assert found.launch is not None
    assert len(found.launch.nodes) == 2
    assert "sbatch" not in site.calls()
    assert not list((site.directory / "shared").glob("runs/*"))
    never = plane.dry_run(there(slots=16))
    assert never.launch is None
    assert never.largest == "slots: 12"
