"""Checks launch scripts without running them: certain problems, and warnings about likely ones.

Called by `tarmac check`. Names, fields and literal values of the calls are checked; the server checks
computed values.
"""

import ast
import re
import warnings as python_warnings
from collections import Counter
from collections.abc import Iterator

from tarmac.dialects.kinds import did_you_mean
from tarmac.dialects.located import Placed, Problems
from tarmac.model.errors import nearest
from tarmac.node.files import gitrules
from tarmac.systems.clusterfudge.argv import argv_doubts, split
from tarmac.systems.clusterfudge.fields import SLOT_TYPES
from tarmac.systems.clusterfudge.signatures import MAKES, OTHER_NAMES, SIGNATURES, SYNONYMS, Parameter, Takes

LARGEST_CHARACTERS = 1 << 18


def check_script(text: str, *, filename: str) -> Problems:
    """Every problem and warning of a launch script that is visible without running it."""
    problems = Problems(filename)
    if len(text) > LARGEST_CHARACTERS:
        message = f"the script has {len(text):,} characters; {LARGEST_CHARACTERS:,} are looked through"
        problems.warn(None, message)
        return problems
    try:
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("ignore")  # not our warning: an odd escape in the user's text
            tree = ast.parse(text)
    except SyntaxError as error:
        place = Placed(line=error.lineno or 1, column=max(error.offset or 1, 1))
        problems.add(place, f"this is not Python: {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        problems.add(None, f"this is not Python: {error or 'nested too deep'}")
    else:
        Calls(tree, text, problems).check()
    return problems


PACKAGE = "clusterfudge"
_SOURCES = frozenset({"tarmac", PACKAGE, f"tarmac.{PACKAGE}", f"{PACKAGE}.{PACKAGE}"})
"""The modules from which scripts import the package or its names."""


class Bindings:
    """The names of one script."""

    def __init__(self, tree: ast.Module) -> None:
        self._modules: set[str] = set()
        self._names: dict[str, str] = {}
        self.imported: list[tuple[str, ast.stmt]] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._modules |= {
                    alias.asname or alias.name for alias in node.names if alias.name in _SOURCES
                }
            elif isinstance(node, ast.ImportFrom) and node.module in _SOURCES:
                for alias in node.names:
                    self._take(node, alias)
        self._values = dict(_assigned_once(tree))

    def member(self, node: ast.expr) -> str | None:
        """The name in the package that an expression refers to, such as `Job`; None for other expressions."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute) and _dotted(node.value) in self._paths():
            return node.attr
        return None

    def value(self, node: ast.expr) -> ast.expr:
        """The assigned expression of a name that is assigned once; any other expression unchanged."""
        for _ in range(8):
            if not isinstance(node, ast.Name) or node.id not in self._values:
                break
            node = self._values[node.id]
        return node

    def _paths(self) -> set[str]:
        return self._modules | {f"{module}.{PACKAGE}" for module in self._modules}

    def _take(self, node: ast.ImportFrom, alias: ast.alias) -> None:
        if alias.name == PACKAGE:
            self._modules.add(alias.asname or alias.name)
        elif node.module != "tarmac" and alias.name != "*":
            self._names[alias.asname or alias.name] = alias.name
            self.imported.append((alias.name, node))


def _dotted(node: ast.expr) -> str | None:
    """`a.b.c` as text; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _assigned_once(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Names that are assigned exactly once, with their values."""
    times = Counter(
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )
    times.update(node.arg for node in ast.walk(tree) if isinstance(node, ast.arg))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name) and times[target.id] == 1:
                yield target.id, node.value


_PLAIN = frozenset({Takes.COUNT, Takes.AMOUNT, Takes.FLAG, Takes.TEXT})
_LISTS = frozenset({Takes.ARGV, Takes.TEXTS, Takes.GROUPS, Takes.PROCESSES})
_COMMIT = re.compile(r"[0-9a-fA-F]{4,64}", re.ASCII)
_FIRST_FIELDS = frozenset({"command", "replica_resources", "replicas"})


class Calls:
    """The calls of one script."""

    def __init__(self, tree: ast.Module, text: str, problems: Problems) -> None:
        self._tree = tree
        self._lines = text.splitlines()
        self._problems = problems
        self._bound = Bindings(tree)

    def check(self) -> None:
        """Check imports and calls, and note every problem."""
        launches = False
        for imported, statement in self._bound.imported:
            self._known(imported, statement)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Attribute):
                launches = launches or node.attr == "create_launch"
                if (name := self._bound.member(node)) is not None:
                    self._known(name, node)
            if isinstance(node, ast.Call):
                called = self._bound.member(node.func)
                if called is not None and called in SIGNATURES:
                    self._call(called, node)
        if not launches:
            self._problems.warn(None, "the script never calls create_launch, so it launches nothing")

    def _known(self, name: str, node: ast.expr | ast.stmt) -> None:
        if name in SIGNATURES or name in OTHER_NAMES or name.startswith("__"):
            return
        hint = did_you_mean(name, {*SIGNATURES, *OTHER_NAMES}) or f"it has {', '.join(sorted(SIGNATURES))}"
        self._refuse(node, f"clusterfudge has no name {name!r}", hint)

    def _call(self, name: str, call: ast.Call) -> None:
        """Check one call of a known name: each field by itself, then the combination of fields."""
        parameters = SIGNATURES[name]
        arguments: dict[str, ast.expr] = {}
        open_ended = False
        for index, argument in enumerate(call.args):
            if isinstance(argument, ast.Starred):
                open_ended = True
            elif index < len(parameters):
                arguments[parameters[index].name] = argument
            else:
                self._refuse(argument, f"{name} takes {len(parameters)} values, not {len(call.args)}")
                break
        meant: set[str | None] = set()
        for keyword in call.keywords:
            if keyword.arg is None:
                open_ended = True
            elif keyword.arg in [parameter.name for parameter in parameters]:
                if keyword.arg in arguments:
                    self._refuse(keyword.value, f"{name} is given {keyword.arg!r} twice")
                arguments[keyword.arg] = keyword.value
            else:
                meant.add(self._unknown(name, keyword.arg, keyword))
        for parameter in parameters:
            if parameter.name in arguments:
                self._value(f"{name}: {parameter.name}", parameter, arguments[parameter.name])
            elif parameter.required and not open_ended and parameter.name not in meant:
                self._refuse(call, f"{name} lacks {parameter.name!r}", f"{parameter.takes} is expected")
        self._together(name, call, arguments)

    def _unknown(self, name: str, field: str, keyword: ast.keyword) -> str | None:
        """Report an unknown field; return the field that was probably meant."""
        names = [parameter.name for parameter in SIGNATURES[name]]
        near = nearest(field, names, SYNONYMS.get(name))
        if name == "CreateLaunchRequest" and field in _FIRST_FIELDS:
            hint: str | None = "since version 0.14 it belongs into jobs=[Job(..., processes=[Process(...)])]"
        elif near is not None:
            hint = f"did you mean '{near}'?"
        else:
            hint = f"it has {', '.join(names)}" if names else "it has none"
        self._refuse(keyword, f"{name} has no field {field!r}", hint)
        return near

    def _value(self, place: str, parameter: Parameter, argument: ast.expr) -> None:
        """Report a value that cannot be of its field's type; `place` names the field."""
        value, takes = self._bound.value(argument), parameter.takes
        if isinstance(value, ast.Constant) and value.value is None:
            if parameter.required:
                self._refuse(argument, f"{place} is None; {takes} is expected")
        elif (bare := self._bound.member(value)) in SIGNATURES:
            self._refuse(argument, f"{place} is given {bare} itself", _called(bare))
        elif takes in _LISTS:
            self._list(place, parameter, argument, value)
        elif takes in _PLAIN:
            self._plain(place, parameter, argument, value)
        elif takes in MAKES and (found := self._surely_not(value, MAKES[takes])):
            self._refuse(argument, f"{place} is {found}; {takes} is expected")

    def _plain(self, place: str, parameter: Parameter, argument: ast.expr, value: ast.expr) -> None:
        takes, constant = parameter.takes, _constant(value)
        found = self._surely_not(value, frozenset(), plain=True)
        if found is None and constant is not None and not _right(takes, constant):
            found = repr(constant)[:60]
        if takes is Takes.COUNT and found == "0":
            self._refuse(argument, f"{place} must be non-empty", "it is 0; write 1 or more")
        elif found is not None:
            self._refuse(argument, f"{place} is {found}; {takes} is expected")
        elif constant == "" and parameter.required:
            self._refuse(argument, f"{place} must be non-empty")

    def _list(self, place: str, parameter: Parameter, argument: ast.expr, value: ast.expr) -> None:
        takes, constant = parameter.takes, _constant(value)
        if isinstance(constant, str):
            hint = f"write {split(constant)}" if takes is Takes.ARGV else f"write [{constant!r}]"
            self._refuse(argument, f"{place} is one text; {takes} is expected", hint)
        elif isinstance(value, ast.JoinedStr):
            self._refuse(argument, f"{place} is one text; {takes} is expected")
        elif constant is not None or isinstance(value, ast.Dict | ast.Set):
            self._refuse(argument, f"{place} is no list; {takes} is expected")
        elif isinstance(value, ast.Call) and self._bound.member(value.func) in MAKES.get(takes, ()):
            self._refuse(argument, f"{place} is a list, with this one in it", "write [...]")
        elif isinstance(value, ast.List | ast.Tuple) and value.elts:
            self._members(place, takes, value)
        elif isinstance(value, ast.List | ast.Tuple) and parameter.required:
            self._refuse(argument, f"{place} must be non-empty")

    def _members(self, place: str, takes: Takes, value: ast.List | ast.Tuple) -> None:
        for item in value.elts:
            member = self._bound.value(item)
            constant = _constant(member)
            if takes not in MAKES:
                if constant is not None and not isinstance(constant, str):
                    self._refuse(item, f"{place} holds {constant!r}, not a text", f'write "{constant}"')
            elif (bare := self._bound.member(member)) in SIGNATURES:
                self._refuse(item, f"{place} holds {bare} itself", _called(bare))
            elif found := self._surely_not(member, MAKES[takes]):
                self._refuse(item, f"{place} holds {found}; {takes} is expected")
        if takes is Takes.ARGV:
            self._argv(place, value)

    def _argv(self, place: str, value: ast.List | ast.Tuple) -> None:
        words = [_constant(self._bound.value(item)) for item in value.elts]
        if words[0] == "":
            self._refuse(value.elts[0], f"{place.removesuffix('command')}the name of the program is empty")
        starred = [index for index, item in enumerate(value.elts) if isinstance(item, ast.Starred)]
        texts = [word if isinstance(word, str) else "?" for word in words[: next(iter(starred), None)]]
        for doubt in argv_doubts(texts):
            self._problems.warn(None, f"line {value.lineno}: {place}: {doubt}")

    def _together(self, name: str, call: ast.Call, arguments: dict[str, ast.expr]) -> None:
        """Check combinations of fields, and values that only some fields allow."""
        if name == "Resources":
            counts = {field: _constant(arguments[field]) for field in SLOT_TYPES if field in arguments}
            types = [field for field, count in counts.items() if count not in (None, 0)]
            if len(types) > 1:
                message = f"one process asks for {' and '.join(types)}"
                self._refuse(call, message, "a node has one kind: give each its own process")
        elif name == "GitRepo":
            self._repository(arguments)
        elif name == "CreateLaunchRequest" and "jobs" in arguments:
            self._short_names(self._bound.value(arguments["jobs"]))

    def _repository(self, arguments: dict[str, ast.expr]) -> None:
        given = {name: _constant(self._bound.value(argument)) for name, argument in arguments.items()}
        repo, commit = given.get("repo"), given.get("commit")
        if isinstance(repo, str) and gitrules.holds_secret(repo):
            self._refuse(
                arguments["repo"],
                "GitRepo: the URL contains a password or token, which everyone who sees it would read",
                "take it out; the server is given a deploy key or credentials in its settings",
            )
        if isinstance(commit, str) and not _COMMIT.fullmatch(commit):
            self._refuse(
                arguments["commit"], f"GitRepo: commit is {commit!r}; 4 to 64 hexadecimal digits are expected"
            )

    def _short_names(self, listed: ast.expr) -> None:
        seen: set[object] = set()
        for call in listed.elts if isinstance(listed, ast.List | ast.Tuple) else ():
            if not isinstance(call, ast.Call) or self._bound.member(call.func) != "Job":
                continue
            for node in _named(call, "short_name"):
                short_name = _constant(self._bound.value(node))
                if isinstance(short_name, str) and short_name in seen:
                    self._refuse(node, f"another job has the short_name {short_name!r}", "it names one job")
                seen.add(short_name)

    def _surely_not(self, value: ast.expr, made: frozenset[str], *, plain: bool = False) -> str | None:
        """A description of the value if its type is certainly wrong; None if it may be right."""
        if isinstance(value, ast.List | ast.ListComp):
            return "a list"
        if isinstance(value, ast.Dict | ast.DictComp):
            return "a mapping"
        if isinstance(value, ast.Tuple | ast.Set):
            return "several values"
        if isinstance(value, ast.Call):
            name = self._bound.member(value.func)
            return f"{name}(...)" if name in SIGNATURES and name not in made else None
        if plain:
            return None
        if isinstance(value, ast.JoinedStr):
            return "a text"
        constant = _constant(value)
        return repr(constant)[:60] if constant is not None else None

    def _refuse(self, node: ast.expr | ast.stmt | ast.keyword, message: str, hint: str | None = None) -> None:
        line = self._lines[node.lineno - 1] if node.lineno <= len(self._lines) else ""
        column = len(line.encode(errors="replace")[: node.col_offset].decode(errors="ignore")) + 1
        self._problems.add(Placed(line=node.lineno, column=column), message, hint)


def _called(name: str | None) -> str:
    """The hint for a class that is given without calling it."""
    return f"write {name}({'...' if name is not None and SIGNATURES[name] else ''})"


def _named(call: ast.Call, name: str) -> Iterator[ast.expr]:
    """The value of the first field of a call, given by name or by position."""
    yield from call.args[:1]
    yield from (keyword.value for keyword in call.keywords if keyword.arg == name)


def _right(takes: Takes, constant: str | int | float | None) -> bool:
    """Whether a literal has the type of a plain field."""
    if takes is Takes.TEXT:
        return isinstance(constant, str)
    if takes is Takes.FLAG:
        return isinstance(constant, bool)
    least = 1 if takes is Takes.COUNT else 0
    return isinstance(constant, int) and not isinstance(constant, bool) and constant >= least


def _constant(node: ast.expr) -> str | int | float | None:
    """The literal value of a node; None if it has none, or if the literal is None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _constant(node.operand)
        return -number if isinstance(number, int | float) else None
    return None
