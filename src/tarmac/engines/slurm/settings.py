"""The settings of a cluster whose engine is Slurm, checked without touching anything. Called by `kind`.

Whatever ends in a job script is held to plain characters here, so that no value can become a directive of
its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tarmac.model.directives import check_name, check_value
from tarmac.model.errors import InvalidInput
from tarmac.model.text import nearest

_PATH = re.compile(r"/[A-Za-z0-9_./+@-]*")
_PROGRAM = re.compile(r"[A-Za-z0-9_./+@-]+")
_NAME = re.compile(r"[A-Za-z0-9_.,@:+-]{1,200}")
_WALL_TIME = re.compile(r"([1-9][0-9]{0,5})([mhd])")
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400}

FIELDS = ("directory", "partition", "account", "qos", "gpu_type", "extra", "python", "wall_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Where runs are kept, and what every job says. `extra`: directives to add, or, with None, to drop.

    No job is asked for longer than `wall_time_s`.
    """

    directory: Path
    partition: str
    account: str | None = None
    qos: str | None = None
    gpu_type: str | None = None
    extra: Mapping[str, str | None] = field(default_factory=dict)
    python: str = "python3"
    wall_time_s: float | None = None


def read_settings(settings: Mapping[str, Any]) -> SlurmSettings:
    """The settings as they were described; raises InvalidInput with the first mistake."""
    for name in settings:
        if name not in FIELDS:
            near = nearest(name, FIELDS)
            hint = f"did you mean {near}?" if near else f"settings: {', '.join(FIELDS)}"
            raise InvalidInput(f"the engine slurm has no setting {name!r}", hint=hint)
    for name in ("directory", "partition"):
        if settings.get(name) is None:
            raise InvalidInput(f"the engine slurm needs the setting {name!r}", hint=_NEEDED[name])
    directory = _text(settings, "directory", _PATH, "an absolute path of letters, digits and _./+@-")
    assert directory is not None, "looked for above"
    if ".." in directory.split("/"):
        raise InvalidInput(f"'directory' is {directory!r}: write it without '..'")
    name = "a name as Slurm has them"
    partition = _text(settings, "partition", _NAME, name)
    assert partition is not None, "looked for above"
    return SlurmSettings(
        directory=Path(directory),
        partition=partition,
        account=_text(settings, "account", _NAME, name),
        qos=_text(settings, "qos", _NAME, name),
        gpu_type=_text(settings, "gpu_type", _NAME, name),
        extra=_extra(settings.get("extra")),
        python=_text(settings, "python", _PROGRAM, "a command or a path, without blanks") or "python3",
        wall_time_s=_wall_time_s(settings.get("wall_time")),
    )


_NEEDED = {
    "directory": "one that this machine and all nodes see under the same path, for this cluster alone",
    "partition": "sinfo lists those there are",
}


def _text(settings: Mapping[str, Any], name: str, form: re.Pattern[str], allowed: str) -> str | None:
    value = settings.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not form.fullmatch(value):
        raise InvalidInput(f"{name!r} is {value!r:.200}, which is not allowed", hint=f"write {allowed}")
    return value


def _wall_time_s(value: Any) -> float | None:
    if value is None:
        return None
    found = _WALL_TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidInput(
            f"'wall_time' is {value!r:.200}", hint="a duration in whole minutes: 90m, 4h or 1d"
        )
    return float(int(found[1]) * _SECONDS[found[2]])


def _extra(value: Any) -> dict[str, str | None]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput("'extra' is no mapping", hint="such as 'extra: {constraint: a100, mem: null}'")
    found: dict[str, str | None] = {}
    for name, given in value.items():
        try:
            found[check_name(name)] = check_value(given)
        except InvalidInput as error:
            raise InvalidInput(f"'extra' has {name!r:.100}: {error.message}", hint=error.hint) from None
    return found
