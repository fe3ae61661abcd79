"""Changes a run file by path, as in `tarmac run --set resources.cpus=4`, before the reader checks it.

Called by the native reader with the tree of its text. A changed value has the change as its origin, not a
line, so messages name `--set resources.cpus`. The reader checks whether a run file has such a path.
"""

from collections.abc import Sequence
from dataclasses import replace

from tarmac.dialects.located import Items, Node, Scalar, Table, quote
from tarmac.dialects.problems import Problems
from tarmac.dialects.yaml_tree import compose
from tarmac.model.errors import InvalidInput

Changes = Sequence[tuple[str, str]]
"""Dotted paths, each with the text of a YAML value; the last of equal paths counts."""


def change(tree: Table, changes: Changes, problems: Problems) -> Table:
    """The tree with these values at these paths; reports a path that does not exist as a problem."""
    for path, text in changes:
        origin = f"--set {path}"
        value = _value(text, origin, problems)
        if value is None:
            continue
        parts = path.split(".")
        if "" in parts:
            _refuse(problems, origin, "a path has no empty part", "such as resources.cpus")
            continue
        try:
            changed = _with(tree, _as_written(tree, parts), value, origin)
        except InvalidInput as error:
            _refuse(problems, origin, error.message, error.hint)
            continue
        assert isinstance(changed, Table), "a mapping stays one"
        tree = changed
    return tree


def _value(text: str, origin: str, problems: Problems) -> Node | None:
    """The YAML value of a text; None, with a problem reported, if the text is not one."""
    if not text.strip():
        return Scalar(text="", origin=origin)
    own = Problems(origin)
    node = compose(text, own)
    if node is None and not own.found:
        return Scalar(text="", origin=origin)
    for problem in own.found:
        _refuse(problems, origin, problem.message, problem.hint or "quote a text that YAML reads otherwise")
    return None if node is None else _moved(node, origin)


def _moved(node: Node, origin: str) -> Node:
    """The same value with the change as its origin."""
    if isinstance(node, Items):
        items = tuple(_moved(item, origin) for item in node.items)
        return Items(items=items, origin=origin)
    if isinstance(node, Table):
        entries = tuple((_key(key.text, origin), _moved(item, origin)) for key, item in node.entries)
        return Table(entries=entries, origin=origin)
    return replace(node, line=None, column=None, origin=origin)


def _as_written(tree: Table, parts: list[str]) -> list[str]:
    """The path, where variables are named by the one of the two field names that the file uses."""
    if parts[:2] == _VARIABLES and "env" in tree.values:
        return ["env", *parts[2:]]
    environment = tree.values.get("environment")
    if parts[0] == "env" and isinstance(environment, Table) and "variables" in environment.values:
        return parts if "env" in tree.values else [*_VARIABLES, *parts[1:]]
    return parts


_VARIABLES = ["environment", "variables"]


def _with(node: Node | None, parts: Sequence[str], value: Node, origin: str) -> Node:
    """The node with the value at a path below it; creates the mappings that are missing on the way.

    Raises InvalidInput for a path into a value without parts, or beyond the end of a list.
    """
    if not parts:
        return value
    part, rest = parts[0], parts[1:]
    if node is None or (isinstance(node, Scalar) and node.empty):
        node = Table(entries=(), origin=origin)
    if isinstance(node, Items):
        return _with_item(node, part, rest, value, origin)
    if isinstance(node, Scalar):
        raise InvalidInput(f"{quote(node)} stands before {part!r}, and has no parts")
    if part not in node.values:
        added = _with(None, rest, value, origin)
        return replace(node, entries=(*node.entries, (_key(part, origin), added)))
    entries = tuple(
        (key, _with(item, rest, value, origin) if key.text == part else item) for key, item in node.entries
    )
    return replace(node, entries=entries)


def _with_item(node: Items, part: str, rest: Sequence[str], value: Node, origin: str) -> Node:
    count = len(node.items)
    if not (part.isascii() and part.isdigit()) or int(part) > count:
        hint = f"write a number from 0 to {count}; {count} adds one"
        raise InvalidInput(f"{part!r} is no place in a list of {count}", hint=hint)
    at = int(part)
    items = list(node.items)
    items[at : at + 1] = [_with(items[at] if at < count else None, rest, value, origin)]
    return replace(node, items=tuple(items))


def _key(text: str, origin: str) -> Scalar:
    return Scalar(text=text, quoted=True, origin=origin)


def _refuse(problems: Problems, origin: str, message: str, hint: str | None) -> None:
    problems.add(Scalar(text="", origin=origin), message, hint)
