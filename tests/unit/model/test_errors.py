"""The tree of errors: what the command line and the server need of each, and how they read."""

from __future__ import annotations

import pytest

from tarmac.model import errors
from tarmac.model.errors import (
    Forbidden,
    InvalidInput,
    IsExperiment,
    LeaseLost,
    Misdirected,
    NeverFits,
    NotFound,
    Problem,
    Refused,
    StorageFull,
    TarmacError,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    WaitTimeout,
)
from tarmac.model.lifecycle import IllegalStep


@pytest.mark.parametrize(
    ("error", "code", "exit_code", "http_status"),
    [
        (InvalidInput("m"), "invalid_input", 2, 422),
        (NotFound("m"), "not_found", 2, 404),
        (Refused("m"), "refused", 2, 409),
        (IsExperiment("m"), "is_experiment", 2, 409),
        (NeverFits("m"), "never_fits", 2, 409),
        (IllegalStep("m"), "refused", 2, 409),
        (Unauthorized("m"), "unauthorized", 1, 401),
        (Forbidden("m"), "forbidden", 1, 403),
        (Unavailable("m"), "unavailable", 1, 503),
        (StorageFull("m"), "storage_full", 1, 503),
        (Misdirected("m"), "misdirected", 1, 421),
        (TooManyRequests("m"), "too_many_requests", 1, 429),
        (TooLarge("m"), "too_large", 2, 413),
        (LeaseLost("m"), "lease_lost", 1, 500),
        (WaitTimeout("m", run=None), "wait_timeout", 124, 500),
        (TarmacError("m"), "error", 1, 500),
    ],
)
def test_each_error_tells_its_code_and_whom_it_blames(error, code, exit_code, http_status):
    assert (error.code, error.exit_code, error.http_status) == (code, exit_code, http_status)
    assert isinstance(error, TarmacError)


def test_the_table_above_has_every_error():
    usual = {InvalidInput, NeverFits, NotFound, Refused, TooLarge, Unauthorized, Unavailable, StorageFull}
    listed = usual | {Forbidden, IsExperiment, LeaseLost, TarmacError, WaitTimeout}
    listed |= {Misdirected, TooManyRequests}
    assert listed == {
        item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, TarmacError)
    }


def test_a_hint_follows_the_message():
    assert str(NotFound("no run 'digit'")) == "no run 'digit'"
    assert (
        str(NotFound("no run 'digit'", hint="did you mean 'digits'?"))
        == "no run 'digit' (did you mean 'digits'?)"
    )


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem(message="m"), "m"),
        (Problem(message="m", file="run.yaml"), "run.yaml: m"),
        (Problem(message="m", file="run.yaml", line=3, column=7), "run.yaml:3:7: m"),
        (Problem(message="m", file="run.yaml", line=3, hint="h"), "run.yaml:3: m (h)"),
    ],
)
def test_a_problem_begins_with_its_place(problem, text):
    assert str(problem) == text


def test_invalid_input_lists_every_problem_in_order():
    problems = [Problem(message="first", line=1), Problem(message="second", line=2)]
    error = InvalidInput(iter(problems), hint="see docs/using/run-file.md")
    assert error.problems == tuple(problems)
    assert str(error) == "1: first\n2: second (see docs/using/run-file.md)"


def test_invalid_input_of_one_sentence_is_one_problem():
    assert InvalidInput("no such key").problems == (Problem(message="no such key"),)


def test_only_the_unavailable_promise_that_trying_again_may_help():
    assert issubclass(StorageFull, Unavailable)
    assert not any(issubclass(kind, Unavailable) for kind in (InvalidInput, NotFound, Refused, LeaseLost))
