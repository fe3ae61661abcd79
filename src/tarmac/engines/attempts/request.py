"""What an engine makes of a launch: an attempt directory, and the runners to start in it.

Rendered by engines without touching the disk; the dry run prints this very object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from tarmac.engines.attempts.layout import Layout
from tarmac.launch.quoting import join
from tarmac.model.containers import ContainerRules
from tarmac.model.errors import InvalidInput
from tarmac.model.launch import ContainerLaunch, HooksLaunch, Launch, NodeLaunch, SetupLaunch, WorkerLaunch
from tarmac.model.secret import SecretLaunch
from tarmac.model.spec import Checkout, PythonPackages, SystemPackages
from tarmac.node.attempt import protocol, steps
from tarmac.node.attempt.document import (
    AttemptDocument,
    ContainerPart,
    LogPolicyPart,
    MountPart,
    NodePart,
    SecretPart,
    SyncPart,
    WorkerPart,
    to_json,
)
from tarmac.node.attempt.protocol import ARTIFACT_KINDS, ARTIFACT_VARIABLES, LOOK_S
from tarmac.node.attempt.steps import AptStep, CheckoutStep, CommandStep, PipStep, Step
from tarmac.node.container.reference import ALWAYS
from tarmac.node.files.gitrules import GitRules

HIDDEN = "(hidden)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactStoring:
    """How artifacts are kept: in which store, by which command, and how long it tries while that is down."""

    store: str
    command: tuple[str, ...]
    patience_s: float


NO_RULES = GitRules()
NO_CONTAINER_RULES = ContainerRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What holds for all attempts of an engine, wherever its nodes are.

    `sdk` lies on the nodes, as does the command that keeps artifacts (`keeping` None: they stay where they
    are). `notify` is a FIFO on their disk that the engine reads; None: it looks by itself. Runners look at
    what they are asked at once where they can be woken, and every `look_s` by themselves. `own_packages`:
    each run has packages of its own, whatever its launch says. `shared_directory`: all nodes see one and the
    same attempt directory. `lease_s`: how long an attempt goes on while the server does not ask about it on a
    node, which can be cut off (None: for ever). `contact`: the directory of the nodes where
    the cluster renews a file for each node that it reaches, so that the server may be down for longer.
    """

    sdk: str
    notify: str | None = None
    look_s: float = LOOK_S
    shared_directory: bool = True
    lease_s: float | None = None
    contact: str | None = None
    keeping: ArtifactStoring | None = None
    git: GitRules = NO_RULES
    containers: ContainerRules = NO_CONTAINER_RULES
    own_packages: bool = False
    log_limit_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRequest:
    """One attempt: `document` becomes attempt.json in `directory`.

    Printed, it shows everything but the token.
    """

    attempt_id: str
    directory: Path
    document: AttemptDocument

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that it is given when it is started."""
        return tuple(secret.name for secret in self.document.secrets)

    @property
    def artifact_paths(self) -> Mapping[str, str]:
        """Where workers find their artifacts, by the variable that says so."""
        paths = self.document.nodes[0].artifacts
        return {names[0]: paths[kind] for kind, names in ARTIFACT_VARIABLES.items()}

    def __str__(self) -> str:
        shown = to_json(self.document._replace(token=HIDDEN))
        lines = [f"{self.directory / protocol.ATTEMPT_FILE}:", json.dumps(shown, indent=2)]
        for node in self.document.nodes:
            lines.append(f"on node {node.node} ({node.address}), rank {node.rank}:")
            lines.extend(f"  setup: {_shown(step)}" for step in self.document.setup)
            lines.extend(f"  {worker.name}: {join(worker.argv)}" for worker in node.workers)
        return "\n".join(lines)


def render(launch: Launch, layout: Layout, settings: NodeSettings) -> AttemptRequest:
    """The request for a launch; raises InvalidInput for an attempt id that cannot be a path."""
    directory = layout.attempt(launch.attempt_id)
    if directory is None:
        raise InvalidInput(f"{launch.attempt_id!r} cannot be the id of an attempt")
    packages, keeping = settings.own_packages or launch.own_packages, settings.keeping
    checks_out = any(isinstance(step, Checkout) for step in launch.setup)
    document = AttemptDocument(
        attempt_id=launch.attempt_id,
        run_id=launch.run_id,
        run_name=launch.run_name,
        number=launch.number,
        token=launch.token,
        notify=settings.notify,
        look_s=settings.look_s,
        shared_directory=settings.shared_directory,
        container=_container(launch.container, layout, settings.containers),
        code=str(layout.code(launch.code_digest)) if launch.code_digest else None,
        setup=tuple(_step(step) for step in launch.setup),
        setup_env=dict(sorted(launch.setup_env.items())),
        hooks=_hooks(launch.hooks),
        own_packages=packages,
        own_directories=launch.own_directories,
        environments=str(layout.environments) if launch.setup or packages else None,
        git=settings.git if checks_out else NO_RULES,
        time_limit_s=launch.time_limit_s,
        ran_s=launch.ran_s,
        allotted_s=launch.allotted_s,
        allots_setup=launch.allots_setup,
        lease_s=settings.lease_s,
        contact=settings.contact,
        log_limit_bytes=settings.log_limit_bytes,
        pause_signal=launch.pause_signal,
        grace_s=launch.grace_s,
        sdk=settings.sdk,
        sync=_sync(launch, keeping) if keeping is not None else None,
        secrets=tuple(_secret(secret) for secret in launch.secrets),
        log_policies=tuple(
            LogPolicyPart(policy.pattern, policy.label, policy.action) for policy in launch.log_policies
        ),
        rehearsal=launch.rehearsal,
        nodes=_nodes(launch, layout, state=keeping is not None),
    )
    return AttemptRequest(attempt_id=launch.attempt_id, directory=directory, document=document)


def _sync(launch: Launch, keeping: ArtifactStoring) -> SyncPart:
    return SyncPart(
        command=keeping.command,
        store=keeping.store,
        every_s={kind: getattr(launch.artifacts, f"{kind}_every_s") for kind in ARTIFACT_KINDS},
        patience_s=keeping.patience_s,
        inputs=launch.input_artifacts,
    )


def _secret(secret: SecretLaunch) -> SecretPart:
    """A secret as attempt.json names it: its value is in no request."""
    variables = dict(sorted(secret.variables.items()))
    return SecretPart(secret.name, variables, file=secret.file, target=secret.target)


def _container(
    container: ContainerLaunch | None, layout: Layout, rules: ContainerRules
) -> ContainerPart | None:
    if container is None:
        return None
    return ContainerPart(
        container.image,
        str(layout.images),
        pull=ALWAYS if container.pull_always else "",
        credentials=container.credentials,
        digest=container.digest,
        shared_memory_bytes=container.shared_memory_bytes,
        driver=rules.driver,
        shows=rules.shows,
        mirrors=rules.mirrors,
    )


def _hooks(hooks: HooksLaunch) -> Mapping[str, tuple[tuple[str, ...], ...]]:
    found = {field.name: getattr(hooks, field.name) for field in fields(hooks)}
    return {name: commands for name, commands in found.items() if commands}


def _step(step: SetupLaunch) -> Step:
    match step:
        case Checkout():
            repository = step.repository
            return CheckoutStep(
                repository.url,
                step.path,
                branch=repository.branch,
                commit=repository.commit,
                submodules=repository.submodules,
                install=step.install,
            )
        case PythonPackages():
            return PipStep(step.requirements, step.upgrade, step.imported)
        case SystemPackages():
            return AptStep(step.packages)
        case _:
            return CommandStep(step)


def _shown(step: Step) -> str:
    return join(step.argv) if isinstance(step, CommandStep) else steps.in_words(step)


def _nodes(launch: Launch, layout: Layout, *, state: bool) -> tuple[NodePart, ...]:
    """Every node's part; its artifacts lie on the disk that all share, unless it has one of its own."""
    found, kept = [], {}
    for node in launch.nodes:
        disk = node.node if node.own_disk else None
        if disk not in kept:
            directories = layout.artifacts(launch.run_id, disk=disk)
            state_file = str(layout.artifact_state(launch.run_id, disk=disk)) if state else None
            kept[disk] = {kind: str(path) for kind, path in directories.items()}, state_file
        found.append(_node(node, *kept[disk]))
    return tuple(found)


def _node(node: NodeLaunch, artifacts: Mapping[str, str], artifact_state: str | None) -> NodePart:
    return NodePart(
        node=node.node,
        address=node.address,
        rank=node.rank,
        workers=tuple(_worker(worker) for worker in node.workers),
        files=dict(node.files),
        mounts=tuple(
            MountPart(mount.source, mount.target, mount.read_only, mount.variables) for mount in node.mounts
        ),
        artifacts=artifacts,
        artifact_state=artifact_state,
        own_disk=node.own_disk,
    )


def _worker(worker: WorkerLaunch) -> WorkerPart:
    return WorkerPart(
        role=worker.role,
        replica=worker.replica,
        worker=worker.index,
        argv=worker.argv,
        env=dict(sorted(worker.env.items())),
        slots=worker.slots,
        stop_on_failure=worker.stop_on_failure,
        cpus=worker.limits.cpus,
        memory_bytes=worker.limits.memory_bytes,
        rank=worker.rank,
    )
