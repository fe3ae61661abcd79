"""Secrets under the local engine: whoever dies between staging and start, the values come, and go again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from engine_harness import LocalHarness, Work, ended, running
from tarmac.launch.compose import secret_launches
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.progress import CauseCode, Outcome
from tarmac.model.secret import SecretForm, SecretUse
from tarmac.node.attempt.document import Launch, to_json
from tarmac.node.files import secretfiles

MARK = uuid.uuid4().hex[:8]
"""Of this process alone: others may run the same tests beside it, on the same machine."""

VALUES = {"plain": f"plain-{MARK}", "key": f"key-one-{MARK}\nkey-two-{MARK}\n"}
LOG = "logs/main.0.0.log"


def given(_names: Sequence[str]) -> Mapping[str, str]:
    return VALUES


def gone(_names: Sequence[str]) -> Mapping[str, str]:
    raise InvalidInput("there is no secret 'plain' any more")


def away(_names: Sequence[str]) -> Mapping[str, str]:
    raise Unavailable("the key is not here")


def with_secrets(local: LocalHarness, script: str, **wanted: object) -> Launch:
    uses = [
        SecretUse(name="plain", form=SecretForm.VARIABLE, variable="PLAIN"),
        SecretUse(name="key", form=SecretForm.FILE, variable="KEY"),
    ]
    launch = local.launch(Work(), argvs={0: ("bash", "-c", script)}, **wanted)
    return launch._replace(secrets=secret_launches(uses))


def secrets_in_memory() -> list[Path]:
    """The files of our attempts in memory that hold a secret."""
    found = []
    for directory, _, names in os.walk(secretfiles.MEMORY):
        for path in (Path(directory, name) for name in names if "/tarmac-" in directory):
            with contextlib.suppress(OSError):  # of another test, gone since
                if path.is_file() and MARK.encode() in path.read_bytes():
                    found.append(path)
    return found


def test_values_reach_the_workers_and_nothing_else(local: LocalHarness) -> None:
    """N4: the request names secrets; attempt.json, its print and the report hold no value."""
    local.reopen(secrets=given)
    launch = with_secrets(local, 'test "${#PLAIN}" = 14 && cat "$KEY"; echo "$PLAIN" >&2; exit 5')
    request = local.engine.render(launch)
    local.engine.submit(request)
    seen = local.settle(launch.attempt_id, ended)
    assert (seen.outcome, seen.cause and seen.cause.exit_code) == (Outcome.FAILED, 5)
    assert local.engine.read(launch.attempt_id, LOG).decode() == VALUES["key"] + VALUES["plain"] + "\n"
    assert seen.cause is not None
    assert list(seen.cause.tail) == ["***", "***"]  # the two lines of the key are one value
    told = str(request) + json.dumps(to_json(request.document))
    for path in local.home.rglob("*"):
        if path.is_file() and path.name != "main.0.0.log":
            told += path.read_bytes().decode("latin-1")
    assert not any(line in told for value in VALUES.values() for line in value.splitlines())


def test_what_was_staged_before_a_crash_gets_its_secrets_from_the_next_server(local: LocalHarness) -> None:
    local.hang()
    local.reopen(secrets=given, python=str(local.home / "python-that-hangs"))
    launch = with_secrets(local, 'echo "${#PLAIN}"')
    local.engine.submit(local.engine.render(launch))
    local.reopen(secrets=given)
    assert local.settle(launch.attempt_id, ended).outcome is Outcome.COMPLETED
    assert local.engine.read(launch.attempt_id, LOG) == b"14\n"


def test_a_secret_removed_between_staging_and_start_ends_the_attempt_with_a_reason(
    local: LocalHarness,
) -> None:
    local.hang()
    local.reopen(secrets=given, python=str(local.home / "python-that-hangs"))
    launch = with_secrets(local, "echo never")
    local.engine.submit(local.engine.render(launch))
    local.reopen(secrets=gone)
    seen = local.settle(launch.attempt_id, ended)
    assert seen.outcome is Outcome.FAILED
    assert seen.cause is not None
    assert seen.cause.code is CauseCode.SETUP_FAILED
    assert "no secret 'plain' any more" in seen.cause.message


@pytest.mark.parametrize(("values", "error"), [(gone, InvalidInput), (away, Unavailable)])
def test_an_attempt_whose_secrets_cannot_be_had_leaves_nothing_behind(
    local: LocalHarness, values: object, error: type[Exception]
) -> None:
    local.reopen(secrets=values)
    launch = with_secrets(local, "echo never")
    with pytest.raises(error):
        local.engine.submit(local.engine.render(launch))
    assert list((local.home / "runs").glob("*/attempts/*")) == []


def test_files_of_secrets_go_with_the_attempt_also_when_its_runner_is_killed(local: LocalHarness) -> None:
    local.reopen(secrets=given)
    launch = with_secrets(local, 'stat -c %a "$KEY"; exec sleep 3600')
    local.engine.submit(local.engine.render(launch))
    local.settle(
        launch.attempt_id,
        lambda seen: running(seen) and local.engine.read(launch.attempt_id, LOG) == b"600\n",
    )
    assert len(secrets_in_memory()) == 1
    claim = json.loads(local.engine.read(launch.attempt_id, "nodes/node1/claim"))
    os.kill(int(claim["process"]["pid"]), signal.SIGKILL)
    assert local.settle(launch.attempt_id, ended).outcome is Outcome.LOST
    assert secrets_in_memory() == []
