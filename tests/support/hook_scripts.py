"""Submission hooks of tests: real programs in Python."""

from __future__ import annotations

import sys
from pathlib import Path

from tarmac.server.settings import SubmissionSettings


def hook_script(directory: Path, body: str, *, timeout_s: float = 30.0) -> SubmissionSettings:
    """The settings of a hook whose script has the question in `question` and prints its answer."""
    path = directory / "hook.py"
    path.write_text(f"import json, os, sys, time\nquestion = json.load(sys.stdin)\n{body}\n")
    return SubmissionSettings(hook=(sys.executable, "-S", str(path)), hook_timeout_s=timeout_s)
