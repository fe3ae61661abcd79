"""The entry point by path: `python .../tarmac/node run DIRECTORY NODE` (`join`, `take`, `warm`, `as`).

Called by engines, through `starting`. If tarmac is not installed, it puts its own copy on the path.
"""

from __future__ import annotations

import os
import sys

if not __package__:
    # Run by path: the package's own directory must not shadow the standard library.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

import json
import signal
from typing import Optional

from tarmac.node import runner
from tarmac.node.attempt import sealed
from tarmac.node.attempt.document import GrantedNode, read_granted
from tarmac.node.attempt.protocol import KEY_VARIABLE, rank_name
from tarmac.node.kernel import namespaces, syscalls, system_users
from tarmac.node.processes import detach


def main(arguments: list[str]) -> None:
    """Execute the command line; returns at its end."""
    if len(arguments) == 3 and arguments[0] == "run":
        _run(os.path.abspath(arguments[1]), arguments[2], None)
    elif len(arguments) in (5, 6) and arguments[0] == "join":
        try:
            granted = read_granted(*arguments[2:])
        except ValueError as error:
            raise SystemExit(str(error)) from None
        directory = os.path.abspath(arguments[1])
        key = os.environ.pop(KEY_VARIABLE, None)  # its children do not inherit it
        _run(directory, rank_name(granted.rank), granted, sealed.read(directory, key))
    elif len(arguments) == 3 and arguments[0] == "take":
        from tarmac.node.files import codestore  # noqa: PLC0415 - who starts a runner waits for it

        try:
            codestore.receive(sys.stdin.buffer, *arguments[1:])
        except (OSError, ValueError) as error:
            raise SystemExit(f"the code was not taken: {error}") from None
    elif len(arguments) == 3 and arguments[0] == "warm" and all(map(str.isdigit, arguments[1:])):
        from tarmac.node import warm  # noqa: PLC0415

        warm.serve(int(arguments[1]), idle_s=int(arguments[2]))
    elif len(arguments) == 3 and arguments[0] == "trial":
        from tarmac.node.container import making  # noqa: PLC0415

        detach.default_signals()  # if SIGCHLD is ignored, no child can be waited for
        sys.stdout.write(json.dumps(making.try_container(*arguments[1:])._asdict()))
    elif len(arguments) == 4 and arguments[0] == "as":
        system_users.execute(arguments[1], int(arguments[2]), arguments[3])
    else:
        ways = (
            "run DIRECTORY NODE",
            "join DIRECTORY RANK NODES ENDS_AT [DEVICES]",
            "take DIRECTORY DIGEST",
            "warm FD SECONDS",
            "trial DIRECTORY DRIVER",
            "as USER LEAST_UID COMMAND",
        )
        raise SystemExit(f"usage: python tarmac/node {' | '.join(ways)}")


def _run(
    directory: str, node: str, granted: Optional[GrantedNode], secrets: Optional[dict[str, str]] = None
) -> None:
    """Run as the runner, or wait for it if it has a process namespace: signals to this process are for it."""
    os.chdir("/")  # the starter's directory may be removed
    detach.own_session()
    detach.drop_stdio()
    detach.default_signals()
    way = namespaces.find_way()
    if way.by is None:
        runner.run_attempt(directory, node, None, secrets, granted)
        return
    heard = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    namespaces.divide(way)
    pid = os.fork()
    if pid == 0:
        syscalls.die_with_parent(signal.SIGKILL)
        runner.run_attempt(directory, node, namespaces.enter(), secrets, granted)
        return
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        number = signal.sigwait(heard)
        if number != signal.SIGCHLD:
            os.kill(pid, number)


if __name__ == "__main__":
    main(sys.argv[1:])
