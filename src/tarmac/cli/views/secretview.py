"""Secrets as a table, and in a sentence. Called by `tarmac secret` and `tarmac show`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tarmac.cli.views.amounts import age
from tarmac.cli.views.table import heads, render
from tarmac.cli.views.terminal import Terminal

if TYPE_CHECKING:
    from tarmac import api

_COLUMNS = heads(
    "NAME, GIVEN AS, SET, BY, VALUES", right="SET, VALUES", flexible="GIVEN AS", optional="BY, VALUES"
)


def secret_table(secrets: Sequence[api.Secret], terminal: Terminal, *, now: float) -> str:
    """A line for each secret."""
    rows = (
        (
            secret.name,
            form_of(secret),
            age(secret.created_at, now),
            secret.user,
            str(secret.number),
        )
        for secret in secrets
    )
    return render(_COLUMNS, rows, terminal)


def form_of(secret: api.Secret) -> str:
    """The form in which runs get the secret if they give only its name."""
    match secret.form:
        case None:
            return "what a run says"
        case "variable":
            return f"variable {secret.variable}"
        case "file":
            place = secret.path or f"/secrets/{secret.name}/secret"
            return f"file {place}" + (f", named by {secret.variable}" if secret.variable else "")
        case form:
            return str(form)


def uses_text(uses: Sequence[Mapping[str, str]]) -> str:
    """The secrets of a run: their names, and the variables that hold them."""
    return ", ".join(
        f"{use['variable']} from {use['name']}" if "variable" in use else f"{use['name']} ({use['form']})"
        for use in uses
    )


def usage_of(secret: api.Secret) -> str:
    """How to give the secret to a run."""
    name = secret.name
    if secret.form is None:
        return f"a run file says 'secrets: {{VARIABLE: {name}}}', the command line '--secret VARIABLE={name}'"
    return (
        f"a run file says 'secrets: [{name}]', the command line '--secret {name}'; given as {form_of(secret)}"
    )
