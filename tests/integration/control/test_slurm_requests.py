"""What a run asks a Slurm for, through the control plane: dry runs, pools, refusals; over stand-ins."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from actors import ADA
from scratch_store import ScratchStore
from sim_engine import Behaviour, SimEngine
from simulated import CountingIds, InstantCode, nodes, spec
from slurm_clusters import install_standin
from tarmac.control.delegation import request_of
from tarmac.control.service import ControlPlane, Submission
from tarmac.control.state.control_state import ControlState
from tarmac.engines.hosts.host import local_host
from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.sim.clock import VirtualClock
from tarmac.engines.slurm.engine import SlurmEngine
from tarmac.engines.slurm.settings import read_settings
from tarmac.model.errors import NeverFits, Refused
from tarmac.model.spec import RunSpec, Target
from tarmac.sched import Placement, Refusal
from tarmac.systems.registry import read


class Site:
    """A control plane with a Slurm that is a directory, as the cluster `site`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.variables = install_standin(directory / "slurm")
        self.knobs = directory / "slurm"

    def plane(self, **settings: Any) -> ControlPlane:
        given: Mapping[str, Any] = {"directory": str(self.directory / "shared"), "python": sys.executable}
        host = local_host(self.directory / "shared", variables=self.variables)
        engine = SlurmEngine(
            "site", read_settings({**given, **settings}), Supplies(copies=self.directory), host=host
        )
        clock = VirtualClock(1_000_000.0)
        return ControlPlane(
            ControlState(
                store=ScratchStore(),
                engine=SimEngine(clock, nodes(1, 4), behaviour=lambda _launch: Behaviour()),
                engines={"site": engine},
                code=InstantCode(),
                clock=clock,
                ids=CountingIds(),
            ),
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


POOLS = {
    "pools": {
        "small": {"partition": "cpu"},
        "train": {"partition": "gpu", "account": "proj", "reservation": "course"},
        "wrong": {"partition": "absent"},
    }
}
NODES = """NodeName=c1 CPUTot=16 Gres=(null) NodeAddr=c1 RealMemory=64000 Partitions=cpu
NodeName=g1 CPUTot=64 Gres=gpu:H100:8 NodeAddr=g1 RealMemory=512000 Partitions=gpu
NodeName=g2 CPUTot=64 Gres=gpu:H100:8 NodeAddr=g2 RealMemory=512000 Partitions=gpu
NodeName=g3 CPUTot=64 Gres=gpu:H100:8 NodeAddr=g3 RealMemory=512000 Partitions=gpu
NodeName=g4 CPUTot=32 Gres=gpu:v100:4 NodeAddr=g4 RealMemory=512000 Partitions=gpu
"""
PARTITIONS = """PartitionName=cpu MaxTime=UNLIMITED MaxNodes=UNLIMITED DefaultTime=01:00:00 State=UP
PartitionName=gpu MaxTime=1-00:00:00 MaxNodes=2 DefaultTime=NONE State=UP
"""


@pytest.fixture
def pools(site: Site) -> ControlPlane:
    """A Slurm with a partition of processors and one of GPUs of two types."""
    (site.knobs / "scontrol-nodes").write_text(NODES)
    (site.knobs / "scontrol-partition").write_text(PARTITIONS)
    return site.plane(**POOLS)


def test_the_pool_of_a_run_names_its_partition_and_all_that_goes_with_it(pools: ControlPlane) -> None:
    usual = directives(pools.dry_run(there(slots=2)).rendered)
    assert {"partition=cpu", "cpus-per-task=2"} <= set(usual)
    asked = written("cluster: site\npool: train\nslots: h100:16\ncommand: hostname\n")
    said = directives(pools.dry_run(asked).rendered)
    wanted = {"partition=gpu", "account=proj", "reservation=course", "gpus-per-node=H100:8", "nodes=2"}
    assert wanted <= set(said)
    any_type = written("cluster: site\npool: train\nslots: 4\ncommand: hostname\n")
    assert "gpus-per-node=4" in directives(pools.dry_run(any_type).rendered)


def test_a_pool_whose_jobs_slurm_refuses_is_found_before_any_run(site: Site) -> None:
    """Account, QoS and reservation are judged by Slurm itself, which keeps nothing of that."""
    plane = site.plane(partition="batch", account="gone")
    plane.dry_run(there(slots=1))  # reads what there is
    words = "Invalid account or account/partition combination specified"
    (site.knobs / "refuses").write_text(words)
    found = plane.clusters.examine(ADA, "site")
    (refused,) = [finding for finding in found if not finding.ok]
    assert refused.what == "partition"
    assert refused.text.startswith("a job would be refused (partition batch account gone): ")
    assert words in refused.text
    (site.knobs / "refuses").unlink()
    assert all(finding.ok for finding in plane.clusters.examine(ADA, "site"))


def test_what_never_fits_is_refused_at_submission_with_what_would(pools: ControlPlane) -> None:
    pools.dry_run(there(slots=1))  # reads what there is
    with pytest.raises(NeverFits) as refused:
        pools.submit([written("cluster: site\nslots: h100:8\ncommand: hostname\n")])
    assert "--pool train could hold it" in str(refused.value)
    with pytest.raises(NeverFits) as refused:
        pools.submit([written("cluster: site\npool: train\nslots: h100:24\ncommand: hostname\n")])
    assert "it takes 3 nodes, and gpu gives a job 2 at most (what would fit: slots: 16)" in str(refused.value)
    with pytest.raises(Refused, match=r"wants pool 'trian'.*did you mean train\?"):
        pools.submit([written("cluster: site\npool: trian\ncommand: hostname\n")])
    with pytest.raises(NeverFits, match="absent of pool wrong has no such nodes"):
        pools.submit([written("cluster: site\npool: wrong\ncommand: hostname\n")])
    assert not list(pools.control.store.live_runs())


def test_runs_that_ask_alike_are_judged_once(site: Site, pools: ControlPlane) -> None:
    """They come by the thousand, and a cluster may have thousands of nodes; until its nodes are others."""
    pools.dry_run(there(slots=1))  # reads what there is
    engine = pools.control.engines.delegate_of("site")
    assert engine is not None
    first, second = (accepted.run for accepted in pools.submit([there(slots=2), there(slots=2)]))
    one, other = request_of(first, engine, 0.0), request_of(second, engine, 0.0)
    assert isinstance(one, Placement)
    assert isinstance(other, Placement)
    assert one.allocation is other.allocation
    assert (one.run_id, other.run_id) == (first.id, second.id)
    (site.knobs / "scontrol-nodes").write_text(NODES.replace("CPUTot=16", "CPUTot=1"))
    assert isinstance(engine.adapter, SlurmEngine)
    engine.adapter.read_capacity()
    assert isinstance(request_of(first, engine, 0.0), Refusal)
