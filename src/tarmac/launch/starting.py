"""What the workers, setup steps and hooks of a run execute: their commands, with the run's modules loaded.

Called by `compose`. A run for a site is one script on the node of rank 0, as its batch job would be; on a
cluster that starts it by a job, that is the script of the site.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tarmac.launch.parameters import filled
from tarmac.launch.quoting import quote
from tarmac.launch.site_steps import batch_steps, find_module_command, load_modules, rehearsed_steps
from tarmac.launch.topology import Assignment
from tarmac.model.spec import (
    ON_FIRST_NODE,
    Checkout,
    Command,
    Launcher,
    PythonPackages,
    RunSpec,
    SetupStep,
    SystemPackages,
)
from tarmac.node.attempt.document import Argv
from tarmac.node.attempt.steps import AptStep, CheckoutStep, CommandStep, PipStep, Step

_PROGRAM = re.compile(r"(?:^|[\s;&|(/])(?:mpirun|mpiexec|horovodrun)(?:\s|$)", re.ASCII)
_EXEC = 'exec "$@"'
_PEERS = 'exec python3 -E -S "${PYTHONPATH##*:}/../peers" "$@"'
"""The worker of each node where one of them starts all processes, and the first one where the others have to
find it: see `node/peers`. It lies beside what makes `import tarmac` work, which comes last on PYTHONPATH."""


def worker_argv(spec: RunSpec, command: Command, *, of: Assignment | None = None) -> tuple[str, ...]:
    """What a worker executes; `of`: which one it is."""
    if spec.site is not None and spec.rehearsal is None:
        return ("bash", "-l", "-c", "\n".join(batch_steps(spec)))
    if spec.site is not None:
        return ("bash", "-c", "\n".join(rehearsed_steps(spec)))
    words = argv(filled(spec, command))
    if of is not None and of.role.launcher in ON_FIRST_NODE:
        words = ("sh", "-c", _PEERS, "sh", "launch", of.placement.node, _starts(command), *words)
    elif of is not None and of.role.launcher is Launcher.HOROVOD and of.rank == 0:
        words = ("sh", "-c", _PEERS, "sh", "rendezvous", *words)
    return _with_modules(spec, words)


def _starts(command: Command) -> str:
    """Whether a command starts the processes of all nodes itself, or is to be started in each slot."""
    return "itself" if _PROGRAM.search(str(command)) is not None else "each"


def setup_launches(spec: RunSpec) -> tuple[Step, ...]:
    """The setup steps as they are carried out on a node; commands as argvs."""
    return tuple(_step(spec, step) for step in spec.setup)


def _step(spec: RunSpec, step: SetupStep) -> Step:
    match step:
        case Checkout():
            source = step.repository
            return CheckoutStep(
                source.url,
                step.path,
                branch=source.branch,
                commit=source.commit,
                submodules=source.submodules,
                install=step.install,
            )
        case PythonPackages():
            return PipStep(step.requirements, step.upgrade, step.imported)
        case SystemPackages():
            return AptStep(step.packages)
        case _:
            return CommandStep(_with_modules(spec, argv(filled(spec, step))))


def hooks_launch(spec: RunSpec) -> Mapping[str, tuple[Argv, ...]]:
    """The hooks as argvs. Those of the first node are a part of the script, where a run goes to a site."""
    hooks, on_node = spec.hooks, spec.site is None
    found = {
        "before_login": _login_hook(spec, hooks.before_login),
        "before": _node_hook(spec, hooks.before) if on_node else (),
        "after": _node_hook(spec, hooks.after) if on_node else (),
        "after_login": _login_hook(spec, hooks.after_login),
    }
    return {name: commands for name, commands in found.items() if commands}


def _node_hook(spec: RunSpec, commands: tuple[Command, ...]) -> tuple[Argv, ...]:
    return tuple(_with_modules(spec, argv(filled(spec, command))) for command in commands)


def _login_hook(spec: RunSpec, commands: tuple[Command, ...]) -> tuple[Argv, ...]:
    """Modules are those of the nodes; the shell of a site's login node is a plain one."""
    if spec.site is not None:
        return tuple(("bash", "-c", command.script or "") for command in commands)
    return tuple(argv(command) for command in commands)


def _with_modules(spec: RunSpec, words: tuple[str, ...]) -> tuple[str, ...]:
    """The command in a shell that has loaded the modules; a rehearsal only says that there are none."""
    modules = spec.environment.modules
    if not modules:
        return words
    if spec.rehearsal is not None:
        lines = load_modules(modules)
    else:
        lines = [find_module_command(), *(f"module load {quote(name)} || exit" for name in modules)]
    return ("bash", "-c", "\n".join([*lines, _EXEC]), "bash", *words)


_BASH = ("bash", "-eo", "pipefail", "-c")


def argv(command: Command) -> tuple[str, ...]:
    """What to execute without a shell: the user's own argv, or bash on the script, its lines as written.

    bash stops at the first command that fails, also inside a pipe, so that a failure is never passed over.
    """
    if command.script is not None:
        return (*_BASH, command.script)
    return command.argv or ()
