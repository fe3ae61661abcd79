"""`tarmac check`: read run files as the server would, without a server, and report all problems."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from tarmac.artifacts.code.present import missing_image, refuse_unfit
from tarmac.cli.options import json_option
from tarmac.cli.output import print_error, print_json, print_text, print_warnings
from tarmac.cli.readfile import reading_in
from tarmac.cli.reading import How, how_of, reading_options
from tarmac.cli.runfile import STDIN, read_run_file
from tarmac.model.codec import encode
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.spec import LocalDirectory, RunSpec
from tarmac.systems.clusterfudge.script import ScriptReport, check_script, is_launch_script

INVALID = 2


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@reading_options
@json_option
def check(*, files: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Check run files of any dialect without a server; exit code 2 when something is wrong.

    FILE may be - for standard input.
    """
    how = how_of(options)
    findings = [_check(file, how) for file in files]
    if as_json:
        print_json({"files": findings})
    for finding in findings:
        _report(finding, quiet=as_json)
    if any(finding["problems"] for finding in findings):
        sys.exit(INVALID)


def _check(file: str, how: How) -> dict[str, Any]:
    """The report on one file: its problems, its warnings, and a summary of its request."""
    try:
        text = read_run_file(file)
        if how.dialect in (None, "clusterfudge") and is_launch_script(text.text):
            return _script(file, check_script(text.text, filename=text.filename))
        reading = reading_in(text, how)
        if isinstance(reading.spec.code, LocalDirectory):
            refuse_unfit(reading.spec.code, filename=text.filename)
    except InvalidInput as error:
        problems = [_problem(item) for item in error.problems]
        return {"file": file, "problems": problems, "warnings": [], "run": None}
    missing = missing_image(reading.spec, directory=text.directory)
    warnings = [*reading.warnings, *([missing] if missing else [])]
    return {"file": file, "problems": [], "warnings": warnings, "run": _spec(reading.spec)}


def _script(file: str, report: ScriptReport) -> dict[str, Any]:
    """The report on a launch script, which is analysed but not run."""
    problems = [_problem(item) for item in report.problems]
    return {"file": file, "problems": problems, "warnings": list(report.warnings), "run": None}


def _spec(spec: RunSpec) -> dict[str, Any]:
    """The spec as the server shows it, without the text."""
    return {key: value for key, value in encode(spec).items() if key != "source"}


def _problem(problem: Problem) -> dict[str, Any]:
    return {name: getattr(problem, name) for name in ("message", "file", "line", "column", "hint")}


def _report(finding: dict[str, Any], *, quiet: bool) -> None:
    print_warnings(f"{finding['file']}: {warning}" for warning in finding["warnings"])
    problems: Sequence[dict[str, Any]] = finding["problems"]
    if problems:
        print_error(InvalidInput([Problem(**item) for item in problems]))
    elif not quiet:
        name = "standard input" if finding["file"] == STDIN else finding["file"]
        if finding["run"] is None:
            print_text(f"{name}: ok, a launch script: tarmac launch {name}")
            return
        dialect = finding["run"].get("dialect", "native")
        kind = "a run file" if dialect == "native" else f"a run file ({dialect})"
        print_text(f"{name}: ok, {kind} of {finding['run']['name']}")
