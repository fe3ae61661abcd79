"""The field `secrets`: the secrets that a run uses, by name, each with its form. A row of `fields`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tarmac.dialects.kinds import Kind, Misfit, choice, matching, words
from tarmac.dialects.located import Items, Scalar
from tarmac.dialects.native.environment import read_name
from tarmac.dialects.schema import MISSING, Custom, Field, read_value, record, write_record
from tarmac.dialects.section import Section, Value
from tarmac.model import codec
from tarmac.model.secret import SecretForm, SecretUse, variables_of

SECRET_NAME = matching(
    r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?",
    "the name of a secret, of 1 to 63 letters, digits, '.', '_' and '-', first and last a letter or digit,",
)
MOST_SECRETS = 100


_VARIABLE_FORMS = (SecretForm.VARIABLE, SecretForm.FILE)
"""The forms for which a run file may name a variable."""


def _read(value: Value) -> tuple[SecretUse, ...]:
    """The uses of a mapping from variables to names, or of a list of names."""
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


def _write(uses: Sequence[SecretUse]) -> dict[str, Any] | list[Any]:
    """A mapping from variables if every secret has one, else a list."""
    written = [(use, write_record(use, USE)) for use in uses]
    if all(use.variable is not None and use.form in _VARIABLE_FORMS for use in uses):
        return {
            fields.pop("variable"): use.name if use.form is SecretForm.VARIABLE else fields
            for use, fields in written
        }
    return [use.name if use.form is None else fields for use, fields in written]


def _mapped(key: Value, item: Value) -> SecretUse | None:
    """`VARIABLE: NAME`, or `VARIABLE: {name: NAME, as: file, path: PATH}`."""
    variable = read_name(key) or None
    if isinstance(item.node, Scalar):
        name = item.read(SECRET_NAME, None)
        return None if name is None else SecretUse(name=name, form=SecretForm.VARIABLE, variable=variable)
    use = read_value(item, _MAPPED)
    return None if use is MISSING else codec.replace(use, variable=variable)


def _listed(item: Value) -> SecretUse | None:
    """`NAME`, in the secret's own form, or `{name: NAME, as: FORM}`."""
    if isinstance(item.node, Scalar):
        name = item.read(SECRET_NAME, None)
        return None if name is None else SecretUse(name=name)
    use = read_value(item, USE)
    return None if use is MISSING else use


def _check(section: Section, found: Mapping[str, Any]) -> None:
    _check_path(section, found.get("as"))
    form = found.get("as")
    if form is SecretForm.VARIABLE and not found.get("variable"):
        section.missing("variable", "such as 'variable: WANDB_API_KEY', or write '{WANDB_API_KEY: NAME}'")
    elif form not in _VARIABLE_FORMS and "variable" in section:
        section["variable"].refuse("a variable goes with 'as: variable' or 'as: file' only")


def _check_path(section: Section, form: SecretForm | None) -> None:
    if "path" in section and form is not SecretForm.FILE:
        section.refuse("a path goes with 'as: file' only")


def _again(value: Value) -> Any:
    value.refuse(f"the variable is {value.path.split('.')[-2]} already", "take the line out")
    return MISSING


def _refuse_twice(value: Value, uses: tuple[SecretUse, ...]) -> None:
    seen: set[str] = set()
    for use in uses:
        for variable in variables_of(use):
            if variable in seen:
                value.refuse(f"{variable} is set twice")
            seen.add(variable)


def _literal_path(scalar: Scalar) -> str:
    parts = scalar.text.split("/")
    if parts[0] or not scalar.text.isprintable() or len(scalar.text) > 4000 or len(parts) < 2:
        raise Misfit()
    if {"", ".", ".."} & set(parts[1:]):
        raise Misfit("write it without '.', '..' and double slashes")
    return scalar.text


LITERAL_PATH = Kind("an absolute path where the file is to be seen", _literal_path)

USE = record(
    {
        "name": Field(SECRET_NAME, words="secret", required="the name it was set under: tarmac secret ls"),
        "as": Field(choice(SecretForm), sets="form", words="form kind type"),
        "variable": Field(Custom(lambda value: read_name(value) or MISSING), words="env"),
        "path": Field(LITERAL_PATH, words="target file mount"),
    },
    _check,
    make=SecretUse,
)
_MAPPED = record(
    {
        **USE.fields,
        "as": Field(
            words({str(form): form for form in _VARIABLE_FORMS}), sets="form", words="form kind type"
        ),
        "variable": Field(Custom(_again), words="env"),
    },
    lambda section, found: _check_path(section, found.get("as", SecretForm.FILE)),
    make=partial(SecretUse, form=SecretForm.FILE),
)
SECRETS = Custom(_read, _write)
