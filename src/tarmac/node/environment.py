"""The node's own part of a worker's environment. Called by the hooks `setup` and `workers`."""

from __future__ import annotations

import os
import pwd
from functools import lru_cache
from typing import Mapping, Sequence

from tarmac.node.attempt import protocol
from tarmac.node.container.drivers import USUAL_PATH
from tarmac.node.kernel.system_users import SystemUser
from tarmac.node.noderun import NodeRun

_OF_THE_USER = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR")
"""Variables that, unless the run sets them, come from the runner's environment, else from the account."""


_OF_SLURM = ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NODEID", "SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT")
"""Variables of the runner's job. Not SLURM_PROCID and its like: frameworks would use srun's ranks."""

_AS_ROOT = {"HOME": "/root", "USER": "root", "LOGNAME": "root"}
"""Variables of the user in a container, who is root there."""


def complete(variables: Mapping[str, str], run: NodeRun, *, outside: bool = False) -> dict[str, str]:
    """The complete environment of a process: the attempt's variables and those of this node.

    `outside`: the process runs beside the runner, even if the attempt runs in a container.
    """
    container = None if outside else run.container
    env = dict(account()) if run.view is None else _of_system_user(run.view.user)
    if container is not None:  # the image's variables, and none of the node's own
        env = {"PATH": USUAL_PATH, **_AS_ROOT, **container.image.env}
        if "VIRTUAL_ENV" in variables:
            env["PATH"] = f"{variables['VIRTUAL_ENV']}/bin:{env['PATH']}"
    if run.granted is not None:
        env.update({name: os.environ[name] for name in _OF_SLURM if name in os.environ})
    env.update(variables)
    if outside and run.container is not None:
        env["PATH"] = os.environ.get("PATH", USUAL_PATH)
    if container is not None:
        env.update(container.image.visible(env))
    env.update(run.secret_env)
    env.update(run.node_env)
    if run.venv is not None:
        env["VIRTUAL_ENV"] = run.venv
        env["PATH"] = os.pathsep.join([*run.programs, env.get("PATH", os.defpath)])
    env[protocol.TOKEN_VARIABLE] = run.document.token
    env[protocol.PAUSE_VARIABLE] = run.node.pause
    env[protocol.FINISHED_VARIABLE] = run.node.finished
    env[protocol.REPORTS_VARIABLE] = run.node.reports
    env[protocol.WORLD_VARIABLE] = run.node.world
    if run.document.settings.sdk is not None:
        # Last, since modules of the run take precedence.
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (env.get("PYTHONPATH"), run.document.settings.sdk)))
    return env


def _of_system_user(user: SystemUser) -> dict[str, str]:
    """The variables of a system user; nothing of the runner's own."""
    env = {"HOME": user.home, "USER": user.name, "LOGNAME": user.name, "SHELL": user.shell, **_own(("LANG",))}
    runtime = f"/run/user/{user.uid}"
    return {**env, "XDG_RUNTIME_DIR": runtime} if os.path.isdir(runtime) else env


@lru_cache(maxsize=1)
def account() -> dict[str, str]:
    """The variables of the runner's user. A warm parent reads them once for all of its runners."""
    own = _own(_OF_THE_USER)
    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:
        return {"HOME": "/", **own}  # a user without an account, as in some containers
    found = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell}
    return {**found, **own}


def _own(names: Sequence[str]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}
