"""Scalars as YAML 1.2 has them: `1e-4` is a number, `yes` a word. Used by `walk` and by free sections.

Determined's own command line reads configurations so; tarmac's other YAML readers keep words as they are.
"""

from __future__ import annotations

import math
import re
from typing import Any

from tarmac.dialects.located import Node, Scalar
from tarmac.dialects.plain import to_plain

_LONGEST_NUMBER = 100
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_DECIMAL = re.compile(r"[-+]?[0-9][0-9_]*", re.ASCII)
_BASED = re.compile(r"[-+]?0(x[0-9a-fA-F_]+|o[0-7_]+|b[01_]+)", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?([0-9][0-9_]*\.[0-9_]*([eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+|\.[0-9][0-9_]*([eE][-+]?[0-9]+)?)",
    re.ASCII,
)


def value_of(scalar: Scalar) -> Any:
    """The JSON value of a scalar. What JSON cannot hold (infinity, dates) stays the text it is."""
    text = scalar.text
    if scalar.quoted:
        return text
    if scalar.empty:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if len(text) > _LONGEST_NUMBER:
        return text
    try:
        if _DECIMAL.fullmatch(text):
            return int(text.replace("_", ""))
        if _BASED.fullmatch(text):
            return int(text.replace("_", ""), 0)
        if _FLOAT.fullmatch(text):
            found = float(text.replace("_", ""))
            return found if math.isfinite(found) else text
    except ValueError:
        return text
    return text


def plain(node: Node) -> Any:
    """The JSON value of a whole tree."""
    return to_plain(node, value_of)
