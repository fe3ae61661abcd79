"""Several attempts that the local engine starts by one request to the warm parent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine_harness import LocalHarness, Work, ended
from tarmac.launch.compose import secret_launches
from tarmac.model.abilities import SubmitsTogether
from tarmac.model.errors import InvalidInput
from tarmac.model.progress import Outcome
from tarmac.model.secret import SecretForm, SecretUse

LOG = "logs/main.0.0.log"
USE = SecretUse(name="plain", form=SecretForm.VARIABLE, variable="PLAIN")


def gone(_names: Sequence[str]) -> Mapping[str, str]:
    raise InvalidInput("there is no secret 'plain' any more")


def test_all_of_them_start_once_however_often_they_are_submitted(local: LocalHarness) -> None:
    """Also one with several nodes; submitting again, as after a crash, starts nothing twice."""
    engine = local.engine
    assert isinstance(engine, SubmitsTogether)
    launches = [
        local.launch(Work(output=f"{number}\n"), run_id=f"run{number}", nodes=1 + number % 2)
        for number in range(4)
    ]
    requests = [engine.render(launch) for launch in launches]
    assert engine.submit_all(requests) == [None] * 4
    assert engine.submit_all(requests) == [None] * 4
    for number, launch in enumerate(launches):
        assert local.settle(launch.attempt_id, ended).outcome is Outcome.COMPLETED
        assert engine.read(launch.attempt_id, LOG).decode() == f"{number}\n"


def test_one_that_cannot_start_has_its_error_and_the_others_start(local: LocalHarness) -> None:
    local.reopen(secrets=gone)
    good, bad, last = (local.launch(Work(), run_id=name) for name in ("good", "bad", "last"))
    bad = bad._replace(secrets=secret_launches([USE]))
    problems = local.engine.submit_all([local.engine.render(each) for each in (good, bad, last)])
    assert [type(problem) for problem in problems] == [type(None), InvalidInput, type(None)]
    assert "no secret 'plain'" in str(problems[1])
    for launch in (good, last):
        assert local.settle(launch.attempt_id, ended).outcome is Outcome.COMPLETED


def test_without_a_warm_parent_each_has_the_error(local: LocalHarness) -> None:
    local.reopen(python="/no/such/python")
    requests = [local.engine.render(local.launch(Work(), run_id=name)) for name in ("one", "two")]
    problems = local.engine.submit_all(requests)
    assert all("cannot be started" in str(problem) for problem in problems)
    assert len(problems) == 2
