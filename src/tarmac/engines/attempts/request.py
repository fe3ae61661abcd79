"""What an engine makes of a launch: an attempt directory, and the runners to start in it.

Rendered by engines without touching the disk; the dry run prints this very object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tarmac.engines.attempts.layout import Layout
from tarmac.launch.quoting import join
from tarmac.model.errors import InvalidInput
from tarmac.model.launch import HooksLaunch, Launch, NodeLaunch, SetupLaunch, WorkerLaunch
from tarmac.model.secret import SecretLaunch
from tarmac.model.spec import Checkout, PythonPackages, SystemPackages
from tarmac.node.attempt import protocol, steps
from tarmac.node.attempt.protocol import ARTIFACT_KINDS, ARTIFACT_VARIABLES
from tarmac.node.files.gitrules import GitRules

HIDDEN = "(hidden)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactStoring:
    """How artifacts are kept: in which store, by which command, and how long it tries while that is down."""

    store: str
    command: tuple[str, ...]
    patience_s: float


NO_RULES = GitRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRequest:
    """One attempt: `document` becomes attempt.json in `directory`.

    Printed, it shows everything but the token.
    """

    attempt_id: str
    directory: Path
    document: Mapping[str, Any]

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that it is given when it is started."""
        return tuple(secret["name"] for secret in self.document.get("secrets", ()))

    @property
    def artifact_paths(self) -> Mapping[str, str]:
        """Where workers find their artifacts, by the variable that says so."""
        paths = self.document["artifacts"]
        return {names[0]: paths[kind] for kind, names in ARTIFACT_VARIABLES.items()}

    def __str__(self) -> str:
        shown = {**self.document, "token": HIDDEN}
        lines = [f"{self.directory / protocol.ATTEMPT_FILE}:", json.dumps(shown, indent=2)]
        for node in self.document["nodes"]:
            lines.append(f"on node {node['node']} ({node['address']}), rank {node['rank']}:")
            lines.extend(f"  setup: {_shown(step)}" for step in self.document["setup"])
            lines.extend(
                f"  {worker['role']}.{worker['replica']}.{worker['index']}: {join(worker['argv'])}"
                for worker in node["workers"]
            )
        return "\n".join(lines)


def render(
    launch: Launch,
    layout: Layout,
    sdk: Path,
    git: GitRules = NO_RULES,
    keeping: ArtifactStoring | None = None,
    *,
    own_packages: bool = False,
    log_limit_bytes: int | None = None,
) -> AttemptRequest:
    """The request for a launch; raises InvalidInput for an attempt id that cannot be a path.

    With `own_packages` each run has packages of its own, whatever its launch says.
    """
    directory = layout.attempt(launch.attempt_id)
    if directory is None:
        raise InvalidInput(f"{launch.attempt_id!r} cannot be the id of an attempt")
    document: dict[str, Any] = {
        "protocol": protocol.PROTOCOL,
        "attempt_id": launch.attempt_id,
        "run_id": launch.run_id,
        "run_name": launch.run_name,
        "number": launch.number,
        "token": launch.token,
        "notify": str(layout.notify),
        "code": str(layout.code(launch.code_digest)) if launch.code_digest else None,
        "setup": [_step(step) for step in launch.setup],
        "setup_env": dict(sorted(launch.setup_env.items())),
        "time_limit_s": launch.time_limit_s,
        "pause_signal": launch.pause_signal,
        "grace_s": launch.grace_s,
        "ran_s": launch.ran_s,
        "allotted_s": launch.allotted_s,
        "allots_setup": launch.allots_setup,
        "artifacts": {kind: str(path) for kind, path in layout.artifacts(launch.run_id).items()},
        "sdk": str(sdk),
        "nodes": [{**_node(node), **_kept(node, launch.run_id, layout, keeping)} for node in launch.nodes],
    }
    if log_limit_bytes is not None:
        document["log_limit_bytes"] = log_limit_bytes
    if keeping is not None:
        document["sync"] = {
            "command": list(keeping.command),
            "store": keeping.store,
            "every_s": {kind: getattr(launch.artifacts, f"{kind}_every_s") for kind in ARTIFACT_KINDS},
            "patience_s": keeping.patience_s,
            "inputs": list(launch.input_artifacts),
        }
    if launch.secrets:
        document["secrets"] = [_secret(secret) for secret in launch.secrets]
    if launch.hooks != HooksLaunch():
        document["hooks"] = _hooks(launch.hooks)
    document.update(_own(launch, layout, packages=own_packages or launch.own_packages))
    if any(isinstance(step, Checkout) for step in launch.setup):
        document["git"] = {"transports": list(git.transports), "key": git.key, "known_hosts": git.known}
    return AttemptRequest(attempt_id=launch.attempt_id, directory=directory, document=document)


