"""The settings of a server: `settings.toml` in the tarmac home, read once at start, each declared once here.

Read by `__main__`; docs/settings.md explains every one of them, and a test holds the two to one another.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tarmac.model.errors import InvalidInput, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: its key in a table, its type, and what it means."""

    key: str
    kind: type[Any]
    meaning: str
    default: Any = None
    least: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNodes:
    """A group of like nodes that the local cluster offers."""

    nodes: int
    slots: int
    slot_type: str | None
    pool: str | None
    shard: str | None
    hostnames: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a server is told."""

    database_url: str | None = None
    listen: str | None = None
    ended_days: float = 7.0
    local: tuple[LocalNodes, ...] = ()


TABLES: Mapping[str, Sequence[Setting]] = {
    "database": (
        Setting(
            key="url",
            kind=str,
            meaning="the database: `sqlite:////absolute/path`, or `postgresql+psycopg://USER@HOST/NAME` for "
            "several servers on one database; without it, `tarmac.db` in the home",
        ),
    ),
    "server": (
        Setting(
            key="listen",
            kind=str,
            meaning="a loopback address and port to serve over TCP too, such as `127.0.0.1:8400`; "
            "the token is in the file `token` of the home",
        ),
    ),
    "list": (
        Setting(
            key="ended_days",
            kind=float,
            default=7.0,
            least=0,
            meaning="how many days an ended run stays in a plain list of runs; it is never deleted",
        ),
    ),
}
"""Tables that stand once in the file."""

LOCAL_NODES: Sequence[Setting] = (
    Setting(key="nodes", kind=int, default=1, least=1, meaning="how many nodes of this kind"),
    Setting(key="slots", kind=int, least=0, meaning="slots of each; must be given"),
    Setting(key="slot_type", kind=str, meaning="what the slots are called, such as `h100`; default `cpu`"),
    Setting(key="pool", kind=str, meaning="the pool of these nodes; default `default`"),
    Setting(key="shard", kind=str, meaning="the shard of these nodes; default none"),
    Setting(
        key="hostnames", kind=list, default=[], meaning="a name for each of them; default `node1` and so on"
    ),
)
"""Keys of `[[local]]`, which may stand several times: the lasting cluster of the local engine."""


def read_settings(path: Path) -> Settings:
    """The settings in a file, defaults where there is none; raises InvalidInput with all that is wrong."""
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidInput([Problem(message=f"it cannot be read: {problem}", file=str(path))]) from problem
    except tomllib.TOMLDecodeError as problem:
        raise InvalidInput([Problem(message=f"it is not TOML: {problem}", file=str(path))]) from problem
    return _Reader(str(path)).settings(content)


class _Reader:
    """Reads the parsed file, collecting problems."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._problems: list[Problem] = []

    def settings(self, content: Mapping[str, Any]) -> Settings:
        self._refuse_unknown(content, [*TABLES, "local"], "")
        values = {name: self._table(content.get(name, {}), TABLES[name], f"{name}.") for name in TABLES}
        groups = content.get("local", [])
        if not isinstance(groups, list):
            self._problem("local: write [[local]], with double brackets: it may stand several times")
            groups = []
        local = [self._table(group, LOCAL_NODES, f"local[{at}].") for at, group in enumerate(groups)]
        for at, group in enumerate(local):
            if group["slots"] is None:
                self._problem(f"local[{at}].slots is missing: how many slots has each of these nodes?")
        if self._problems:
            raise InvalidInput(self._problems)
        return Settings(
            database_url=values["database"]["url"],
            listen=values["server"]["listen"],
            ended_days=values["list"]["ended_days"],
            local=tuple(LocalNodes(**{**group, "hostnames": tuple(group["hostnames"])}) for group in local),
        )

    def _table(self, table: Any, settings: Sequence[Setting], prefix: str) -> dict[str, Any]:
        if not isinstance(table, dict):
            self._problem(f"{prefix[:-1]}: a table is expected, not {table!r:.60}")
            table = {}
        self._refuse_unknown(table, [setting.key for setting in settings], prefix)
        return {setting.key: self._value(table, setting, prefix) for setting in settings}

    def _value(self, table: Mapping[str, Any], setting: Setting, prefix: str) -> Any:
        value: Any = table.get(setting.key, setting.default)
        if value is None:
            return None
        if setting.kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, setting.kind) or isinstance(value, bool):
            self._problem(f"{prefix}{setting.key}: {_KINDS[setting.kind]} is expected, not {value!r:.60}")
            return setting.default
        if setting.least is not None and value < setting.least:
            self._problem(f"{prefix}{setting.key}: at least {setting.least} is expected, not {value!r}")
        if setting.kind is list and not all(isinstance(item, str) for item in value):
            self._problem(f"{prefix}{setting.key}: a list of names is expected, not {value!r:.60}")
        return value

    def _refuse_unknown(self, table: Mapping[str, Any], known: Sequence[str], prefix: str) -> None:
        for key in table:
            if key not in known:
                close = get_close_matches(key, known, n=1)
                meant = f"did you mean {prefix}{close[0]}?" if close else f"known here: {', '.join(known)}"
                self._problem(f"{prefix}{key} is no setting", hint=meant)

    def _problem(self, message: str, *, hint: str | None = None) -> None:
        self._problems.append(Problem(message=message, file=self._file, hint=hint))


_KINDS = {str: "text", int: "a whole number", float: "a number", list: "a list"}
