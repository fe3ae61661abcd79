"""Adds the numbers of a run's experiment and trial to the run's environment. Called by `wiring`.

As a result, `DET_TRIAL_ID` inside a run is the number that `det trial` shows.
"""

from __future__ import annotations

from tarmac.model.launch import ApplyConventions
from tarmac.model.numbering import NumberKind, Numbers
from tarmac.model.record import replace
from tarmac.model.run import Attempt, Run
from tarmac.node.attempt.document import Launch
from tarmac.systems.determined.conventions import NUMBERS
from tarmac.systems.determined.reader import NAME


def with_numbers(apply_conventions: ApplyConventions, numbers: Numbers) -> ApplyConventions:
    """`apply_conventions` with the numbers of Determined's runs; assigns missing numbers."""

    def and_numbers(run: Run, attempt: Attempt, launch: Launch) -> Launch:
        return apply_conventions(numbered_run(run, numbers), attempt, launch)

    return and_numbers


def numbered_run(run: Run, numbers: Numbers) -> Run:
    """The run with its numbers among the facts of its conventions; other runs are unchanged."""
    conventions, trial = run.spec.conventions, run.spec.trial
    if conventions.system != NAME:
        return run
    experiment = trial.experiment if trial is not None else run.id
    found = {
        "experiment": numbers.numbers(NumberKind.EXPERIMENT, [experiment])[experiment],
        "trial": numbers.numbers(NumberKind.TRIAL, [run.id])[run.id],
    }
    facts = {**conventions.facts, NUMBERS: found}
    return replace(run, spec=replace(run.spec, conventions=replace(conventions, facts=facts)))
