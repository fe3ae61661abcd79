"""`tarmac convert`: convert a run file of any dialect to an equivalent native one. Needs no server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tarmac.cli.options import json_option
from tarmac.cli.output import print_error, print_json, print_verbatim, print_warnings
from tarmac.cli.readfile import reading_of
from tarmac.cli.reading import how_of, reading_options
from tarmac.dialects.native.view import write
from tarmac.model.errors import InvalidInput

INVALID = 2


@click.command()
@click.argument("file", type=click.Path())
@reading_options
@click.option("--output", "-o", metavar="FILE", help="Write it to a new file instead of printing it.")
@json_option
def convert(*, file: str, output: str | None, as_json: bool, **options: Any) -> None:
    """Print a run file of any dialect as a native one that runs the same.

    Warnings say what has no counterpart. FILE may be - for standard input.
    """
    try:
        text, reading = reading_of(file, how_of(options))
        native = write(reading.spec, directory=text.directory)
        if output is not None:
            _keep(Path(output), native)
    except InvalidInput as error:
        print_error(error)
        sys.exit(INVALID)
    print_warnings(reading.warnings)
    if as_json:
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
