"""Secrets in files of any dialect: references to them, and keys in plain text.

Called by `registry.read` and `overrides`, so that every dialect's variables take `${{ secrets.NAME }}`.
"""

import dataclasses
import re
from collections.abc import Iterator

from tarmac.dialects.dialect import Reading
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.notification import Channel
from tarmac.model.secret import NAME, NAME_RULE, SecretForm, SecretUse, variables_of
from tarmac.model.spec import RunSpec
from tarmac.node.files.secrecy import hidden, keys_among

_REFERENCE = re.compile(r"\s*\$\{\{\s*secrets\.(?P<name>[^\s{}]*)\s*\}\}\s*", re.ASCII)
_NAMES = re.compile(r"\$\{\{\s*secrets\.", re.ASCII)
_MOST_LISTED = 5


def with_secrets(reading: Reading, *, filename: str | None) -> Reading:
    """The reading with secrets for the references among its variables, and warnings of keys in plain text."""
    spec = with_references(reading.spec, filename=filename)
    warnings = tuple(_warnings(spec))
    if spec is reading.spec and not warnings:
        return reading
    return dataclasses.replace(reading, spec=spec, warnings=(*reading.warnings, *warnings))


def with_references(spec: RunSpec, *, filename: str | None = None) -> RunSpec:
    """The spec with secrets for variables such as `${{ secrets.NAME }}`; raises InvalidInput for bad ones."""
    named = {name: value for name, value in spec.environment.variables.items() if _NAMES.search(value)}
    if not named:
        return spec
    problems, uses = [], []
    for variable, value in named.items():
        secret = reference_in(value)
        if secret is None:
            message = f"{variable}: {value!r} names no secret: '${{{{ secrets.NAME }}}}' is the whole value"
            problems.append(Problem(message=message, file=filename, hint=f"a name has {NAME_RULE}"))
        else:
            uses.append(SecretUse(name=secret, form=SecretForm.VARIABLE, variable=variable))
    if problems:
        raise InvalidInput(problems)
    rest = {name: value for name, value in spec.environment.variables.items() if name not in named}
    others = without_variables(spec, set(named)).secrets
    environment = replace(spec.environment, variables=rest)
    return replace(spec, environment=environment, secrets=(*others, *uses))


def reference_in(text: str) -> str | None:
    """The name in a text of the form `${{ secrets.NAME }}`; None for any other."""
    match = _REFERENCE.fullmatch(text)
    return match["name"] if match is not None and NAME.fullmatch(match["name"]) else None


def without_variables(spec: RunSpec, names: set[str]) -> RunSpec:
    """The spec without the secrets that set one of these variables, because another value replaces them."""
    rest = tuple(use for use in spec.secrets if not names & set(variables_of(use)))
    return spec if len(rest) == len(spec.secrets) else replace(spec, secrets=rest)


def _warnings(spec: RunSpec) -> Iterator[str]:
    """Warnings of keys in plain text; no value is repeated."""
    keys = [key.name for key in keys_among(spec.environment.variables)]
    for name in keys[:_MOST_LISTED]:
        yield (
            f"{name} is a key in plain text, which is kept with the run: 'tarmac secret set NAME' keeps it "
            "sealed, and '${{ secrets.NAME }}' in place of the value gives it to the run"
        )
    if len(keys) > _MOST_LISTED:
        yield f"{len(keys) - _MOST_LISTED} more variables are keys in plain text"
    if any(each.receiver.channel is Channel.SLACK and not each.receiver.secret for each in spec.notify):
        yield (
            "notify: the URL of Slack is a key in plain text, which is kept with the run: "
            "'tarmac secret set NAME' keeps it sealed, and 'to: ${{ secrets.NAME }}' with 'as: slack' uses it"
        )
    commands = [str(process.command) for role in spec.roles for process in role.processes]
    if not keys and any(hidden(command) != command for command in commands):
        yield (
            "the command holds what looks like a key in plain text: 'tarmac secret set NAME' keeps it sealed "
            "and 'tarmac run --secret VARIABLE=NAME' gives it to the run as a variable"
        )
