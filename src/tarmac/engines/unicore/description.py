"""The JSON description of a job, and its script as UNICORE runs it. Pure. Called by `jobs`.

A job of the type RAW is our batch script, with our directives. UNICORE appends a line to the script, which
runs the job's executable and stores its exit code; without one it takes the job for failed, minutes later.
If a site forbids the type, UNICORE writes the directives itself, from the resources that it has names for.
"""

from collections.abc import Collection, Mapping
from typing import Any

from tarmac.engines.sites.login_hooks import AFTER, BEFORE
from tarmac.engines.slurm.script import JOB_VARIABLE
from tarmac.model.errors import InvalidInput, listed

SCRIPT = "tarmac.sh"
CODE_VARIABLE = "tarmac_exit_code"

RAW: Mapping[str, Any] = {
    "Job type": "RAW",
    "BSS file": SCRIPT,
    "Executable": "/bin/bash",
    "Arguments": ["-c", f"'exit ${CODE_VARIABLE}'"],
}

PREFIX = "#SBATCH "
OURS = frozenset({"job-name", "comment", "ntasks-per-node", "no-requeue", "open-mode", "output"})
"""Directives without a resource, which the script does not need."""

RESOURCES = {
    "partition": "Queue",
    "nodes": "Nodes",
    "cpus-per-task": "CPUsPerNode",
    "gpus-per-node": "GPUsPerNode",
    "mem": "MemoryPerNode",
    "time": "Runtime",
    "reservation": "Reservation",
    "constraint": "NodeConstraints",
    "qos": "QoS",
}
"""UNICORE's names for directives. A node of a job has one task: its processors are the node's."""


def raw_script(script: str, job_id: str) -> str:
    """The script in a shell of its own: after its end, also by `exec`, the appended line gets its code."""
    head, body = _parts(script)
    first, last = f"export {JOB_VARIABLE}={job_id}", f"export {CODE_VARIABLE}=$?"
    return "\n".join([*head, first, "(", body.rstrip("\n"), ")", last, f'( exit "${CODE_VARIABLE}" )', ""])


def plain_script(script: str, job_id: str) -> str:
    """The script as an executable, which writes its log itself."""
    head, body = _parts(script)
    log = _directives(head).get("output", "")
    redirection = [f"exec >> {log} 2>&1"] if log else []
    return "\n".join(["#!/bin/bash", f"export {JOB_VARIABLE}={job_id}", *redirection, body])


def described(script: str) -> Mapping[str, Any]:
    """The job for a site that forbids RAW. Raises InvalidInput for directives that it cannot express."""
    head, _ = _parts(script)
    given = _directives(head)
    unknown = sorted(given.keys() - RESOURCES.keys() - OURS - {"account"})
    if unknown:
        raise InvalidInput(
            f"the site allows no jobs of the type RAW, and UNICORE has no resource for {listed(unknown, 8)}",
            hint="leave that out of the run and of the pool's settings",
        )
    resources = {
        RESOURCES[name]: _resource(name, value) for name, value in given.items() if name in RESOURCES
    }
    project = {"Project": given["account"]} if "account" in given else {}
    return {"Executable": "/bin/bash", "Arguments": [SCRIPT], **project, "Resources": resources}


def forbids_raw(message: str) -> bool:
    """Whether the site's answer refuses the type RAW, whatever its status."""
    words = message.lower()
    return "raw" in words.replace("<", " ").replace("'", " ").replace('"', " ").split()


def login_steps(directory: str, names: Collection[str]) -> Mapping[str, Any]:
    """The scripts of a directory that run on the login node around the job (K6): see `login_hooks`.

    The one after it runs whatever the job's exit code is.
    """
    steps: dict[str, Any] = {}
    if BEFORE in names:
        steps |= {
            "User precommand": f"/bin/bash {directory}/{BEFORE}",
            "RunUserPrecommandOnLoginNode": "true",
        }
    if AFTER in names:
        steps |= {
            "User postcommand": f"/bin/bash {directory}/{AFTER}",
            "RunUserPostcommandOnLoginNode": "true",
        }
        steps |= {"IgnoreNonZeroExitCode": "true"}
    return steps


def _parts(script: str) -> tuple[list[str], str]:
    """The lines with directives at the beginning of a script, and the rest."""
    lines = script.split("\n")
    count = next((index for index, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return lines[:count], "\n".join(lines[count:])


def _directives(head: list[str]) -> dict[str, str]:
    found = {}
    for line in head:
        if line.startswith(PREFIX):
            name, _, value = line.removeprefix(PREFIX).removeprefix("--").partition("=")
            found[name.strip()] = value
    return found


def _resource(name: str, value: str) -> str:
    if name == "time":
        return f"{value}m"
    return value.rpartition(":")[2] if name == "gpus-per-node" else value
