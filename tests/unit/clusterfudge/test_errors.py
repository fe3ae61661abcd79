"""Errors of the server as a script sees them, and the sentence where it does not catch them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tarmac import api
from tarmac import clusterfudge as cf
from tarmac.client.transport import failure
from tarmac.model import errors
from tarmac.systems.clusterfudge.scripts.asking import SOCKET_VARIABLE, ask, sentence
from tarmac.systems.clusterfudge.scripts.broker import answering
from tarmac.systems.clusterfudge.scripts.errors import TarmacError
from tarmac.systems.clusterfudge.scripts.gateway import error_form


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the next question is answered with."""
    reply: dict[str, Any] = {}
    with answering(lambda question: {**reply, "answer": dict(question)}) as socket:
        monkeypatch.setenv(SOCKET_VARIABLE, str(socket))
        yield reply


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (errors.InvalidInput("jobs: no list", hint="make it one"), cf.RequestError, "jobs: no list"),
        (errors.NotFound("there is no run 'x'"), cf.RequestError, "there is no run 'x'"),
        (errors.Unauthorized("the token is wrong"), cf.AuthenticationError, "Details: the token is wrong"),
        (errors.Unavailable("nobody listens", hint="start it"), TarmacError, "nobody listens (start it)"),
        (
            errors.NeverFits(
                "a can never start here: h1: too small; h2: too slow",
                reasons=["h1: too small", "h2: too slow"],
            ),
            cf.SchedulingError,
            "failed to schedule launch: a can never start here",
        ),
    ],
)
def test_an_error_of_the_server_is_one_that_scripts_know(
    replies: dict[str, Any], error: errors.TarmacError, kind: type[Exception], words: str
) -> None:
    """C1, C10: each has its class, and says what the server said."""
    replies["error"] = json.loads(json.dumps(error_form(error)))
    with pytest.raises(kind) as caught:
        ask({"ask": "details"})
    assert words in str(caught.value)
    if isinstance(caught.value, cf.SchedulingError):
        assert caught.value.scheduling_log == "h1: too small\nh2: too slow"


def test_a_question_is_answered_and_remarks_are_passed_on(
    replies: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    replies["notices"] = ["one", "two"]
    question: Mapping[str, Any] = {"ask": "details", "launch": "é\ud800"}
    assert ask(question) == question
    assert capsys.readouterr().err == "tarmac: one\ntarmac: two\n"


def test_nobody_answering_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(SOCKET_VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(TarmacError, match="does not answer"):
        ask({"ask": "details"})


def test_the_sentence_names_the_line_of_the_script() -> None:
    """C1: the last line that is not ours."""
    try:
        raise cf.SchedulingError("no room", "h1: full\nh2: full")
    except cf.SchedulingError as error:
        told = sentence(error, sys.exc_info()[2])
    first, *rest = told.splitlines()
    assert first.startswith("error: ")
    assert "test_errors.py:" in first
    assert rest == ["  scheduling log:", "    h1: full", "    h2: full"]


def test_the_reasons_of_a_run_that_never_fits_travel_with_it() -> None:
    """C10: over the API they are still one by one, and the error is still a refusal."""
    reasons = ["h1: too small; held by a (r1)", "h2: too slow"]
    refused = errors.NeverFits("a can never start here: ...", hint="smaller", reasons=reasons)
    found = failure(409, msgspec.json.encode(api.Error(error=api.error_form(refused))))
    assert isinstance(found, errors.NeverFits)
    assert isinstance(found, errors.Refused)
    assert (found.reasons, found.hint, found.exit_code) == (tuple(reasons), "smaller", 2)
    assert error_form(found)["log"] == "\n".join([*reasons, "smaller"])
