"""A run for a site as a UNICORE job description, sent there and printed by a dry run. Pure.

Called by `control.reports` for a dry run. The steps travel as a script inside the description, variables
included, because UNICORE itself would expand `$` in their values.
"""

import json
from typing import Any

from tarmac.launch.batch_script import batch_script
from tarmac.launch.quoting import assignment, join
from tarmac.launch.site_steps import login_command, site_steps
from tarmac.model.site import SiteRequest
from tarmac.model.spec import Command, RunSpec

SCRIPT = "tarmac.sh"

SRUN_CPUS = "SRUN_CPUS_PER_TASK"
USUAL_SLOTS_KEY = "GPUsPerNode"
_MIB = 1 << 20
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def unicore_description(
    spec: RunSpec, *, name: str, project: str | None = None, slots_key: str = USUAL_SLOTS_KEY
) -> dict[str, Any]:
    """The job description as JSON values. `slots_key` is the site's own name for that resource."""
    assert spec.site is not None, "only a run for a site has a job description"
    before = _on_login_node(spec, spec.hooks.before_login)
    after = _on_login_node(spec, spec.hooks.after_login)
    described: dict[str, Any] = {
        "Name": name,
        "Project": project,
        "Executable": "/bin/bash",
        "Arguments": ["-l", SCRIPT],
        "Imports": [{"From": "inline://script", "To": SCRIPT, "Data": _script(spec)}],
        "Stdout": spec.site.log,
        "Stderr": spec.site.log,
        "User precommand": before,
        "RunUserPrecommandOnLoginNode": "true" if before else None,
        "User postcommand": after,
        "RunUserPostcommandOnLoginNode": "true" if after else None,
        "Resources": _resources(spec.site, spec.time_limit_s, slots_key),
    }
    return {key: value for key, value in described.items() if value is not None}


def _script(spec: RunSpec) -> str:
    return "\n".join([*_one_start_per_node(spec), *site_steps(spec)]) + "\n"


def _one_start_per_node(spec: RunSpec) -> list[str]:
    """Lines that make srun start one task per node with all its CPUs, if the run's variables say so.

    UNICORE asks Slurm for CPUsPerNode as that many tasks on a node. With any other value of
    SRUN_CPUS_PER_TASK, the number of tasks is the user's choice.
    """
    cpus = spec.site.cpus_per_node if spec.site is not None else None
    if cpus is None or spec.environment.variables.get(SRUN_CPUS) != str(cpus):
        return []
    return ["unset SLURM_NTASKS SLURM_NPROCS", "export SLURM_NTASKS_PER_NODE=1"]


def _on_login_node(spec: RunSpec, commands: tuple[Command, ...]) -> str | None:
    """The commands as one line, with the run's variables."""
    line = login_command(commands)
    if line is None:
        return None
    exports = [f"export {assignment(name, value)}" for name, value in spec.environment.variables.items()]
    return join(["bash", "-c", " && ".join([*exports, line])])


def _resources(site: SiteRequest, time_limit_s: float | None, slots_key: str) -> dict[str, Any]:
    memory = site.memory_per_node_bytes
    fields = {
        "Queue": site.queue,
        "Runtime": None if time_limit_s is None else _runtime(int(time_limit_s)),
        "Nodes": site.nodes,
        "TotalCPUs": site.total_cpus,
        "CPUsPerNode": site.cpus_per_node,
        slots_key: site.slots_per_node,
        "MemoryPerNode": f"{-(-memory // _MIB)}M" if memory is not None else None,
        "Reservation": site.reservation,
        "NodeConstraints": site.constraints,
        "QoS": site.qos,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _runtime(limit_s: int) -> str:
    """The time in the largest unit without a remainder."""
    unit, each = next((unit, each) for unit, each in _UNITS if limit_s % each == 0)
    return f"{limit_s // each}{unit}"


def site_text(spec: RunSpec) -> str | None:
    """The text in the form of the run's site; None for a run without a site."""
    if spec.site is None:
        return None
    if spec.site.unicore_url is not None:
        described = unicore_description(spec, name=spec.name, project=spec.slurm.get("account"))
        return json.dumps(described, indent=2, ensure_ascii=False) + "\n"
    return batch_script(spec, name=spec.name)


def site_name(spec: RunSpec) -> str | None:
    """The name of a run's site for people."""
    site = spec.site
    if site is None:
        return None
    return site.unicore_url or (
        f"{site.firecrest.machine} at {site.firecrest.api_url}" if site.firecrest else ""
    )
