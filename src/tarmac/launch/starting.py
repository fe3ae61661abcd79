"""The commands of workers, setup steps and hooks, with the run's modules loaded. Called by `compose`.

A run for a site is one script on the node of rank 0, like its batch job; on a cluster that starts it by a
job, it is the script of the site.
"""

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
"""The worker of each node if one of them starts all processes, and the first one if the others have to find
it: see `node/peers`. It is beside the directory that makes `import tarmac` work, which is last on PYTHONPATH.
"""


def worker_argv(spec: RunSpec, command: Command, *, of: Assignment | None = None) -> tuple[str, ...]:
    """The argv of a worker; `of` is its assignment."""
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
    """Whether a command starts the processes of all nodes `itself`, or runs in `each` slot."""
    return "itself" if _PROGRAM.search(str(command)) is not None else "each"


def setup_launches(spec: RunSpec) -> tuple[Step, ...]:
    """The setup steps in their form for a node; commands as argvs."""
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
    """The hooks as argvs. For a site, those of the first node are part of the script."""
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
    """A login hook loads no modules, which are for nodes; a site's login node has a plain shell."""
    if spec.site is not None:
        return tuple(("bash", "-c", command.script or "") for command in commands)
    return tuple(argv(command) for command in commands)


def _with_modules(spec: RunSpec, words: tuple[str, ...]) -> tuple[str, ...]:
    """The command in a shell that has loaded the modules; a rehearsal only reports missing ones."""
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
    """The argv to execute without a shell: the user's own, or bash on the script, its lines as written.

    bash stops at the first command that fails, also inside a pipe, so that no failure is ignored.
    """
    if command.script is not None:
        return (*_BASH, command.script)
    return command.argv or ()
