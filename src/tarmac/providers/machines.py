"""The kind `machines`: an administrator's own commands create, list and delete machines. Made by `kinds`.

A command reads the request on stdin (JSON) and in variables, and prints its answer on stdout (JSON). Its exit
code says why it rents out nothing (`REFUSALS`); after any other code of `create`, machines may exist.
"""

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from shutil import which
from typing import Annotated, Any, TypeVar

from msgspec import DecodeError, Meta, json, to_builtins

from tarmac.model.burst.provider import (
    AnswerLost,
    ProviderRecord,
    Refusal,
    RentedThing,
    RentRefused,
    RentRequest,
    ThingKind,
)
from tarmac.model.burst.shapes import Shape
from tarmac.model.cluster import Finding
from tarmac.model.codec import StoredRecord, decode, replace
from tarmac.model.errors import InvalidInput, TarmacError, Unavailable
from tarmac.model.kinds import setting_values as values
from tarmac.model.secret import SecretValues
from tarmac.node.processes.programs import BrokenProgram, output_of
from tarmac.providers.accounts import counted, credential_values, finding

COMMANDS = ("create", "list", "delete")
ALL_COMMANDS = (*COMMANDS, "price")
CHANGING = ("create", "delete")
"""The commands after whose failure nobody knows what they have done."""

REFUSALS = {
    10: Refusal.NO_CAPACITY,
    11: Refusal.QUOTA,
    12: Refusal.UNKNOWN_SHAPE,
    13: Refusal.DENIED,
    14: Refusal.INVALID,
}
"""The exit codes of a command that rented out nothing, and never will for this request."""

TRY_LATER = 15
"""The exit code of a command that did nothing, and may succeed later."""

DEFAULT_TIMEOUT_S = 600.0
LARGEST_BYTES = 4 << 20
MOST_THINGS = 10_000

T = TypeVar("T")

_VARIABLE = re.compile(r"(?!TARMAC_)[A-Za-z_][A-Za-z0-9_]{0,99}")
_TAG = re.compile(r"[ -~]{0,200}")
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}|[0-9A-Fa-f:.]{2,45}")
_FORMS = {
    "id": re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}"),
    **dict.fromkeys(("owner", "request", "run"), _TAG),
    **dict.fromkeys(("address", "inner_address"), _ADDRESS),
    **dict.fromkeys(("since", "notice_at"), re.compile(r"[0-9]{1,11}(\.[0-9]+)?")),
}
_LONGEST_WORDS = 300


class _Price(StoredRecord, frozen=True):
    """The answer of the command `price`, for one machine and hour."""

    rate: Annotated[float, Meta(ge=0, le=1e6)] | None = None


class MachinesKind:
    """Opens the providers of an administrator's own commands."""

    def __init__(self, secrets: SecretValues) -> None:
        self._secrets = secrets

    def check(self, record: ProviderRecord) -> None:
        """Raise InvalidInput for settings that are no commands."""
        values.refuse_unknown(record.settings, (*ALL_COMMANDS, "timeout"), "the provider machines")
        for name in ALL_COMMANDS:
            if name in record.settings:
                _argv(record.settings, name)
            elif name in COMMANDS:
                hint = f"a program and its arguments, such as --set {name}=/opt/rent/{name}"
                raise InvalidInput(f"the provider machines needs the setting {name!r}", hint=hint)
        _timeout_s(record.settings)
        for name in record.credentials:
            if not _VARIABLE.fullmatch(name):
                hint = "the name of a variable for the commands, without TARMAC_ at its beginning"
                raise InvalidInput(f"the credential {name!r:.100} is not allowed", hint=hint)

    def open(self, record: ProviderRecord) -> "CommandProvider":
        """The adapter of a record."""
        return CommandProvider(record, self._secrets)