def _own(launch: Launch, layout: Layout, *, packages: bool) -> dict[str, Any]:
    """What the attempt, or each of its workers, does not share with others."""
    told: dict[str, Any] = {}
    if packages:
        told["own_packages"] = True
    if launch.own_directories:
        told["own_directories"] = True
    if launch.setup or packages:
        told["environments"] = str(layout.environments)
    return told


def _kept(node: NodeLaunch, run_id: str, layout: Layout, keeping: ArtifactStoring | None) -> dict[str, Any]:
    """Where a node keeps artifacts: on the disk that all share, unless it has one of its own."""
    told: dict[str, Any] = {}
    disk = node.node if node.own_disk else None
    if disk is not None:
        told["own_disk"] = True
        told["artifacts"] = {kind: str(path) for kind, path in layout.artifacts(run_id, disk=disk).items()}
    if keeping is not None:
        told["artifact_state"] = str(layout.artifact_state(run_id, disk=disk))
    return told


def _secret(secret: SecretLaunch) -> dict[str, Any]:
    """A secret as attempt.json names it: its value is in no request."""
    return {
        "name": secret.name,
        "variables": dict(sorted(secret.variables.items())),
        "file": secret.file,
        "target": secret.target,
    }


def _hooks(hooks: HooksLaunch) -> dict[str, list[list[str]]]:
    found = {field.name: getattr(hooks, field.name) for field in fields(hooks)}
    return {name: [list(argv) for argv in commands] for name, commands in found.items() if commands}


def _step(step: SetupLaunch) -> list[str] | dict[str, Any]:
    match step:
        case Checkout():
            return {
                "kind": steps.CHECKOUT,
                "url": step.repository.url,
                "branch": step.repository.branch,
                "commit": step.repository.commit,
                "submodules": step.repository.submodules,
                "path": step.path,
                "install": step.install,
            }
        case PythonPackages():
            return {"kind": steps.PIP, "requirements": list(step.requirements), "upgrade": step.upgrade}
        case SystemPackages():
            return {"kind": steps.APT, "packages": list(step.packages)}
        case _:
            return list(step)


def _shown(step: list[str] | dict[str, Any]) -> str:
    return join(step) if isinstance(step, list) else steps.in_words(steps.read_step(step))


def _node(node: NodeLaunch) -> dict[str, Any]:
    return {
        "node": node.node,
        "address": node.address,
        "rank": node.rank,
        "files": dict(node.files),
        "mounts": [
            {
                "source": mount.source,
                "target": mount.target,
                "read_only": mount.read_only,
                "variables": list(mount.variables),
            }
            for mount in node.mounts
        ],
        "workers": [_worker(worker) for worker in node.workers],
    }


def _worker(worker: WorkerLaunch) -> dict[str, Any]:
    limits = {"cpus": worker.limits.cpus, "memory_bytes": worker.limits.memory_bytes}
    return {
        **{name: amount for name, amount in limits.items() if amount},
        "role": worker.role,
        "replica": worker.replica,
        "index": worker.index,
        "argv": list(worker.argv),
        "env": dict(sorted(worker.env.items())),
        "slots": list(worker.slots),
        "stop_on_failure": worker.stop_on_failure,
    }
