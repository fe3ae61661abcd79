"""Executes one setup step: its processes write to the setup log, until they exit or must leave.

Made by the hook `setup` for a node; the steps themselves are in that hook and in `packages`.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Mapping, Optional, Sequence

from tarmac.node import environment
from tarmac.node.files import untrusted
from tarmac.node.noderun import NodeRun
from tarmac.node.processes.children import Child
from tarmac.node.processes.spawn import CannotStart, Command


class StepFailed(Exception):
    """The step cannot continue: `how` is the reason, `hint` the remedy if known."""

    def __init__(
        self,
        how: str,
        *,
        exit_code: Optional[int] = None,
        ended_by: Optional[str] = None,
        hint: Optional[str] = None,
    ) -> None:
        super().__init__(how)
        self.how = how
        self.exit_code = exit_code
        self.ended_by = ended_by
        self.hint = hint


class SetupWork:
    """The setup of one node: its log, its directory, and its processes.

    Those run in the workers' container, or `outside` of it.
    """

    def __init__(self, run: NodeRun, *, outside: bool = False) -> None:
        self.run = run
        self._outside = outside
        self.directory = run.node.work
        self.log = run.setup_log
        self._scratch = os.path.join(run.node.directory, "asked")

    def env(self) -> dict[str, str]:
        """The current environment of a step: later steps see the packages of earlier ones."""
        return environment.complete(self.run.document.setup_env, self.run, outside=self._outside)

    def say(self, line: str) -> None:
        """Write a line of the platform into the setup log."""
        untrusted.append_text(self.log, f"{line}\n")

    def do(self, argv: Sequence[str], *, env: Mapping[str, str], directory: Optional[str] = None) -> None:
        """Run a process to its end; raises StepFailed, or Leave if the attempt is asked to leave."""
        child = self._run(argv, env, directory, self.log)
        if child.exit_code != 0:
            raise StepFailed(child.how, exit_code=child.exit_code, ended_by=child.signal)

    def ask(
        self, argv: Sequence[str], *, env: Mapping[str, str], directory: Optional[str] = None
    ) -> Optional[str]:
        """The output of a process, errors included; None if it fails."""
        with suppress(FileNotFoundError):
            os.unlink(self._scratch)
        child = self._run(argv, env, directory, self._scratch)
        printed = untrusted.read_bytes(self._scratch, untrusted.NOTE_BYTES).decode("utf-8", errors="replace")
        os.unlink(self._scratch)
        return printed if child.exit_code == 0 else None

    def wait(self, seconds: float) -> None:
        """Sleep; raises Leave if the attempt is asked to leave."""
        self.run.check_leave()
        self.run.wake_channel.wait(time.monotonic() + seconds)
        self.run.children.reap()
        self.run.check_leave()

    def _run(self, argv: Sequence[str], env: Mapping[str, str], directory: Optional[str], log: str) -> Child:
        place = self.run.view if self._outside else self.run.place
        try:
            command = Command(argv, dict(env), directory or self.directory, log, place=place)
            child = self.run.children.start(command)
        except CannotStart as problem:
            raise StepFailed(str(problem), exit_code=problem.exit_code) from None
        self.run.attend(child)
        return child
