"""Checks the calls of a launch script: names, fields, and literal values. Used by `script`."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tarmac.dialects.kinds import did_you_mean
from tarmac.dialects.problems import Problems
from tarmac.model.errors import nearest
from tarmac.node.files import gitrules
from tarmac.systems.clusterfudge.argv import argv_doubts, split
from tarmac.systems.clusterfudge.fields import SLOT_TYPES
from tarmac.systems.clusterfudge.signatures import (
    MAKES,
    OTHER_NAMES,
    SIGNATURES,
    SYNONYMS,
    Parameter,
    Takes,
)

PACKAGE = "clusterfudge"
_PACKAGES = frozenset({PACKAGE, f"tarmac.{PACKAGE}", f"{PACKAGE}.{PACKAGE}"})


class Bindings:
    """The names of one script."""

    def __init__(self, tree: ast.Module) -> None:
        self._modules: set[str] = set()
        self._names: dict[str, str] = {}
        self.imported: list[tuple[str, ast.stmt]] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._modules |= {alias.asname or alias.name for alias in node.names if _ours(alias.name)}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                self._take(node, node.module)
        self._values = dict(_assigned_once(tree))

    def member(self, node: ast.expr) -> str | None:
        """The name in the package that an expression refers to, such as `Job`; None for other expressions."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute) and (path := _dotted(node.value)) in self._paths():
            assert path is not None, "None is no path"
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

    def _take(self, node: ast.ImportFrom, module: str) -> None:
        for alias in node.names:
            if (module == "tarmac" and alias.name == PACKAGE) or (
                module in _PACKAGES and alias.name == PACKAGE
            ):
                self._modules.add(alias.asname or alias.name)
            elif module in _PACKAGES and alias.name != "*":
                self._names[alias.asname or alias.name] = alias.name
                self.imported.append((alias.name, node))


def _ours(module: str) -> bool:
    return module in _PACKAGES or module == "tarmac"


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


_NUMBERS = frozenset({Takes.COUNT, Takes.AMOUNT})
_LISTS = frozenset({Takes.ARGV, Takes.TEXTS, Takes.GROUPS, Takes.PROCESSES})
_COMMIT = re.compile(r"[0-9a-fA-F]{4,64}", re.ASCII)
_FIRST_FIELDS = frozenset({"command", "replica_resources", "replicas"})


