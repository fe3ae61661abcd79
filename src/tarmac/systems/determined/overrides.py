"""Values that replace those of the file: `--config resources.slots_per_trial=4`. Called by `reader`, and by
the gateway for runs continued with another configuration.
"""

from collections.abc import Sequence
from typing import Any

from tarmac.dialects.kinds import yaml12
from tarmac.dialects.located import Node, Problems, Scalar, Table, moved
from tarmac.dialects.plain import to_plain
from tarmac.dialects.yaml_tree import compose, compose_table


def values_of(text: str, name: str) -> dict[str, Any]:
    """The values in all or part of a configuration; raises InvalidInput, which calls the text `name`."""
    problems = Problems(name)
    if not text.strip():
        return {}
    tree = compose_table(text, problems, "fields such as 'searcher: ...' are", lenient=True)
    problems.raise_any()
    found: dict[str, Any] = to_plain(tree, yaml12)
    return found


def override_values(tree: Table, changes: Sequence[tuple[str, str]], problems: Problems) -> Table:
    """The tree with each value, a text of YAML, at its dotted path."""
    for path, text in changes:
        tree = _put(tree, path.split("."), _value(path, text, problems))
    return tree


def _value(path: str, text: str, problems: Problems) -> Node:
    if not text.strip():
        return Scalar(text="", quoted=True)
    own = Problems(None)
    found = compose(text, own, lenient=True)
    if found is None:
        # A bare null is a value as well; a text that is not YAML stays text, as in a shell.
        return Scalar(text=text, quoted=not Scalar(text=text).empty)
    if own:
        problems.add(None, f"{path}: {own.found[0].message}")
    return moved(found, None)


def _put(tree: Table, keys: Sequence[str], value: Node) -> Table:
    inner = tree.values.get(keys[0])
    if len(keys) > 1:
        value = _put(inner if isinstance(inner, Table) else Table(entries=()), keys[1:], value)
    changed = tuple((key, value if key.text == keys[0] else item) for key, item in tree.entries)
    if inner is None:
        changed = (*changed, (Scalar(text=keys[0]), value))
    return Table(entries=changed, line=tree.line, column=tree.column)
