"""Shared by several dialects: changes to a launch, and the refusal of extras that a dialect does not take.

Called by the conventions and readers of the dialects.
"""

from collections.abc import Callable, Mapping

from tarmac.dialects.dialect import Extras
from tarmac.model.errors import InvalidInput, Problem
from tarmac.node.attempt.document import Launch, Mount, NodeLaunch, WorkerLaunch

Family = Callable[[NodeLaunch, WorkerLaunch], Mapping[str, str]]
"""The variables of one worker."""


def with_variables(launch: Launch, family: Family) -> Launch:
    """The launch with these variables for each worker; they replace earlier values."""

    def worker(node: NodeLaunch, launched: WorkerLaunch) -> WorkerLaunch:
        return launched._replace(env={**launched.env, **family(node, launched)})

    return launch._replace(
        nodes=tuple(
            node._replace(workers=tuple(worker(node, launched) for launched in node.workers))
            for node in launch.nodes
        )
    )


def with_files(
    launch: Launch, files: Callable[[NodeLaunch], Mapping[str, str]], mounts: tuple[Mount, ...] = ()
) -> Launch:
    """The launch with these small files on each node, and these additional mounts."""
    return launch._replace(
        nodes=tuple(
            node._replace(files={**node.files, **files(node)}, mounts=(*node.mounts, *mounts))
            for node in launch.nodes
        )
    )


def refuse_extras(extras: Extras, *, filename: str, dialect: str) -> None:
    """Raise InvalidInput if an entry point or parameters are given for a dialect that has none."""
    given = {"an entry point": extras.entry_point, "parameters": extras.parameters}
    if extra_names := [name for name, value in given.items() if value]:
        message = f"{' and '.join(extra_names)} cannot be given for a run file of dialect {dialect!r}"
        raise InvalidInput([Problem(message=message, file=filename, hint="only MLflow projects take them")])
