"""A command that names a parameter which the run does not have is refused when the run is submitted (D10)."""

from __future__ import annotations

import pytest

from tarmac.control.admission import refuse_unknown_parameters
from tarmac.control.state.searches import own_searcher
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.search import SearchMethod, SearchSpec
from tarmac.model.spec import Command, Hooks, Process, Role, RunSpec

PARAMETERS = {"optimizer": {"lr": 0.1}, "layers": 2}


def spec(script: str) -> RunSpec:
    command = Command(script=script)
    return RunSpec(name="r", roles=(Role(processes=(Process(command=command),)),), parameters=PARAMETERS)


def test_names_with_a_value_are_taken() -> None:
    refuse_unknown_parameters(spec("train ${parameters.optimizer.lr} ${parameters.layers} ${HOME}"))


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInput) as caught:
        refuse_unknown_parameters(spec("train ${parameters.optimizer.lt}"))
    assert "${parameters.optimizer.lt}" in caught.value.message
    assert caught.value.hint == "did you mean optimizer.lr?"


def test_without_parameters_every_name_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        refuse_unknown_parameters(replace(spec("train ${parameters.lr}"), parameters=None))
    assert caught.value.hint == "it has no parameters"


def test_setup_and_hooks_are_looked_at_too() -> None:
    word = Command(argv=("echo", "${parameters.depth}"))
    for faulty in (replace(spec("train"), setup=(word,)), replace(spec("train"), hooks=Hooks(after=(word,)))):
        with pytest.raises(InvalidInput, match="depth"):
            refuse_unknown_parameters(faulty)


def test_files_of_other_systems_run_as_they_are_written() -> None:
    refuse_unknown_parameters(replace(spec("cat <<'E'\n${parameters.x}\nE"), dialect="mcli"))


@pytest.mark.parametrize("method", [SearchMethod.TPE, SearchMethod.CMA_ES])
def test_a_method_that_is_not_available_is_refused_plainly(method: SearchMethod) -> None:
    with pytest.raises(InvalidInput) as caught:
        own_searcher(SearchSpec(method=method, metric="loss", max_trials=3), None)
    assert "not available on this server" in caught.value.message
    assert "install" not in f"{caught.value.message} {caught.value.hint}"
