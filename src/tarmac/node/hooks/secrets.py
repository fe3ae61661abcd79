"""Hook: give the attempt its secrets, as variables and as files in memory. Called by `runner`.

The values arrive with the request to start, over a socket (see `warm`), or sealed in the attempt directory if
the job has the key (see `sealed`). Only the secret files that the run requests contain them; the runner
removes those files at the end of its part of the attempt.
"""

from __future__ import annotations

import os

from tarmac.node.attempt import sealed
from tarmac.node.files import secretfiles
from tarmac.node.kernel.mountplan import Bind
from tarmac.node.noderun import NodeRun

_VALUE, _PATH, _DIRECTORY = "{value}", "{path}", "{directory}"
"""Placeholders for the value, its file and that file's directory in the variables of a secret."""


_GIT = "GIT_SSH_COMMAND"


def give_secrets(run: NodeRun) -> None:
    """Set the variables and write the files; raises OSError if that is impossible."""
    secrets, values = run.document.secrets, run.secret_values
    if not secrets:
        return
    way = "request to start" if run.granted is None else "job: its key is missing, or its file"
    for secret in secrets:
        if secret.name not in values:
            raise OSError(f"the value of secret {secret.name} did not come with the {way}")
    _remove_sealed(run)
    paths = _write_files(run)
    for secret in secrets:
        path = paths.get(secret.file or "", "")
        for variable, text in secret.variables.items():
            with_path = text.replace(_PATH, path).replace(_DIRECTORY, path.rpartition("/")[0])
            run.secret_env[variable] = values[secret.name] if text == _VALUE else with_path
        if _GIT in secret.variables:  # checkout steps use the run's own key
            run.git = run.git._replace(key=path)
        if secret.target is not None:
            names = tuple(name for name, text in secret.variables.items() if text == _PATH)
            run.secret_mounts.append(Bind(path, secret.target, read_only=True, variables=names))


def take_secrets_back(run: NodeRun) -> None:
    """Remove all secrets of the attempt from this node after it has ended."""
    if any(secret.file is not None for secret in run.document.secrets):
        secretfiles.remove(run.document.token, run.part.node, run.node.directory)
    if run.document.secrets:
        _remove_sealed(run)


def _remove_sealed(run: NodeRun) -> None:
    """Remove the sealed values: nodes read before they claim, so the last to claim knows that all have."""
    if run.granted is not None and all(
        os.path.exists(run.attempt.node(name).claim) for name in run.document.node_names
    ):
        sealed.remove(run.attempt.directory)


def _write_files(run: NodeRun) -> dict[str, str]:
    """Write the files; returns their paths by name below the directory of the secrets."""
    values = {secret.file: run.secret_values[secret.name] for secret in run.document.secrets if secret.file}
    if not values:
        return {}
    place, in_memory = secretfiles.make(run.document.token, run.part.node, run.node.directory)
    run.shown.append(Bind(place, place))
    if not in_memory:
        where = secretfiles.MEMORY
        run.events.notice(f"no file system in memory at {where}: files of secrets lie on disk")
    return {name: secretfiles.write(place, name, value) for name, value in values.items()}
