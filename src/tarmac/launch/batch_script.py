"""A run for a site as a script for `sbatch`, sent to firecREST and printed by a dry run. Pure.

Called by `unicore_job.site_text` for a dry run, and by `compose`, which uses only its directives. The lines
that `sbatch` reads are written and quoted here alone, also for the jobs of the engine of a Slurm.
"""

import re
from collections.abc import Mapping

from tarmac.launch.quoting import quote
from tarmac.launch.site_steps import site_steps
from tarmac.model.errors import InvalidInput
from tarmac.model.site import SiteRequest
from tarmac.model.spec import RunSpec

_MIB = 1 << 20


def batch_script(
    spec: RunSpec, *, name: str, directory: str | None = None, account: str | None = None
) -> str:
    """The script; without a `directory` it runs where it is submitted."""
    assert spec.site is not None, "only a run for a site has a batch script"
    log = spec.site.log
    log = f"{directory.rstrip('/')}/{log}" if directory is not None else log
    log = log.replace("%", "%%")  # so that sbatch replaces nothing in it
    directives = {
        "job-name": name,
        "account": account,
        **_resources(spec.site, spec.time_limit_s),
        "chdir": directory,
        "output": log,
        "error": log,
    }
    values = {key: str(value) for key, value in directives.items() if value is not None}
    lines = directive_lines(amended(values, spec.slurm))
    # Some sites ignore --chdir of jobs that come through firecREST.
    place = [f"cd {quote(directory)} || exit"] if directory is not None else []
    return "\n".join(["#!/bin/bash -l", *lines, "", *place, *site_steps(spec)]) + "\n"


def site_directives(site: SiteRequest) -> dict[str, str | None]:
    """The directives of a site's run for its job on a cluster that starts it by a job of its own.

    The cluster sets nodes, pool and times itself; values that the run does not request are left out.
    """
    resources = _resources(site, None)
    found = {name: resources[name] for name in ("cpus-per-task", "mem", "reservation", "constraint", "qos")}
    values = {name: str(value) for name, value in found.items() if value is not None}
    dropped: set[str] = set()
    if site.slots_per_node is None:
        dropped |= {"gpus-per-node"}
        dropped |= {"cpus-per-task"} if site.cpus_per_node is None else set()
    if site.cpus_per_node is None and site.total_cpus is not None:
        dropped |= {"ntasks-per-node", "cpus-per-task"}
        values["ntasks"] = str(site.total_cpus)
    return {**values, **dict.fromkeys(sorted(dropped))}


def _resources(site: SiteRequest, time_limit_s: float | None) -> dict[str, str | int | None]:
    """The requested resources. With CPUsPerNode, srun starts one task on each node, with all its CPUs."""
    nodes = site.nodes
    if nodes is None and site.total_cpus is not None and site.cpus_per_node is not None:
        nodes = -(-site.total_cpus // site.cpus_per_node)
    per_node = site.cpus_per_node
    memory = site.memory_per_node_bytes
    return {
        "partition": site.queue,
        "time": None if time_limit_s is None else _time(time_limit_s),
        "nodes": nodes,
        "ntasks": site.total_cpus if per_node is None else None,
        "ntasks-per-node": 1 if per_node is not None else None,
        "cpus-per-task": per_node,
        "gpus-per-node": site.slots_per_node,
        "mem": f"{-(-memory // _MIB)}M" if memory is not None else None,
        "reservation": site.reservation,
        "constraint": site.constraints,
        "qos": site.qos,
    }


def _time(limit_s: float) -> str:
    """`D-HH:MM:SS`."""
    minutes, seconds = divmod(int(limit_s), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"


_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./\[\]*&|-]+", re.ASCII)


def directive_lines(directives: Mapping[str, str]) -> list[str]:
    """A line for each directive; "" means without a value."""
    return [
        f"#SBATCH --{name}={quoted(value)}" if value else f"#SBATCH --{name}"
        for name, value in directives.items()
    ]


def amended(directives: Mapping[str, str], *changes: Mapping[str, str | None]) -> dict[str, str]:
    """The directives with these changes: None drops a directive; later changes win."""
    found: dict[str, str | None] = dict(directives)
    for change in changes:
        found |= change
    return {name: value for name, value in found.items() if value is not None}


def quoted(value: str) -> str:
    """A value as `sbatch` reads it back: in quotes a backslash makes any character literal.

    Raises InvalidInput for text that is not one printable line.
    """
    if not value.isprintable():
        raise InvalidInput(f"{value!r} cannot be asked of a batch system: it is not one line of text")
    if _PLAIN.fullmatch(value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
