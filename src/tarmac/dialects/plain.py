"""A located tree as plain JSON, for values that a run passes on unchanged: parameters, facts, metadata.

Used by readers. Bare words are read as in YAML 1.1 (numbers, true, null) or by a function of the dialect; a
value without a form in JSON, such as a date, stays text.
"""

import math
from collections.abc import Callable
from typing import Any

import yaml

from tarmac.dialects.located import Items, Node, Scalar, Table

_LONGEST_NUMBER = 400
_CONVERTED = frozenset({"bool", "int", "float", "null"})


def yaml11(node: Scalar) -> Any:
    """The JSON value of a scalar in YAML 1.1: `yes` is true, `1e-4` a text."""
    if node.quoted:
        return node.text
    if node.empty:
        return None
    tag = str(_RESOLVER.resolve(yaml.ScalarNode, node.text, (True, False))).rpartition(":")[2]
    if tag not in _CONVERTED or len(node.text) > _LONGEST_NUMBER:
        return node.text
    try:
        value = _RESOLVER.construct_object(yaml.ScalarNode(f"tag:yaml.org,2002:{tag}", node.text), deep=True)
    except (ValueError, yaml.YAMLError):
        return node.text
    return node.text if isinstance(value, float) and not math.isfinite(value) else value


def to_plain(node: Node, scalar: Callable[[Scalar], Any] = yaml11) -> Any:
    """The JSON value of a node; `scalar` reads bare words."""
    if isinstance(node, Table):
        return {key.text: to_plain(value, scalar) for key, value in node.entries}
    if isinstance(node, Items):
        return [to_plain(item, scalar) for item in node.items]
    return scalar(node)


def to_yaml(value: Any) -> str:
    """JSON values as YAML text in blocks; its texts read back unchanged."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=100
    )
    return text


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 PyYAML's
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value and value.strip() and not value[0].isspace() else None
    if any(mark in value for mark in "\x85\u2028\u2029\ufeff"):
        style = '"'  # YAML line ends: only an escape preserves them
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _list(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.SequenceNode:
    """A list of short words on one line."""
    short = all(not isinstance(item, (list, dict)) and "\n" not in str(item) for item in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=short)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)
_RESOLVER: Any = yaml.SafeLoader("")
