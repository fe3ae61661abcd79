"""Secrets in run files: named in the native one, and among the variables of every system's."""

from __future__ import annotations

import json

import pytest

from tarmac.dialects.dialect import Extras
from tarmac.dialects.native.reader import write
from tarmac.dialects.overrides import override
from tarmac.model.errors import InvalidInput
from tarmac.model.secret import SecretForm, SecretUse
from tarmac.model.spec import RunSpec
from tarmac.systems.registry import read

VARIABLE = SecretUse(name="wandb", form=SecretForm.VARIABLE, variable="WANDB_API_KEY")
REFERENCE = "${{ secrets.wandb }}"


def native(text: str) -> RunSpec:
    return read(f"command: echo hello\n{text}", filename="run.yaml", directory="/w").spec


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("secrets: {WANDB_API_KEY: wandb}", [VARIABLE]),
        ("secrets: [wandb]", [SecretUse(name="wandb")]),
        (f"env: {{WANDB_API_KEY: '{REFERENCE}', LR: 1}}", [VARIABLE]),
        ("secrets: {N: {name: n}}", [SecretUse(name="n", form=SecretForm.FILE, variable="N")]),
        (
            "secrets: {N: {name: n, as: file, path: /secrets/x}}",
            [SecretUse(name="n", form=SecretForm.FILE, variable="N", path="/secrets/x")],
        ),
        (
            "secrets: [{name: k, as: git}, {name: w, as: variable, variable: W}]",
            [
                SecretUse(name="k", form=SecretForm.GIT),
                SecretUse(name="w", form=SecretForm.VARIABLE, variable="W"),
            ],
        ),
    ],
)
def test_a_run_file_names_secrets_and_is_written_back(text: str, uses: list[SecretUse]) -> None:
    spec = native(text)
    assert list(spec.secrets) == uses
    assert "WANDB_API_KEY" not in spec.environment.variables
    assert read(write(spec), filename="run.yaml", directory="/w").spec.secrets == spec.secrets


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("secrets: 5", "a mapping from variables"),
        ("secrets: {1X: wandb}", "the name of a variable"),
        ("secrets: {MASTER_ADDR: wandb}", "is set by tarmac itself"),
        ("secrets: {K: '../x'}", "the name of a secret"),
        ("secrets: {K: {as: file}}", "'name' is missing"),
        ("secrets: {K: {name: k, as: git}}", "git"),
        ("secrets: {K: {name: k, as: variable, path: /x}}", "a path goes with"),
        ("secrets: {K: {name: k, path: x}}", "an absolute path"),
        ("secrets: {K: {name: k, path: /a/../b}}", "an absolute path"),
        ("secrets: [{name: k, as: variable}]", "'variable' is missing"),
        ("secrets: [{name: k, as: git, variable: K}]", "a variable goes with"),
        ("secrets: [{name: k, as: git}, {name: l, as: git}]", "GIT_SSH_COMMAND is set twice"),
        ("env: {K: 'Bearer ${{ secrets.k }}'}", "the whole value"),
        ("env: {K: '${{ secrets.k/x }}'}", "names no secret"),
    ],
)
def test_what_names_no_secret_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        native(text)
    assert words in str(caught.value)


FOREIGN = {
    "mcli": json.dumps(
        {
            "name": "m",
            "image": "x",
            "compute": {"cpus": 1},
            "command": "echo",
            "env_variables": {"WANDB_API_KEY": REFERENCE},
        }
    ),
    "determined": f"""
name: d
entrypoint: echo hello
searcher: {{name: single, metric: loss, max_length: {{batches: 1}}}}
environment: {{environment_variables: ["WANDB_API_KEY={REFERENCE}"]}}
""",
    "mantik": f"""
UnicoreApiUrl: https://example.org/unicore
Environment:
  Variables: {{WANDB_API_KEY: "{REFERENCE}"}}
Resources: {{Queue: batch, Nodes: 1}}
""",
}


@pytest.mark.parametrize("dialect", FOREIGN)
def test_a_variable_of_every_systems_file_can_be_a_secret(dialect: str) -> None:
    extras: dict[str, Extras] = {}
    if dialect == "mantik":
        project = "name: p\nentry_points: {main: {command: echo}}\n"
        extras = {"extras": Extras(files=(("MLproject", project),))}
    reading = read(FOREIGN[dialect], filename="run.yaml", directory="/w", dialect=dialect, **extras)
    assert reading.spec.secrets == (VARIABLE,)
    assert "WANDB_API_KEY" not in reading.spec.environment.variables
    assert not any("plain text" in warning for warning in reading.warnings)


def test_what_is_said_last_of_a_variable_counts() -> None:
    spec = native("secrets: {WANDB_API_KEY: wandb}\nenv: {K: old}")
    assert override(spec, {"env": {"WANDB_API_KEY": "x"}}).secrets == ()
    other = SecretUse(name="k", form=SecretForm.VARIABLE, variable="K")
    given = override(spec, {"secrets": {"K": "k"}})
    assert given.secrets == (VARIABLE, other)
    assert given.environment.variables == {}
    assert override(spec, {"env": {"K": "${{ secrets.k }}"}}).secrets == (VARIABLE, other)
    assert override(spec, {"secrets": ["wandb"]}).secrets == (SecretUse(name="wandb"),)


def test_keys_in_plain_text_are_warned_of_without_their_values() -> None:
    text = "command: login hf_aaaaaaaaaaaaaaaaaaaaaaaa\n"
    (warning,) = read(text, filename="run.yaml", directory="/w").warnings
    assert "tarmac secret set" in warning
    assert "hf_" not in warning
