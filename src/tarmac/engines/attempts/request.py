"""The request of an engine for a launch: an attempt directory, and the runners to start in it.

Rendered by engines without touching the disk; the dry run prints this very object.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tarmac.engines.attempts.layout import Layout
from tarmac.launch.quoting import join
from tarmac.model.errors import InvalidInput
from tarmac.model.kinds.engines import ContainerRules
from tarmac.node.attempt import document, protocol, steps
from tarmac.node.attempt.document import ArtifactSync, Launch, SecretLaunch
from tarmac.node.attempt.protocol import ARTIFACT_VARIABLES
from tarmac.node.attempt.steps import CheckoutStep, CommandStep, Step
from tarmac.node.files.gitrules import GitRules

HIDDEN = "(hidden)"


NO_RULES = GitRules()
NO_CONTAINER_RULES = ContainerRules()
NO_SETTINGS = document.NodeSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSettings:
    """The settings for all attempts of an engine, wherever its nodes are; each engine completes `node`.

    The command that stores artifacts is on the nodes (`keeping` None: artifacts stay in place); `keeping` has
    no intervals and inputs, which are those of a launch.
    `own_packages`: each run has packages of its own, whatever its launch specifies. `least_uid`: the lowest
    uid of a system user whose runs it takes; None: it takes none of any.
    """

    node: document.NodeSettings = NO_SETTINGS
    keeping: ArtifactSync | None = None
    git: GitRules = NO_RULES
    containers: ContainerRules = NO_CONTAINER_RULES
    own_packages: bool = False
    least_uid: int | None = None


DEFAULT_ATTEMPTS = AttemptSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRequest:
    """One attempt: `document` becomes attempt.json in `directory`.

    Its printed form omits only the token.
    """

    directory: Path
    document: Launch

    @property
    def attempt_id(self) -> str:
        """The id of the attempt."""
        return self.document.attempt_id

    @property
    def secrets(self) -> tuple[SecretLaunch, ...]:
        """The secrets that the attempt gets at its start."""
        return self.document.secrets

    @property
    def artifact_paths(self) -> Mapping[str, str]:
        """The artifact directories of workers, by the variable that names each."""
        paths = self.document.nodes[0].artifacts
        return {names[0]: paths[kind] for kind, names in ARTIFACT_VARIABLES.items()}

    def __str__(self) -> str:
        shown = document.to_json(self.document._replace(token=HIDDEN))
        lines = [f"{self.directory / protocol.ATTEMPT_FILE}:", json.dumps(shown, indent=2)]
        for node in self.document.nodes:
            lines.append(f"on node {node.node} ({node.address}), rank {node.rank}:")
            lines.extend(f"  setup: {_shown(step)}" for step in self.document.setup)
            lines.extend(f"  {worker.name}: {join(worker.argv)}" for worker in node.workers)
        return "\n".join(lines)


def render(launch: Launch, layout: Layout, settings: AttemptSettings) -> AttemptRequest:
    """The request for a launch; raises InvalidInput for an attempt id that is not valid as a path."""
    directory = layout.attempt(launch.attempt_id)
    if directory is None:
        raise InvalidInput(f"{launch.attempt_id!r} cannot be the id of an attempt")
    packages = settings.own_packages or launch.own_packages
    environments, runs_as = layout.environments, launch.runs_as
    if runs_as is not None:
        if settings.least_uid is None:
            raise InvalidInput(f"no run runs as the system user {runs_as.name} on this cluster")
        environments = environments / "of" / runs_as.name
        runs_as = runs_as._replace(least_uid=settings.least_uid)
    checks_out = any(isinstance(step, CheckoutStep) for step in launch.setup)
    described = launch._replace(
        settings=settings.node,
        batch=document.NO_BATCH,
        container=_container(launch.container, layout, settings.containers),
        code=str(layout.code(launch.code_digest)) if launch.code_digest else None,
        setup_env=dict(sorted(launch.setup_env.items())),
        own_packages=packages,
        runs_as=runs_as,
        environments=str(environments) if launch.setup or packages else None,
        git=settings.git if checks_out else NO_RULES,
        sync=_sync(launch.sync, settings.keeping),
        nodes=_nodes(launch, layout, state=settings.keeping is not None),
    )
    return AttemptRequest(directory=directory, document=described)


def _sync(sync: ArtifactSync | None, keeping: ArtifactSync | None) -> ArtifactSync | None:
    if sync is None or keeping is None:
        return None
    return keeping._replace(every_s=sync.every_s, inputs=sync.inputs, rejected_by=sync.rejected_by)


def _container(
    container: document.ContainerLaunch | None, layout: Layout, rules: ContainerRules
) -> document.ContainerLaunch | None:
    if container is None:
        return None
    return container._replace(
        images=str(layout.images), driver=rules.driver, shows=rules.shows, mirrors=rules.mirrors
    )


def _shown(step: Step) -> str:
    return join(step.argv) if isinstance(step, CommandStep) else steps.in_words(step)


def _nodes(launch: Launch, layout: Layout, *, state: bool) -> tuple[document.NodeLaunch, ...]:
    """Every node's part; its artifacts are on the shared disk, unless the node has a disk of its own."""
    found, kept = [], {}
    for node in launch.nodes:
        disk = node.node if node.own_disk else None
        if disk not in kept:
            directories = layout.artifacts(launch.run_id, disk=disk)
            state_file = layout.artifact_state(launch.run_id, disk=disk) if state else None
            kept[disk] = directories, state_file
        artifacts, artifact_state = kept[disk]
        workers = tuple(  # with sorted variables, for people who read the request
            worker._replace(env=dict(sorted(worker.env.items()))) for worker in node.workers
        )
        found.append(node._replace(workers=workers, artifacts=artifacts, artifact_state=artifact_state))
    return tuple(found)