class CommandProvider:
    """The machines of three commands, and of one for prices if it is set."""

    def __init__(self, record: ProviderRecord, secrets: SecretValues) -> None:
        self._settings = record.settings
        self._credentials = partial(credential_values, record, secrets)

    def create(self, request: RentRequest) -> Sequence[RentedThing]:
        """Call `create`. An answer that cannot be read is a lost one: the machines may exist."""
        variables = {"REQUEST": request.id, "OWNER": request.owner, "RUN": request.run}
        variables |= {"MACHINES": str(request.machines), "SCRIPT": request.script}
        variables |= _of_shape(request.shape)
        output = self._output("create", request, variables)
        return _read("create", output, lambda answer: _created(answer, request))

    def list(self) -> Sequence[RentedThing]:
        """Call `list`."""
        return _read("list", self._output("list", {}, {}), _things)

    def delete(self, things: Collection[RentedThing]) -> None:
        """Call `delete`, once for all things; its output does not matter."""
        ids = " ".join(each.id for each in things)
        self._output("delete", {"things": tuple(things)}, {"IDS": ids})

    def price(self, shape: Shape) -> float | None:
        """Call `price`, if it is set; it prints `{"rate": 2.5}`, or `{}` if there is none."""
        if "price" not in self._settings:
            return None
        return _read("price", self._output("price", {"shape": shape}, _of_shape(shape)), _rate)

    def examine(self) -> Sequence[Finding]:
        """Whether each command is a program of this machine, and what `list` prints."""
        programs = {name: _argv(self._settings, name)[0] for name in ALL_COMMANDS if name in self._settings}
        found = [
            Finding(what=name, ok=which(program) is not None, text=which(program) or f"no program {program}")
            for name, program in programs.items()
        ]
        return [*found, finding("list printed", lambda: counted(self.list()))]

    def _output(self, name: str, question: object, variables: Mapping[str, str]) -> bytes:
        """The output of a command; raises the error for its exit code."""
        own = {f"TARMAC_{key}": value for key, value in variables.items()}
        try:
            return output_of(
                _argv(self._settings, name),
                json.encode(to_builtins(question)),
                timeout_s=_timeout_s(self._settings),
                variables={**self._credentials(), **own},
                largest_bytes=LARGEST_BYTES,
            )
        except BrokenProgram as broken:
            raise _failure(name, broken) from None


def _failure(name: str, broken: BrokenProgram) -> TarmacError:
    lines = [line for line in broken.details.splitlines() if line.strip()]
    words = "".join(c if c.isprintable() else " " for c in lines[-1].strip()) if lines else str(broken)
    text = f"the command {name}: {words[:_LONGEST_WORDS]}"
    if not broken.started:
        return RentRefused(Refusal.INVALID, f"the command {name} cannot be started: {words}")
    if broken.exit_code in REFUSALS:
        return RentRefused(REFUSALS[broken.exit_code], text)
    if broken.exit_code == TRY_LATER or name not in CHANGING:
        return Unavailable(text)
    return AnswerLost(text if words == str(broken) else f"{text} ({broken})")


def _read(name: str, output: bytes, reader: Callable[[Any], T]) -> T:
    """The answer in an output. One that cannot be read is a lost one if machines may exist."""
    try:
        return reader(json.decode(output))
    except (DecodeError, UnicodeDecodeError, RecursionError, InvalidInput) as error:
        words = f"the command {name} printed a wrong answer: {error}"
        raise (AnswerLost if name in CHANGING else Unavailable)(words) from None


def _things(answer: Any) -> Sequence[RentedThing]:
    """The things in an answer; raises InvalidInput."""
    things = decode(tuple[RentedThing, ...], answer, "things")
    if unknown := {name for each in answer for name in each} - {*RentedThing.__struct_fields__}:
        raise InvalidInput(f"there is no field {min(unknown)!r:.100}")
    if len(things) > MOST_THINGS:
        raise InvalidInput(f"{len(things)} things are more than {MOST_THINGS}")
    for each in things:
        for name, form in _FORMS.items():
            value = getattr(each, name)
            if value is not None and not form.fullmatch(str(value)):
                raise InvalidInput(f"{name} is {value!r:.100}, which is not allowed")
    if len({(each.kind, each.id) for each in things}) < len(things):
        raise InvalidInput("an id is printed twice")
    return things


def _created(answer: Any, request: RentRequest) -> Sequence[RentedThing]:
    """The machines of a request in the answer to it, with its tags."""
    tags: dict[str, Any] = {"owner": request.owner, "request": request.id, "run": request.run}
    for each in (things := _things(answer)):
        if any(getattr(each, name) not in (None, tag) for name, tag in tags.items()):
            raise InvalidInput(f"{each.id} has the tags of another request")
    return [replace(each, **tags) for each in things if each.kind is ThingKind.MACHINE]


def _rate(answer: Any) -> float | None:
    return decode(_Price, answer, "price").rate


def _of_shape(shape: Shape) -> dict[str, str]:
    return {"REGION": shape.region, "MACHINE": shape.machine, "SPOT": "1" if shape.spot else "0"}


def _argv(settings: Mapping[str, str], name: str) -> list[str]:
    """The program and arguments of a command; raises InvalidInput."""
    try:
        argv = shlex.split(settings[name])
    except ValueError as error:
        raise InvalidInput(f"{name!r} is {settings[name]!r:.200}: {error}") from None
    if not argv or not argv[0]:
        raise InvalidInput(f"{name!r} is empty", hint="a program and its arguments")
    return argv


def _timeout_s(settings: Mapping[str, str]) -> float:
    allowed = "after which a command is ended, such as 10m"
    return values.seconds_of(settings, "timeout", allowed) or DEFAULT_TIMEOUT_S
