"""Commands that rent machines: what they get, and every way in which their answer can be wrong."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from provider_harness import OWNER
from tarmac.model.burst.provider import (
    AnswerLost,
    ProviderRecord,
    Refusal,
    RentedThing,
    RentRefused,
    RentRequest,
    ThingState,
)
from tarmac.model.burst.shapes import Shape
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.providers.machines import LARGEST_BYTES, REFUSALS, TRY_LATER, CommandProvider, MachinesKind

SHAPE = Shape(id="shape", provider="rack", region="here", machine="gpu", rate=1.0)
REQUEST = RentRequest(id="q1", owner=OWNER, run="r1", shape=SHAPE, machines=1, script="#!/bin/sh\n")
THING = RentedThing(id="m1", state=ThingState.RUNNING)
GOOD = {"id": "m1", "state": "running", "address": "10.0.0.1"}


def provider(code: str = "", **settings: str) -> CommandProvider:
    """A provider whose commands are all this Python code, unless they are set."""
    command = shlex.join([sys.executable, "-S", "-c", code])
    return opened({**dict.fromkeys(("create", "list", "delete", "price"), command), **settings})


def opened(settings: dict[str, str], **credentials: str) -> CommandProvider:
    kind = MachinesKind(lambda uses: {each.name: f"value of {each.name}\n" for each in uses})
    record = ProviderRecord(
        name="rack", kind="machines", settings=settings, credentials=credentials, owner=OWNER
    )
    kind.check(record)
    return kind.open(record)


def printing(answer: Any) -> CommandProvider:
    return provider(f"print({json.dumps(answer)!r})")


def test_a_created_machine_gets_the_tags_of_its_request() -> None:
    (made,) = printing([GOOD]).create(REQUEST)
    assert (made.owner, made.request, made.run, made.address) == (OWNER, "q1", "r1", "10.0.0.1")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"machines": []}, "things: a list is expected"),
        ([{"id": "m1"}], "state"),
        ([{**GOOD, "state": "up"}], "state"),
        ([{**GOOD, "price": 1}], "price"),
        ([{**GOOD, "id": "-rf"}], "id is '-rf'"),
        ([{**GOOD, "id": "m 1"}], "id is 'm 1'"),
        ([{**GOOD, "address": "-oProxyCommand=x"}], "address is '-oProxyCommand=x'"),
        ([{**GOOD, "inner_address": "10.0.0.1\nProxyCommand x"}], "inner_address is"),
        ([{**GOOD, "owner": "\x1b[2J"}], "owner is"),
        ([{**GOOD, "since": -1}], "since is -1.0"),
        ([{**GOOD, "notice_at": 1e300}], "notice_at is 1e+300"),
        ([GOOD, GOOD], "an id is printed twice"),
    ],
)
def test_a_wrong_answer_names_the_problem(answer: Any, problem: str) -> None:
    """After `create` the machines may exist; a list changes nothing."""
    for call, error in ((lambda it: it.create(REQUEST), AnswerLost), (lambda it: it.list(), Unavailable)):
        with pytest.raises(error) as raised:
            call(printing(answer))
        assert problem in str(raised.value)
        assert str(raised.value).isprintable()


def test_machines_with_the_tags_of_another_request_are_a_wrong_answer() -> None:
    with pytest.raises(AnswerLost, match="m1 has the tags of another request"):
        printing([{**GOOD, "request": "q2"}]).create(REQUEST)


@pytest.mark.parametrize(
    "output", ["b''", "b'not JSON'", "b'[' * 100_000", "b'[{\"id\": NaN}]'", "b'\"\\xff\"'"]
)
def test_an_output_that_is_no_json(output: str) -> None:
    code = f"import sys; sys.stdout.buffer.write({output})"
    with pytest.raises(Unavailable, match="the command list printed a wrong answer"):
        provider(code).list()
    with pytest.raises(AnswerLost):
        provider(code).create(REQUEST)


def test_a_huge_output_ends_the_command() -> None:
    with pytest.raises(Unavailable, match="it printed more than 4096 KiB"):
        provider(f"print('x' * {LARGEST_BYTES + 1})").list()


@pytest.mark.parametrize(("code", "refusal"), list(REFUSALS.items()))
def test_exit_codes_are_reasons(code: int, refusal: Refusal) -> None:
    with pytest.raises(RentRefused, match="the command create: no luck") as refused:
        provider(f"import sys; print('no luck', file=sys.stderr); sys.exit({code})").create(REQUEST)
    assert refused.value.refusal is refusal


def test_a_command_that_did_nothing_can_be_repeated() -> None:
    with pytest.raises(Unavailable):
        provider(f"import sys; sys.exit({TRY_LATER})").create(REQUEST)


@pytest.mark.parametrize("code", ["import sys; sys.exit(1)", "import os; os.kill(os.getpid(), 9)"])
def test_after_any_other_end_machines_may_exist(code: str) -> None:
    with pytest.raises(AnswerLost):
        provider(code).create(REQUEST)
    with pytest.raises(AnswerLost):
        provider(code).delete([THING])
    with pytest.raises(Unavailable):
        provider(code).list()


def test_a_late_command_is_ended_with_its_children(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    script = tmp_path / "late"
    script.write_text(f"exec 9<{lock}; flock 9; sleep 600 & wait\n")
    late = provider(create=f"/bin/bash {script}", timeout="1s")
    with pytest.raises(AnswerLost, match="it did not answer within 1 s"):
        late.create(REQUEST)
    free = f"import fcntl, sys; fcntl.flock(open({str(lock)!r}), fcntl.LOCK_EX | fcntl.LOCK_NB); print('[]')"
    assert provider(free).list() == ()


def test_a_missing_program_is_a_fault_of_the_settings() -> None:
    missing = provider("print('[]')", create="/nonexistent/rent")
    with pytest.raises(RentRefused, match="cannot be started") as refused:
        missing.create(REQUEST)
    assert refused.value.refusal is Refusal.INVALID
    assert [each.what for each in missing.examine() if not each.ok] == ["create"]


def test_words_of_a_command_are_shown_without_control_characters() -> None:
    code = r"import sys; sys.stderr.write('first\n\x1b[2Jno \x07luck\n\n'); sys.exit(10)"
    with pytest.raises(RentRefused) as refused:
        provider(code).create(REQUEST)
    assert str(refused.value) == "the command create:  [2Jno  luck"


def test_a_command_gets_credentials_and_no_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "hidden")
    program, seen = tmp_path / "rent it.py", tmp_path / "seen"
    program.write_text(
        "import json, os, sys\n"
        "json.dump([sys.argv[1:], dict(os.environ)], open(sys.argv[1], 'w'))\nprint('[]')\n"
    )
    command = shlex.join([sys.executable, "-S", str(program), str(seen), "$HOME; `true` > x", "*"])
    rack = opened(dict.fromkeys(("create", "list", "delete"), command), CLOUD_TOKEN="token")
    assert rack.list() == ()
    arguments, variables = json.loads(seen.read_text())
    assert arguments[1:] == ["$HOME; `true` > x", "*"]
    assert variables["CLOUD_TOKEN"] == "value of token"
    assert "DATABASE_PASSWORD" not in variables


@pytest.mark.parametrize(
    ("answer", "rate"), [({"rate": 2.5}, 2.5), ({"rate": 3}, 3.0), ({"rate": None}, None), ({}, None)]
)
def test_a_price_is_a_rate_or_none(answer: Any, rate: float | None) -> None:
    assert printing(answer).price(SHAPE) == rate


@pytest.mark.parametrize("answer", [2.5, {"rate": -1}, {"rate": "2.5"}, {"rate": 1e9}, {"price": 1}])
def test_a_wrong_price_is_none(answer: Any) -> None:
    with pytest.raises(Unavailable, match="the command price printed a wrong answer"):
        printing(answer).price(SHAPE)


def test_a_provider_without_the_command_for_prices_publishes_none() -> None:
    assert opened(dict.fromkeys(("create", "list", "delete"), "true")).price(SHAPE) is None


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"create": "a", "list": "b"}, "needs the setting 'delete'"),
        ({"create": "a", "list": "b", "delete": "c", "creat": "d"}, "has no setting 'creat'"),
        ({"create": "a 'b", "list": "b", "delete": "c"}, "No closing quotation"),
        ({"create": "''", "list": "b", "delete": "c"}, "'create' is empty"),
        ({"create": "a", "list": "b", "delete": "c", "timeout": "0s"}, "'timeout' is '0s'"),
    ],
)
def test_wrong_settings_name_the_setting(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidInput) as invalid:
        opened(settings)
    assert problem in str(invalid.value)


@pytest.mark.parametrize("name", ["TARMAC_OWNER", "1A", "A B", "A=B", ""])
def test_a_credential_is_a_variable_of_its_own(name: str) -> None:
    with pytest.raises(InvalidInput, match="is not allowed"):
        opened(dict.fromkeys(("create", "list", "delete"), "true"), **{name: "secret"})
