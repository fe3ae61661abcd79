"""Renames legacy keys, and moves misplaced keys by one level. Called by the reader.

The meaning of such keys is plain, so an old file works unchanged; a warning names the right place.
"""

from collections.abc import Collection
from dataclasses import replace

from tarmac.dialects.kinds import flag, lenient
from tarmac.dialects.located import Node, Problems, Scalar, Table
from tarmac.dialects.schema import Custom, Field, read_value
from tarmac.dialects.section import Value
from tarmac.systems.mantik.environment import ENVIRONMENT
from tarmac.systems.mantik.fields import record
from tarmac.systems.mantik.resources import RESOURCES

_COMMAND = record(
    {
        "Command": Field(Custom(lambda value: value.node), words="cmd", required="say what is run"),
        "ExecuteOnLoginNode": flag(lenient),
    }
)
_LEGACY_COMMANDS = ("PreRunCommand", "PostRunCommand")


def update_keys(tree: Table, problems: Problems) -> Table:
    """The configuration with every key in its current place; reports problems in legacy keys."""
    for key, _ in tree.entries:
        if key.text == "DockerImage":  # the first version built an Apptainer image from it
            problems.warn(
                key,
                "DockerImage: no image is made of it here: the application runs without; "
                "build an Apptainer image of it and name that in 'Environment.Apptainer.Path'",
            )
    tree = replace(tree, entries=tuple(entry for entry in tree.entries if entry[0].text != "DockerImage"))
    tree = _moved_down(tree, [*ENVIRONMENT[False].fields, *_LEGACY_COMMANDS], "Environment", problems)
    tree = _moved_down(tree, RESOURCES[False].fields, "Resources", problems)
    inside = tree.values.get("Environment")
    if not isinstance(inside, Table):
        return tree
    for image in ("Apptainer", "Singularity"):
        if isinstance(inside.values.get(image), Table):
            inside = _moved_down(inside, ["Options"], image, problems, below="Environment.")
    inside = _with_commands(inside, problems)
    entries = ((key, inside if key.text == "Environment" else node) for key, node in tree.entries)
    return replace(tree, entries=tuple(entries))


def _with_commands(inside: Table, problems: Problems) -> Table:
    """`PreRunCommand: {Command, ExecuteOnLoginNode}` under the key of the node where it runs."""
    entries: list[tuple[Scalar, Node]] = []
    for key, node in inside.entries:
        if key.text not in _LEGACY_COMMANDS or (isinstance(node, Scalar) and node.empty):
            entries.append((key, node))
            continue
        path, found = f"Environment.{key.text}", {"Command": node}
        if isinstance(node, Table):
            found = read_value(Value(node, path, problems), _COMMAND)
        if "Command" not in found:
            continue
        today = f"{key.text}On{'Login' if found.get('ExecuteOnLoginNode') else 'Compute'}Node"
        if inside.values.get(today) is not None:
            message = f"Environment: {key.text} cannot stand beside '{today}'"
            problems.add(key, message, "keep the one of today")
            continue
        problems.warn(key, f"{path}: this is now '{today}'; it is read as that")
        entries.append((replace(key, text=today), found["Command"]))
    return replace(inside, entries=tuple(entries))


def _moved_down(
    tree: Table, keys: Collection[str], into: str, problems: Problems, *, below: str = ""
) -> Table:
    """The tree with keys of these names moved into one of its mappings, unless that has them already."""
    inner = tree.values.get(into)
    if inner is not None and not isinstance(inner, Table) and not (isinstance(inner, Scalar) and inner.empty):
        return tree
    present = inner.entries if isinstance(inner, Table) else ()
    taken = {key.text for key, _ in present}
    moved = [(key, node) for key, node in tree.entries if key.text in keys and key.text not in taken]
    if not moved:
        return tree
    for key, _ in moved:
        text = f"{below}{key.text}: it belongs into '{below}{into}', and is read as if it stood there"
        problems.warn(key, text)
    first, gone = moved[0][0], {key.text for key, _ in moved}
    part = Table(
        entries=(*present, *moved),
        line=inner.line if inner else first.line,
        column=inner.column if inner else 1,
    )
    entries = [
        (key, part if key.text == into else node) for key, node in tree.entries if key.text not in gone
    ]
    if inner is None:
        entries.append((replace(first, text=into), part))
    return replace(tree, entries=tuple(entries))
