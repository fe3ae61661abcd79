"""Secrets in tables and sentences."""

from __future__ import annotations

from msgspec.structs import replace

from tarmac.cli.commands.secret import SECRETS, form_of, usage_of
from tarmac.cli.commands.show import uses_text
from tarmac.cli.views.table import table_text
from tarmac.cli.views.terminal import Terminal
from tarmac.model.secret import SERVER, Secret, SecretForm

PLAIN = Secret(name="k", number=2, user="ada", created_at=0.0)


def test_a_secret_says_how_a_run_is_given_it() -> None:
    assert "secrets: {VARIABLE: k}" in usage_of(PLAIN)
    assert form_of(replace(PLAIN, scope=SERVER)) == "no run gets it"
    assert form_of(replace(PLAIN, form=SecretForm.VARIABLE, variable="K")) == "variable K"
    assert form_of(replace(PLAIN, form=SecretForm.FILE)) == "file /secrets/k/secret"
    usage = usage_of(replace(PLAIN, form=SecretForm.DOCKER))
    assert usage == "a run file says 'secrets: [k]', the command line '--secret k'; given as docker"


def test_the_table_has_a_line_for_each() -> None:
    listed = [replace(PLAIN, scope=scope) for scope in ("user:ada", "project:vision", "", SERVER)]
    lines = table_text(SECRETS, listed, Terminal(), now=60.0).splitlines()
    assert [line[:21].rstrip() for line in lines] == [
        "NAME  OWNER",
        "k     ada",
        "k     project vision",
        "k     everyone",
        "k     the server",
    ]


def test_the_secrets_of_a_run_are_named() -> None:
    uses = [{"name": "a", "form": "variable", "variable": "A"}, {"name": "b", "form": "git"}]
    assert uses_text(uses) == "A from a, b (git)"
