"""Renames legacy keys, and moves misplaced keys by one level. Called by the reader.

The meaning of such keys is plain, so an old file works unchanged; a warning names the right place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tarmac.dialects.kinds import flag, lenient
from tarmac.dialects.located import Node, Scalar, Table
from tarmac.dialects.problems import Problems
from tarmac.dialects.section import Fields, Value
from tarmac.systems.mantik.fields import CONFIG, ENVIRONMENT, RESOURCES, known_part

_COMMAND = Fields(known=frozenset({"Command", "ExecuteOnLoginNode"}), synonyms={"cmd": "Command"})
_LEGACY_COMMANDS = ("PreRunCommand", "PostRunCommand")
_OF_IMAGES = ("Apptainer", "Singularity")


def update_keys(tree: Table, problems: Problems) -> Table:
    """The configuration with every key in its current place; reports problems in legacy keys."""
    tree = _without_docker(tree, problems)
    tree = _moved_down(tree, ENVIRONMENT.known | {*_LEGACY_COMMANDS}, "Environment", problems)
    tree = _moved_down(tree, RESOURCES.known, "Resources", problems)
    inside = tree.values.get("Environment")
    if not isinstance(inside, Table):
        return tree
    for image in _OF_IMAGES:
        if isinstance(inside.values.get(image), Table):
            inside = _moved_down(inside, frozenset({"Options"}), image, problems, below="Environment.")
    return _with(tree, "Environment", _with_commands(inside, problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Renamed:
    """A command of a legacy key, under the current key."""

    key: Scalar
    command: Node


def _with_commands(inside: Table, problems: Problems) -> Table:
    """`PreRunCommand: {Command, ExecuteOnLoginNode}` under the key of the node where it runs."""
    entries: list[tuple[Scalar, Node]] = []
    for key, node in inside.entries:
        if key.text not in _LEGACY_COMMANDS or (isinstance(node, Scalar) and node.empty):
            entries.append((key, node))
            continue
        renamed = _renamed(key, node, problems)
        if renamed is None:
            continue
        if inside.values.get(renamed.key.text) is not None:
            problems.add(key, f"Environment: {key.text} cannot stand beside '{renamed.key.text}'", _BOTH)
            continue
        problems.warn(key, f"Environment.{key.text}: this is now '{renamed.key.text}'; it is read as that")
        entries.append((renamed.key, renamed.command))
    return replace(inside, entries=tuple(entries))


def _renamed(key: Scalar, node: Node, problems: Problems) -> _Renamed | None:
    """The command, by default on the compute node; None, with a problem reported, if it is invalid."""
    path = f"Environment.{key.text}"
    if not isinstance(node, Table):
        return _Renamed(key=replace(key, text=f"{key.text}OnComputeNode"), command=node)
    parts = known_part(Value(node, path, problems), _COMMAND)
    assert parts is not None, "it is a mapping"
    on_login = parts.read("ExecuteOnLoginNode", flag(lenient), False)
    command = parts.get("Command")
    if command is None:
        if "Command" not in parts.suggestions:
            parts.missing("Command", "say what is run")
        return None
    where = "Login" if on_login else "Compute"
    return _Renamed(key=replace(key, text=f"{key.text}On{where}Node"), command=command.node)


def _without_docker(tree: Table, problems: Problems) -> Table:
    """Drops `DockerImage` of the first version, which built an Apptainer image from it."""
    for key, _ in tree.entries:
        if key.text == "DockerImage":
            problems.warn(
                key,
                "DockerImage: no image is made of it here: the application runs without; "
                "build an Apptainer image of it and name that in 'Environment.Apptainer.Path'",
            )
    return replace(tree, entries=tuple(entry for entry in tree.entries if entry[0].text != "DockerImage"))


def _moved_down(
    tree: Table, keys: frozenset[str], into: str, problems: Problems, *, below: str = ""
) -> Table:
    """The tree with keys of these names moved into one of its mappings, unless that has them already."""
    inner = tree.values.get(into)
    if inner is not None and not isinstance(inner, Table) and not (isinstance(inner, Scalar) and inner.empty):
        return tree
    present: Sequence[tuple[Scalar, Node]] = inner.entries if isinstance(inner, Table) else ()
    taken = {key.text for key, _ in present}
    moved = [(key, node) for key, node in tree.entries if key.text in keys - taken - CONFIG.known]
    if not moved:
        return tree
    for key, _ in moved:
        problems.warn(
            key, f"{below}{key.text}: it belongs into '{below}{into}', and is read as if it stood there"
        )
    gone = {key.text for key, _ in moved}
    first = moved[0][0]
    part = Table(
        entries=(*present, *moved),
        line=inner.line if inner else first.line,
        column=inner.column if inner else 1,
    )
    rest = replace(tree, entries=tuple(entry for entry in tree.entries if entry[0].text not in gone))
    return _with(rest, into, part) if inner is not None else _added(rest, first, into, part)


def _added(tree: Table, at: Scalar, name: str, part: Table) -> Table:
    return replace(tree, entries=(*tree.entries, (replace(at, text=name), part)))


def _with(tree: Table, name: str, part: Table) -> Table:
    return replace(
        tree, entries=tuple((key, part if key.text == name else node) for key, node in tree.entries)
    )


_BOTH = "keep the one of today"
