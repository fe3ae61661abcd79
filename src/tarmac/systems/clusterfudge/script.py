"""Checks launch scripts without running them: certain problems, and warnings about likely ones.

Called by `tarmac check`, and by the dialect to recognise a script given as a run file. Only literal values in
the script are checked; the server checks computed ones.
"""

import ast
import re
import warnings as python_warnings
from dataclasses import dataclass

from tarmac.dialects.problems import Problems
from tarmac.model.errors import Problem
from tarmac.systems.clusterfudge.calls import Calls

LARGEST_CHARACTERS = 1 << 18

_IMPORT = re.compile(
    r"^[ \t]*(import[ \t]+([\w., \t]*[, \t])?(tarmac\.)?clusterfudge\b"
    r"|from[ \t]+(tarmac\.)?clusterfudge(\.\w+)?[ \t]+import\b"
    r"|from[ \t]+tarmac[ \t]+import[ \t(]+[\w, \t]*\bclusterfudge\b)",
    re.MULTILINE | re.ASCII,
)
_LAUNCHES = re.compile(r"\b(create_launch|CreateLaunchRequest)\b", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptReport:
    """The problems and warnings of a script."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


def is_launch_script(text: str) -> bool:
    """Whether a text is a Python program that makes Clusterfudge launches."""
    return bool(_IMPORT.search(text) and _LAUNCHES.search(text))


def check_script(text: str, *, filename: str) -> ScriptReport:
    """Every problem of a launch script that is visible without running it."""
    problems = Problems(filename)
    if len(text) > LARGEST_CHARACTERS:
        message = f"the script has {len(text):,} characters; {LARGEST_CHARACTERS:,} are looked through"
        return ScriptReport(warnings=(message,))
    try:
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("ignore")  # not our warning: an odd escape in the user's text
            tree = ast.parse(text)
    except SyntaxError as error:
        problems.add_at(error.lineno or 1, max(error.offset or 1, 1), f"this is not Python: {error.msg}")
        return ScriptReport(problems=tuple(problems.found))
    except (ValueError, RecursionError, MemoryError) as error:
        problems.add_at(None, None, f"this is not Python: {error or 'nested too deep'}")
        return ScriptReport(problems=tuple(problems.found))
    calls = Calls(tree, text, problems)
    calls.check()
    found = sorted(problems.found, key=lambda problem: (problem.line or 0, problem.column or 0))
    return ScriptReport(problems=tuple(found), warnings=tuple(calls.warnings))
