"""Reads tables of `settings.toml` into the records that declare them, and collects all problems.

Called by `settings`. Each field of a record is a setting: its name in the file, its type and its default.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.inspect import EnumType, Metadata, UnionType, type_info
from msgspec.structs import FieldInfo, fields

from tarmac.model.errors import Problem, nearest

_NOTATION = "notation"
_SIZE, _DURATION = "a size", "a duration"
Size = Annotated[int, Meta(extra={_NOTATION: _SIZE})]
"""A number of bytes; in the file a text such as `64GiB`."""

Duration = Annotated[float, Meta(extra={_NOTATION: _DURATION})]
"""A number of seconds; in the file a text such as `2m`."""

Days = Annotated[float, Meta(ge=0)]

_KINDS: Mapping[str, tuple[type[Any] | tuple[type[Any], ...], str, str]] = {
    "BoolType": (bool, "true or false", "true or false"),
    "StrType": (str, "text", "text"),
    "EnumType": (str, "text", "text"),
    "IntType": (int, "whole number", "a whole number"),
    "FloatType": ((int, float), "number", "a number"),
    "VarTupleType": (list, "list", "a list"),
    "DictType": (dict, "table", "a table"),
}
"""The type in a file of each type of a field, and its name in the reference and in messages."""

Table = TypeVar("Table", bound=Struct)


class Setting(NamedTuple):
    """One setting: the field of its record, its key in the file, and how it is written there."""

    field: FieldInfo
    type: msgspec.inspect.Type
    notation: str | None

    @property
    def key(self) -> str:
        """Its name in the file."""
        return self.field.encode_name

    @property
    def written(self) -> str:
        """The name of its type in the file."""
        return "text" if self.notation else _KINDS[type(self.type).__name__][1]


def settings_of(record: type[Struct]) -> Sequence[Setting]:
    """The settings of one table of the file."""
    return [_setting(field) for field in fields(record)]


def _setting(field: FieldInfo) -> Setting:
    kind = type_info(field.type)
    if isinstance(kind, UnionType):
        kind = kind.types[0]
    if isinstance(kind, Metadata):
        return Setting(field, kind.type, (kind.extra or {}).get(_NOTATION))
    return Setting(field, kind, None)


class SettingReader:
    """Reads the tables of one file, and collects their problems."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def table(self, record: type[Table], table: Any, path: str) -> Table:
        """A table as a record; missing and wrong settings have their defaults."""
        return record(**self.given(record, table, path))

    def given(self, record: type[Struct], table: Any, path: str) -> dict[str, Any]:
        """The settings that a table has, by the names of their fields."""
        if not isinstance(table, dict):
            self.refuse(f"{path}: a table is expected, not {table!r:.60}")
            return {}
        if not table:
            return {}  # most servers set little: their records need no look
        settings = settings_of(record)
        self.refuse_unknown(table, [setting.key for setting in settings], f"{path}.")
        there = [setting for setting in settings if setting.key in table]
        values = {item.field.name: self._value(item, table[item.key], f"{path}.{item.key}") for item in there}
        return {name: value for name, value in values.items() if value is not msgspec.UNSET}

    def _value(self, setting: Setting, value: Any, path: str) -> Any:
        """The value of a setting; UNSET after a problem."""
        if setting.notation is not None:
            return self._amount(setting.notation, value, path)
        kind, _, words = _KINDS[type(setting.type).__name__]
        least = getattr(setting.type, "ge", None)
        if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
            self.refuse(f"{path}: {words} is expected, not {value!r:.60}")
        elif least is not None and value < least:
            self.refuse(f"{path}: at least {least} is expected, not {value!r}")
        elif isinstance(setting.type, EnumType) and value not in list(setting.type.cls):
            self.refuse_choice(value, list(setting.type.cls), path)
        else:
            try:
                return msgspec.convert(value, setting.field.type)
            except msgspec.ValidationError:
                allowed = getattr(getattr(setting.type, "value_type", None), "cls", ["names"])
                self.refuse(f"{path}: {words} of {', '.join(allowed)} is expected, not {value!r:.60}")
        return msgspec.UNSET

    def _amount(self, notation: str, value: Any, path: str) -> Any:
        from tarmac.server import local_cluster  # noqa: PLC0415 - see its docstring

        if not isinstance(value, str):
            self.refuse(f"{path}: text is expected, not {value!r:.60}")
            return msgspec.UNSET
        amount, problems = local_cluster.amount(value, path, self.file, is_size=notation == _SIZE)
        self.problems += problems
        return msgspec.UNSET if amount is None else amount

    def refuse_unknown(self, table: Mapping[str, Any], known: Sequence[str], prefix: str) -> None:
        """Refuse the keys that are no settings, each with the nearest that is one."""
        for key in table:
            if key not in known:
                close = nearest(key, known)
                guess = f"did you mean {prefix}{close}?" if close else f"known here: {', '.join(known)}"
                self.refuse(f"{prefix}{key} is no setting", hint=guess)

    def refuse_choice(self, value: str, allowed: Sequence[str], path: str) -> None:
        """Refuse a value that is none of the allowed ones."""
        self.refuse(f"{path}: {value!r} is none of {', '.join(allowed)}", hint=nearest(value, allowed))

    def refuse(self, message: str, *, hint: str | None = None) -> None:
        """Note a problem."""
        self.problems.append(Problem(message=message, file=self.file, hint=hint))
