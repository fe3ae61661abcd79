"""Packages of the node's distribution, if the server allows them. Called by `hooks.setup`."""

from __future__ import annotations

import os
import re
import shlex

from tarmac.node.attempt.steps import AptStep
from tarmac.node.setup.setupwork import SetupWork, StepFailed

_LOCK_S = 600
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?")


def install(work: SetupWork, step: AptStep) -> None:
    """Install packages with apt-get, after other installations on this machine. Raises StepFailed."""
    strange = [name for name in step.packages if not _PACKAGE.fullmatch(name)]
    if strange:
        raise StepFailed(f"{strange[0]!r:.80} is not the name of a package")
    env = {**work.env(), "DEBIAN_FRONTEND": "noninteractive"}
    tool = ["apt-get", "-y", "-o", f"DPkg::Lock::Timeout={_LOCK_S}"]
    if work.run.container is not None and os.geteuid() != 0:
        tool += ["-o", "APT::Sandbox::User=root"]  # the container of an ordinary user has no other user
    for argv in ([*tool, "update"], [*tool, "install", "--", *step.packages]):
        work.say(f"+ {shlex.join(argv)}")
        try:
            work.do(argv, env=env)
        except StepFailed as failed:
            if failed.exit_code != 127 and os.geteuid() != 0:
                failed.hint = "apt-get needs root, and this run is not root on its node"
            raise
