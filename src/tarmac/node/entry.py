"""The two commands of the package run by path. Called by `__main__` alone."""

from __future__ import annotations

import os
from typing import NoReturn

from tarmac.node import detach, runner, warm


def main(arguments: list[str]) -> None:
    """Run what the command line says; returns when it is done."""
    if len(arguments) == 3 and arguments[0] == "run":
        directory = os.path.abspath(arguments[1])
        os.chdir("/")  # the starter's directory may go away
        detach.own_session()
        detach.drop_stdio()
        detach.default_signals()
        runner.run_attempt(directory, arguments[2])
    elif len(arguments) == 2 and arguments[0] == "warm" and arguments[1].isdigit():
        warm.serve(int(arguments[1]))
    else:
        _usage()


def _usage() -> NoReturn:
    raise SystemExit("usage: python tarmac/node run DIRECTORY NODE | warm FD")
