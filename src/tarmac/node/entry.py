"""The two commands of the package run by path. Called by `__main__` alone."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from tarmac.node import runner, warm
from tarmac.node.kernel import namespaces, syscalls
from tarmac.node.processes import detach


def main(arguments: list[str]) -> None:
    """Run what the command line says; returns when it is done."""
    if len(arguments) == 3 and arguments[0] == "run":
        directory = os.path.abspath(arguments[1])
        os.chdir("/")  # the starter's directory may go away
        detach.own_session()
        detach.drop_stdio()
        detach.default_signals()
        _run(directory, arguments[2])
    elif len(arguments) == 3 and arguments[0] == "warm" and all(map(str.isdigit, arguments[1:])):
        warm.serve(int(arguments[1]), idle_s=int(arguments[2]))
    else:
        _usage()


def _run(directory: str, node: str) -> None:
    """Be the runner; or, where processes are set apart, wait for it: whoever signals us means it."""
    way = namespaces.find_way()
    if way.by is None:
        runner.run_attempt(directory, node, None)
        return
    heard = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    namespaces.divide(way)
    pid = os.fork()
    if pid == 0:
        syscalls.die_with_parent(signal.SIGKILL)
        runner.run_attempt(directory, node, namespaces.settle())
        return
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        number = signal.sigwait(heard)
        if number != signal.SIGCHLD:
            os.kill(pid, number)


def _usage() -> NoReturn:
    raise SystemExit("usage: python tarmac/node run DIRECTORY NODE | warm FD SECONDS")
