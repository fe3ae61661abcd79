"""Secrets over HTTP: what is refused, what is answered, and that no answer holds a value."""

from __future__ import annotations

import json

import pytest

from actors import ADA
from served import Served
from tarmac import api
from tarmac.cli.views.escapes import json_text
from tarmac.model.codec import json_form
from tarmac.model.errors import InvalidInput, NotFound, Refused, TarmacError
from tarmac.model.spec import RunSpec

VALUE = "a-value-of-ours-1"
GIVEN = "name: given\nsecrets: {K: k}\ncommand: echo hello\n"


def stored(plane: Served, run: str) -> RunSpec:
    return plane.plane.find(ADA, run).spec


def test_a_secret_is_set_listed_and_removed(plane: Served) -> None:
    client = plane.client()
    first = client.set_secret("k", VALUE, form="variable", variable="K")
    assert (first.name, first.number, first.form, first.variable) == ("k", 1, "variable", "K")
    assert client.set_secret("k", VALUE) == first
    assert client.set_secret("k", "another-value").number == 2
    assert [secret.name for secret in client.secrets()] == ["k"]
    assert VALUE not in json.dumps(json_form(client.secrets()))
    assert client.rotate_secrets() == api.Rotation(values=2)
    removed = client.remove_secret("k")
    assert removed is not None
    assert removed.name == "k"
    assert client.secrets() == []
    assert client.remove_secret("k", purge=True) is None
    with pytest.raises(NotFound):
        client.remove_secret("k")


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("a b", {}, "name of a secret"),
        ("k", {"form": "variable"}, "needs its name"),
        ("k", {"form": "variable", "variable": "1X"}, "cannot be the variable"),
        ("k", {"form": "variable", "variable": "MASTER_ADDR"}, "cannot be the variable"),
        ("k", {"form": "git", "variable": "X"}, "variable is for"),
        ("k", {"form": "git", "path": "/x"}, "path is for"),
        ("k", {"form": "file", "path": "/a/../b"}, "no plain absolute path"),
        ("k", {"form": "file", "path": "relative"}, "no plain absolute path"),
        ("k", {"form": "ssh"}, "form"),
    ],
)
def test_what_no_run_could_be_given_is_refused_without_the_value(
    plane: Served, name: str, wrong: dict[str, str], words: str
) -> None:
    with pytest.raises(TarmacError) as caught:
        plane.client().set_secret(name, VALUE, **wrong)
    assert words in str(caught.value)
    assert VALUE not in str(caught.value)


def test_a_body_of_another_shape_is_refused_without_the_value(plane: Served) -> None:
    body = json.dumps({"value": [VALUE], "more": VALUE}).encode()
    with pytest.raises(InvalidInput) as caught:
        plane.transport().request("PUT", "/secrets/k", body=body)
    assert VALUE not in str(caught.value)


def test_a_run_names_its_secrets_and_gets_the_nearest_where_there_is_none(plane: Served) -> None:
    client = plane.client()
    with pytest.raises(InvalidInput, match="there is no secret 'k'"):
        client.submit(GIVEN)
    client.set_secret("key-1", VALUE)
    with pytest.raises(InvalidInput, match="did you mean key-1"):
        client.submit(GIVEN.replace("K: k", "K: key1"))
    run = client.submit(GIVEN.replace("K: k", "K: key-1"))
    assert run.spec["secrets"] == [
        {"name": "key-1", "scope": "user:ada", "form": "variable", "variable": "K"}
    ]


def test_one_variable_is_said_by_one(plane: Served) -> None:
    client = plane.client()
    client.set_secret("k", VALUE)
    with pytest.raises(InvalidInput, match="K is set both by env and by secret k"):
        client.submit(GIVEN + "env: {K: x}\n")
    plain = client.submit(GIVEN, overrides={"env": {"K": "x"}})
    assert "secrets" not in plain.spec
    assert plain.spec["environment"]["variables"] == {"K": "x"}
    again = client.submit(clone=plain.id, overrides={"secrets": {"K": "k"}})
    assert [use["name"] for use in again.spec["secrets"]] == ["k"]
    assert "variables" not in again.spec["environment"]
    clone = client.submit(clone=again.id)
    assert clone.spec["secrets"] == again.spec["secrets"]


def test_a_secret_that_a_live_run_names_is_not_removed(plane: Served) -> None:
    client = plane.client()
    client.set_secret("k", VALUE)
    run = client.submit(GIVEN)
    with pytest.raises(Refused, match=r"given .* is given k"):
        client.remove_secret("k")
    client.remove_secret("k", force=True)
    client.stop(run.id)


def test_keys_in_plain_text_are_warned_of_and_hidden_in_answers(plane: Served) -> None:
    client = plane.client()
    text = "name: inline\nenv: {WANDB_API_KEY: plain-key-1, LR: 0.1}\ncommand: login plain-key-1\n"
    run = client.submit(text)
    (warning,) = run.warnings
    assert "WANDB_API_KEY is a key in plain text" in warning
    assert "tarmac secret set" in warning
    shown = client.run("inline")
    assert shown.source == text.replace("plain-key-1", "***")
    assert shown.spec["environment"]["variables"] == {"WANDB_API_KEY": "***", "LR": "0.1"}
    said = json_text([run, shown, client.dry_run(text), client.check(text)])
    assert "plain-key-1" not in said
    assert stored(plane, "inline").source == text, "what runs is what was written"
    plane.turn()
    plane.turn()
    plane.engine.write(f"{run.id}.1", "logs/main.0.0.log", b"using plain-key-1\n")
    (chunk,) = client.logs("inline")
    assert chunk.text == "using ***\n"


def test_reports_are_shown_without_secrets(plane: Served) -> None:
    client = plane.client()
    client.set_secret("k", VALUE)
    run = client.submit(GIVEN)
    plane.turn()
    plane.turn()
    node = client.attempts(run.id)[0].nodes[0]
    line = {"at": 1.0, "rank": 0, "step": 1, "progress": None, "metrics": {"note": f"x {VALUE}"}}
    plane.engine.write(f"{run.id}.1", f"nodes/{node}/reports.jsonl", json.dumps(line).encode() + b"\n")
    assert client.reports(run.id)[0].metrics == {"note": "x ***"}
