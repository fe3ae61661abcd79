"""A command of the spec as argv. Used for workers and setup steps."""

from __future__ import annotations

from tarmac.model.spec import Command

_BASH = ("bash", "-eo", "pipefail", "-c")


def argv(command: Command) -> tuple[str, ...]:
    """What to execute without a shell: the user's own argv, or bash on the script, its lines as written.

    bash stops at the first command that fails, also inside a pipe, so that a failure is never passed over.
    """
    if command.script is not None:
        return (*_BASH, command.script)
    return command.argv or ()
