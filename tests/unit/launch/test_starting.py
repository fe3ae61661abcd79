"""What workers, setup steps and hooks execute where a run names modules."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tarmac.launch.compose import hooks_launch, setup_launches, worker_argv
from tarmac.model.codec import replace
from tarmac.model.spec import (
    Command,
    Environment,
    Hooks,
    Process,
    PythonPackages,
    Rehearsal,
    Role,
    RunSpec,
    SetupCommand,
)
from tarmac.node.attempt.steps import CommandStep, PipStep

SAY = Command(argv=("sh", "-c", 'echo "$LOADED" "$@"', "sh", "a b", "$c"))
FUNCTION = (
    'module() { [ "$1 $2" = "load GCC" ] || return 7; export LOADED=GCC; }; export -f module; exec "$@"'
)


def spec(*modules: str, rehearsed: bool = False) -> RunSpec:
    return RunSpec(
        name="r",
        roles=(Role(processes=(Process(command=SAY),)),),
        environment=Environment(modules=modules),
        rehearsal=Rehearsal(nodes=1, slots_per_node=1) if rehearsed else None,
    )


def run(argv: tuple[str, ...], *, with_modules: bool) -> subprocess.CompletedProcess[str]:
    """Run it, on a node that has the command `module` or on one that has not."""
    before = ("bash", "-c", FUNCTION, "bash") if with_modules else ()
    return subprocess.run(
        [*before, *argv], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("rehearsed", [False, True])
def test_modules_are_loaded_before_the_command(rehearsed: bool) -> None:
    """K4: what they set reaches the command, and its arguments are what they were."""
    result = run(worker_argv(spec("GCC", rehearsed=rehearsed), SAY), with_modules=True)
    assert (result.returncode, result.stdout) == (0, "GCC a b $c\n")


@pytest.mark.parametrize("rehearsed", [False, True])
def test_a_module_that_is_not_there_ends_it(rehearsed: bool) -> None:
    """K4."""
    result = run(worker_argv(spec("GCC", "none", rehearsed=rehearsed), SAY), with_modules=True)
    assert (result.returncode, result.stdout) == (7, "")


def test_without_the_command_module_only_a_rehearsal_goes_on() -> None:
    """K4: what was asked for is not passed over on a real cluster."""
    if Path("/etc/profile.d/modules.sh").exists() or Path("/etc/profile.d/lmod.sh").exists():
        pytest.skip("this machine has modules")
    result = run(worker_argv(spec("GCC"), SAY), with_modules=False)
    assert (result.returncode, result.stdout) == (127, "")
    result = run(worker_argv(spec("GCC", rehearsed=True), SAY), with_modules=False)
    assert (result.returncode, result.stdout) == (0, " a b $c\n")
    assert result.stderr == "tarmac: there is no command 'module' here; not loaded: GCC\n"


def test_setup_steps_and_hooks_of_nodes_have_them_and_those_of_the_login_node_do_not() -> None:
    """K4: the modules are those of the compute node."""
    packages = PythonPackages(requirements=("numpy",))
    asked = replace(
        spec("GCC"),
        setup=(SetupCommand(script="make"), packages),
        hooks=Hooks(before_login=(SAY,), before=(SAY,), after=(SAY,), after_login=(SAY,)),
    )
    make, installed = setup_launches(asked)
    assert isinstance(make, CommandStep)
    assert "module load GCC" in make.argv[2]
    assert make.argv[-1] == "make"
    assert installed == PipStep(("numpy",))
    hooks = hooks_launch(asked)
    assert hooks["before"] == hooks["after"] == (worker_argv(asked, SAY),)
    assert hooks["before_login"] == hooks["after_login"] == (SAY.argv,)


def test_without_modules_a_command_is_as_it_was() -> None:
    assert worker_argv(spec(), SAY) == SAY.argv
