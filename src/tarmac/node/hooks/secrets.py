"""Hook: give the attempt its secrets, as variables and as files in memory. Called by `runner`.

The values came with the request to start, over a socket (see `warm`), or sealed in the attempt directory,
where the job has the key (see `sealed`). They stand in no file but those that the run is given as files, and
those are removed when its part of the attempt has ended.
"""

from __future__ import annotations

import os

from tarmac.node.attempt import sealed
from tarmac.node.attempt.document import SecretLaunch
from tarmac.node.files import secretfiles
from tarmac.node.kernel.mountplan import Bind
from tarmac.node.noderun import NodeRun

_VALUE, _PATH, _DIRECTORY = "{value}", "{path}", "{directory}"
"""What stands for the value, its file and the directory of that, in the variables of a secret."""


_GIT = "GIT_SSH_COMMAND"


class ValueMissing(OSError):
    """Whoever started the runner did not give it the value."""


def give_secrets(run: NodeRun) -> None:
    """Set the variables and write the files; raises OSError where that cannot be."""
    secrets, values = run.document.secrets, run.secret_values
    if not secrets:
        return
    for secret in secrets:
        if secret.name not in values:
            raise ValueMissing(f"the value of secret {secret.name} did not come {_way(run)}")
    _remove_sealed(run)
    paths = _write_files(run)
    for secret in secrets:
        path = paths.get(secret.file or "", "")
        _set_variables(run, secret, value=values[secret.name], path=path)
        if _GIT in secret.variables:  # checkout steps use the run's own key
            run.git = run.git._replace(key=path)
        if secret.target is not None:
            names = tuple(name for name, text in secret.variables.items() if text == _PATH)
            run.secret_mounts.append((path, secret.target, names))


def take_secrets_back(run: NodeRun) -> None:
    """The attempt has ended on this node: nothing of its secrets stays."""
    if any(secret.file is not None for secret in run.document.secrets):
        secretfiles.remove(run.document.token, run.part.node, run.node.directory)
    if run.document.secrets:
        _remove_sealed(run)


def _way(run: NodeRun) -> str:
    return (
        "with the request to start"
        if run.granted is None
        else "with the job: its key is missing, or its file"
    )


def _remove_sealed(run: NodeRun) -> None:
    """Every node reads before it claims: the last that claims sees that the others have."""
    if run.granted is not None and all(
        os.path.exists(run.attempt.node(name).claim) for name in run.document.node_names
    ):
        sealed.remove(run.attempt.directory)


def _write_files(run: NodeRun) -> dict[str, str]:
    """The path of each file, by its name below the directory of the secrets."""
    values = {secret.file: run.secret_values[secret.name] for secret in run.document.secrets if secret.file}
    if not values:
        return {}
    place, in_memory = secretfiles.make(run.document.token, run.part.node, run.node.directory)
    run.shown.append(Bind(place, place))
    if not in_memory:
        run.events.append(
            "notice", text=f"no file system in memory at {secretfiles.MEMORY}: files of secrets lie on disk"
        )
    return {name: secretfiles.write(place, name, value) for name, value in values.items()}


def _set_variables(run: NodeRun, secret: SecretLaunch, *, value: str, path: str) -> None:
    for name, text in secret.variables.items():
        if text == _VALUE:
            run.secret_env[name] = value
        else:
            with_path = text.replace(_PATH, path)
            run.secret_env[name] = with_path.replace(_DIRECTORY, path.rpartition("/")[0])
