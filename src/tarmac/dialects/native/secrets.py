"""Reads `secrets`: the secrets that a run uses, by name, each with its form. Called by the reader."""

from __future__ import annotations

from enum import StrEnum

from tarmac.dialects.kinds import Kind, Misfit, choice, matching
from tarmac.dialects.located import Items, Scalar
from tarmac.dialects.names import VARIABLE_NAME, reserved
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.model.secret import SecretForm, SecretUse, variables_of

USE = Fields(
    known=frozenset({"name", "as", "variable", "path"}),
    synonyms=words_for({"as": "form kind type"}, name="secret", variable="env", path="target file mount"),
)

SECRET_NAME = matching(
    r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?",
    "the name of a secret, of 1 to 63 letters, digits, '.', '_' and '-', first and last a letter or digit,",
)
MOST_SECRETS = 100


class VariableForm(StrEnum):
    """The forms for which a run file may name a variable."""

    VARIABLE = SecretForm.VARIABLE.value
    FILE = SecretForm.FILE.value


def read_secrets(value: Value | None) -> tuple[SecretUse, ...]:
    """The uses of a mapping from variables to names, or of a list of names."""
    if value is None:
        return ()
    if isinstance(value.node, Items):
        uses = [_listed(item) for item in value.items("a list of names of secrets")]
    else:
        pairs = value.entries("a mapping from variables to names of secrets, or a list of names,")
        uses = [_mapped(key, item) for key, item in pairs]
    found = tuple(use for use in uses if use is not None)
    _refuse_twice(value, found)
    if len(found) > MOST_SECRETS:
        value.refuse(f"{len(found)} secrets; at most {MOST_SECRETS} are allowed")
    return found


def _mapped(key: Value, item: Value) -> SecretUse | None:
    """`VARIABLE: NAME`, or `VARIABLE: {name: NAME, as: file, path: PATH}`."""
    variable = _variable(key)
    if isinstance(item.node, Scalar):
        name = item.read(SECRET_NAME, None)
        return None if name is None else SecretUse(name=name, form=SecretForm.VARIABLE, variable=variable)
    section = item.section(USE)
    if section is None:
        return None
    if (again := section.get("variable")) is not None:
        again.refuse(f"the variable is {variable} already", "take the line out")
    form = SecretForm(section.read("as", choice(VariableForm), VariableForm.FILE).value)
    return _use(section, form=form, variable=variable)


def _listed(item: Value) -> SecretUse | None:
    """`NAME`, in the secret's own form, or `{name: NAME, as: FORM}`."""
    if isinstance(item.node, Scalar):
        name = item.read(SECRET_NAME, None)
        return None if name is None else SecretUse(name=name)
    section = item.section(USE)
    if section is None:
        return None
    form = section.read("as", choice(SecretForm), None)
    variable = _variable(named) if (named := section.get("variable")) is not None else None
    if form is SecretForm.VARIABLE and variable is None:
        section.missing("variable", "such as 'variable: WANDB_API_KEY', or write '{WANDB_API_KEY: NAME}'")
    elif form not in (SecretForm.VARIABLE, SecretForm.FILE) and named is not None:
        named.refuse("a variable goes with 'as: variable' or 'as: file' only")
    return _use(section, form=form, variable=variable)


def _use(section: Section, *, form: SecretForm | None, variable: str | None) -> SecretUse | None:
    path = section.read("path", LITERAL_PATH, None)
    if path is not None and form is not SecretForm.FILE:
        section.refuse("a path goes with 'as: file' only")
    name = section.read("name", SECRET_NAME, None)
    if "name" not in section:
        section.missing("name", "the name it was set under: tarmac secret ls")
    return None if name is None else SecretUse(name=name, form=form, variable=variable, path=path)


def _variable(value: Value) -> str | None:
    name = value.read(VARIABLE_NAME, None)
    if name is not None and reserved(name):
        value.refuse(f"{name} is set by tarmac itself for every worker", "take the line out")
    return name


def _refuse_twice(value: Value, uses: tuple[SecretUse, ...]) -> None:
    seen: set[str] = set()
    for use in uses:
        for variable in variables_of(use):
            if variable in seen:
                value.refuse(f"{variable} is set twice")
            seen.add(variable)


def _literal_path() -> Kind[str]:
    def read(scalar: Scalar) -> str:
        parts = scalar.text.split("/")
        if parts[0] or not scalar.text.isprintable() or len(scalar.text) > 4000 or len(parts) < 2:
            raise Misfit()
        if {"", ".", ".."} & set(parts[1:]):
            raise Misfit("write it without '.', '..' and double slashes")
        return scalar.text

    return Kind("an absolute path where the file is to be seen", read)


LITERAL_PATH = _literal_path()
