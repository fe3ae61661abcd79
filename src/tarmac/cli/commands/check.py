"""`tarmac check` and `tarmac convert`: read run files as the server would, without a server.

The first reports all problems, the second prints an equivalent native run file.
"""

import sys
from pathlib import Path
from typing import Any

import click

from tarmac.artifacts.code.store import missing_image, refuse_unfit, with_own_image
from tarmac.cli import runfile
from tarmac.cli.dialogue import print_error, print_json, print_verbatim, print_warnings, tell, wants_json
from tarmac.cli.lazy import command
from tarmac.dialects.dialect import Extras, Reading
from tarmac.dialects.native.reader import write
from tarmac.model.codec import encode
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.spec import LocalDirectory
from tarmac.systems.registry import check_program, read

INVALID = 2


@command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@runfile.reading_options
def check(*, files: tuple[str, ...], **options: Any) -> None:
    """Check run files of any dialect without a server; exit code 2 when something is wrong.

    FILE may be - for standard input.
    """
    how = runfile.how_of(options)
    findings = [_check(file, how) for file in files]
    if wants_json():
        print_json({"files": findings})
    for finding in findings:
        _report(finding)
    if any(finding["problems"] for finding in findings):
        sys.exit(INVALID)


def _check(file: str, how: runfile.How) -> dict[str, Any]:
    """The report on one file: its problems, its warnings, and a summary of its request."""
    try:
        text = runfile.read_run_file(file)
        report = check_program(text.text, filename=text.filename, dialect=how.dialect)
        if report is not None:
            return {"file": file, "problems": report.found, "warnings": report.warnings, "run": None}
        reading = reading_in(text, how)
        site, code = reading.spec.site, with_own_image(reading.spec).code
        if site is not None and (missing := missing_image(site, directory=text.directory)) is not None:
            raise InvalidInput([Problem(message=missing, file=text.filename)])
        if isinstance(code, LocalDirectory):
            refuse_unfit(code, filename=text.filename)
    except InvalidInput as error:
        return {"file": file, "problems": error.problems, "warnings": [], "run": None}
    shown = {key: value for key, value in encode(reading.spec).items() if key != "source"}
    return {"file": file, "problems": [], "warnings": reading.warnings, "run": shown}


def _report(finding: dict[str, Any]) -> None:
    print_warnings(f"{finding['file']}: {warning}" for warning in finding["warnings"])
    if finding["problems"]:
        print_error(InvalidInput(finding["problems"]))
    else:
        name = "standard input" if finding["file"] == runfile.STDIN else finding["file"]
        if finding["run"] is None:
            tell(f"{name}: ok, a launch script: tarmac launch {name}")
            return
        dialect = finding["run"].get("dialect", "native")
        kind = "a run file" if dialect == "native" else f"a run file ({dialect})"
        tell(f"{name}: ok, {kind} of {finding['run']['name']}")


@command()
@click.argument("file", type=click.Path())
@runfile.reading_options
@click.option("--output", "-o", metavar="FILE", help="Write it to a new file instead of printing it.")
def convert(*, file: str, output: str | None, **options: Any) -> None:
    """Print a run file of any dialect as a native one that runs the same.

    Warnings say what has no counterpart. FILE may be - for standard input.
    """
    try:
        text = runfile.read_run_file(file)
        reading = reading_in(text, runfile.how_of(options))
        native = write(reading.spec, directory=text.directory)
        if output is not None:
            _keep(Path(output), native)
    except InvalidInput as error:
        print_error(error)
        sys.exit(INVALID)
    print_warnings(reading.warnings)
    if wants_json():
        print_json({"file": file, "dialect": reading.spec.dialect, "native": native})
    elif output is None:
        print_verbatim(native)


def _keep(path: Path, native: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(native)
    except FileExistsError:
        raise InvalidInput(f"{path} exists already", hint="name another file, or remove it") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from None


def reading_in(text: runfile.RunText, how: runfile.How) -> Reading:
    """The reading of a text; raises InvalidInput with every problem in it."""
    return read(
        text.text,
        filename=text.filename,
        directory=text.directory,
        dialect=how.dialect,
        extras=Extras(
            files=tuple(runfile.companions(text.directory).items()),
            entry_point=how.entry_point,
            parameters=tuple(how.parameters.items()),
            variables=tuple(runfile.shell_variables().items()),
            changes=tuple(how.changes.items()),
        ),
    )
