"""Values in the settings of remote clusters and of providers. Called by the `settings` of each kind.

Each function raises InvalidInput for an invalid value.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac.model.errors import InvalidInput, suggestion

PATH = re.compile(r"/[A-Za-z0-9_./+@-]*")
PROGRAM = re.compile(r"[A-Za-z0-9_./+@-]+")
SSH = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}@)?[A-Za-z0-9_][A-Za-z0-9_.:-]{0,253}")
"""Excludes texts that `ssh` would take for an option."""

A_PATH = "an absolute path of letters, digits and _./+@-"
A_PROGRAM = "a command or a path, without blanks"
SSH_FORM = "a host as ssh takes it: login.example.org or ada@login"

_DURATION = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def refuse_unknown(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Refuse names that are no settings of an engine or pool."""
    for name in given:
        if name not in known:
            hint = suggestion(str(name), known, f"settings: {', '.join(known)}")
            raise InvalidInput(f"{where} has no setting {name!r}", hint=hint)


def text_of(settings: Mapping[str, Any], name: str, form: re.Pattern[str], allowed: str) -> str | None:
    """A text of this form; None if it is not set. `allowed` are the words for the form."""
    value = settings.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not form.fullmatch(value):
        raise InvalidInput(f"{name!r} is {value!r:.200}, which is not allowed", hint=f"write {allowed}")
    return value


def path_of(settings: Mapping[str, Any], name: str, allowed: str = A_PATH) -> Path | None:
    """An absolute path without `..`; None if it is not set."""
    path = text_of(settings, name, PATH, allowed)
    if path is not None and ".." in path.split("/"):
        raise InvalidInput(f"{name!r} is {path!r}: write it without '..'")
    return Path(path) if path is not None else None


def count_of(settings: Mapping[str, Any], name: str, *, most: int) -> int:
    """A number from 1; 0 if it is not set. One that was typed is a text."""
    value = settings.get(name)
    if value is None:
        return 0
    found = int(value) if isinstance(value, int | str) and re.fullmatch("[0-9]{1,9}", str(value)) else 0
    if not 1 <= found <= most:
        raise InvalidInput(f"{name!r} is {value!r:.200}", hint=f"a number from 1 to {most}")
    return found


def seconds_of(
    settings: Mapping[str, Any], name: str, allowed: str, *, units: str = "smhd", least_s: float = 1.0
) -> float | None:
    """The seconds of a duration such as `90m`, in one of the units; None if it is not set."""
    value = settings.get(name)
    if value is None:
        return None
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None or found[2] not in units or int(found[1]) * _SECONDS[found[2]] < least_s:
        raise InvalidInput(f"{name!r} is {value!r:.200}", hint=f"a duration {allowed}")
    return float(int(found[1]) * _SECONDS[found[2]])