class Calls:
    """The calls of one script, and their problems and warnings."""

    def __init__(self, tree: ast.Module, text: str, problems: Problems) -> None:
        self.warnings: list[str] = []
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
            self.warnings.append("the script never calls create_launch, so it launches nothing")

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
        unknown: set[str] = set()
        for keyword in call.keywords:
            if keyword.arg is None:
                open_ended = True
            elif any(parameter.name == keyword.arg for parameter in parameters):
                if keyword.arg in arguments:
                    self._refuse(keyword.value, f"{name} is given {keyword.arg!r} twice")
                arguments[keyword.arg] = keyword.value
            else:
                unknown |= self._unknown(name, keyword)
        for parameter in parameters:
            if parameter.name in arguments:
                self._value(name, parameter, arguments[parameter.name])
            elif parameter.required and not open_ended and parameter.name not in unknown:
                self._refuse(call, f"{name} lacks {parameter.name!r}", f"{parameter.takes} is expected")
        self._together(name, call, arguments)

    def _unknown(self, name: str, keyword: ast.keyword) -> set[str]:
        """Report an unknown field; return the field that was probably meant."""
        assert keyword.arg is not None, "the caller has looked"
        names = [parameter.name for parameter in SIGNATURES[name]]
        near = nearest(keyword.arg, names, SYNONYMS.get(name))
        if name == "CreateLaunchRequest" and keyword.arg in _FIRST_FIELDS:
            hint: str | None = "since version 0.14 it belongs into jobs=[Job(..., processes=[Process(...)])]"
        elif near is not None:
            hint = f"did you mean '{near}'?"
        else:
            hint = f"it has {', '.join(names)}" if names else "it has none"
        self._refuse(keyword, f"{name} has no field {keyword.arg!r}", hint)
        return {near} if near is not None else set()

    def _value(self, name: str, parameter: Parameter, argument: ast.expr) -> None:
        """Report a value that cannot be of its field's type."""
        value = self._bound.value(argument)
        if _is_none(value):
            if parameter.required:
                self._refuse(argument, f"{name}: {parameter.name} is None; {parameter.takes} is expected")
            return
        takes = parameter.takes
        if (bare := self._bound.member(value)) is not None and bare in SIGNATURES:
            self._refuse(argument, f"{name}: {parameter.name} is given {bare} itself", _called(bare))
        elif takes in _LISTS:
            self._list(name, parameter, argument, value)
        elif takes in _NUMBERS or takes is Takes.FLAG or takes is Takes.TEXT:
            self._plain(name, parameter, argument, value)
        elif takes in MAKES and (found := self._surely_not(value, MAKES[takes])):
            self._refuse(argument, f"{name}: {parameter.name} is {found}; {takes} is expected")

    def _plain(self, name: str, parameter: Parameter, argument: ast.expr, value: ast.expr) -> None:
        found = self._surely_not(value, frozenset(), plain=True)
        constant = _constant(value)
        if found is None and constant is None:
            return
        takes = parameter.takes
        if found is not None or not _right(takes, constant):
            shown = found or repr(constant)[:60]
            if takes is Takes.COUNT and constant == 0:
                self._refuse(argument, f"{name}: replicas must be non-empty", "it is 0; write 1 or more")
                return
            self._refuse(argument, f"{name}: {parameter.name} is {shown}; {takes} is expected")
        elif constant == "" and parameter.required:
            self._refuse(argument, f"{name}: {parameter.name} must be non-empty")

    def _list(self, name: str, parameter: Parameter, argument: ast.expr, value: ast.expr) -> None:
        takes = parameter.takes
        constant = _constant(value)
        if isinstance(constant, str):
            hint = f"write {split(constant)}" if takes is Takes.ARGV else f"write [{constant!r}]"
            self._refuse(argument, f"{name}: {parameter.name} is one text; {takes} is expected", hint)
        elif isinstance(value, ast.JoinedStr):
            self._refuse(argument, f"{name}: {parameter.name} is one text; {takes} is expected")
        elif constant is not None or isinstance(value, ast.Dict | ast.Set):
            self._refuse(argument, f"{name}: {parameter.name} is no list; {takes} is expected")
        elif isinstance(value, ast.Call) and self._bound.member(value.func) in MAKES.get(takes, ()):
            self._refuse(argument, f"{name}: {parameter.name} is a list, with this one in it", "write [...]")
        elif isinstance(value, ast.List | ast.Tuple):
            self._members(name, parameter, argument, value)

    def _members(
        self, name: str, parameter: Parameter, argument: ast.expr, value: ast.List | ast.Tuple
    ) -> None:
        if not value.elts:
            if parameter.required:
                self._refuse(argument, f"{name}: {parameter.name} must be non-empty")
            return
        for item in value.elts:
            member = self._bound.value(item)
            if parameter.takes in MAKES:
                made = MAKES[parameter.takes]
                if (bare := self._bound.member(member)) is not None and bare in SIGNATURES:
                    self._refuse(item, f"{name}: {parameter.name} holds {bare} itself", _called(bare))
                elif found := self._surely_not(member, made):
                    message = f"{name}: {parameter.name} holds {found}; {parameter.takes} is expected"
                    self._refuse(item, message)
            elif (constant := _constant(member)) is not None and not isinstance(constant, str):
                self._refuse(
                    item, f"{name}: {parameter.name} holds {constant!r}, not a text", f'write "{constant}"'
                )
        if parameter.takes is Takes.ARGV:
            self._argv(name, value)

    def _argv(self, name: str, value: ast.List | ast.Tuple) -> None:
        words = [_constant(self._bound.value(item)) for item in value.elts]
        if words[0] == "":
            self._refuse(value.elts[0], f"{name}: the name of the program is empty")
        texts = [word if isinstance(word, str) else "?" for word in words]
        if any(isinstance(item, ast.Starred) for item in value.elts):
            texts = texts[: next(i for i, item in enumerate(value.elts) if isinstance(item, ast.Starred))]
        place = f"line {value.lineno}"
        self.warnings += [f"{place}: {name}: command: {doubt}" for doubt in argv_doubts(texts)]

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
        repo = _constant(self._bound.value(arguments["repo"])) if "repo" in arguments else None
        if isinstance(repo, str) and gitrules.holds_secret(repo):
            self._refuse(
                arguments["repo"],
                "GitRepo: the URL contains a password or token, which everyone who sees it would read",
                "take it out; the server is given a deploy key or credentials in its settings",
            )
        commit = _constant(self._bound.value(arguments["commit"])) if "commit" in arguments else None
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
        self._problems.add_at(node.lineno, column, message, hint)


def _called(name: str) -> str:
    """The hint for a class that is given without calling it."""
    return f"write {name}({'...' if SIGNATURES[name] else ''})"


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


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
