"""`tarmac files`: list and fetch files in a run's working directory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tarmac import api
from tarmac.cli.options import json_option, run_argument, wants_json
from tarmac.cli.output import answer, print_list, remark
from tarmac.cli.session import connect
from tarmac.cli.views.amounts import age, counted, size
from tarmac.cli.views.table import Cell, Column, Table
from tarmac.client import Client
from tarmac.model.errors import InvalidInput, NotFound

_MARKS = {"directory": "/", "link": "@"}


def _name(file: api.WorkFile) -> Cell:
    return Cell(file.name + _MARKS.get(file.kind, ""), "bold" if file.kind == "directory" else None)


FILES: Table[api.WorkFile] = (
    Column("SIZE", lambda file, _: size(file.bytes) if file.kind == "file" else "", right=True),
    Column("CHANGED", lambda file, now: age(file.modified_at, now), right=True),
    Column("NAME", lambda file, _: _name(file)),
)


@click.command()
@run_argument
@click.argument("path", required=False, default="")
@click.option(
    "--output", "-o", metavar="TARGET", type=click.Path(), help="Fetch the file or directory to here."
)
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Of this attempt, not the newest.")
@click.option("--node", metavar="NAME", help="On this node, not the attempt's first.")
@json_option
def files(*, run: str, path: str, output: str | None, attempt: int | None, node: str | None) -> None:
    """List what lies in the working directory of a run, or in a directory PATH below it; fetch it with -o."""
    client = connect()
    place: dict[str, Any] = {"attempt": attempt, "node": node}
    if output is None:
        found = client.files(run, path, **place)
        empty = "this directory is empty"
        print_list("files", found.files, FILES, empty=empty, document=found)
        if found.more and not wants_json():
            remark("there is more than is listed")
        return
    count = sum(1 for _ in _fetched(client, run, path.strip("/"), Path(output), place))
    answer({"output": output, "files": count}, f"{counted(count, 'file')} to {output}")


def _fetched(client: Client, run: str, path: str, target: Path, place: dict[str, Any]) -> Iterator[Path]:
    """Fetch a file, or a directory recursively, without links and special files. Yields each file."""
    try:
        found = client.files(run, path, **place)
    except NotFound:
        name = path.rpartition("/")[2]
        yield _written(client, run, path, target / name if target.is_dir() else target, place)
        return
    pinned = {"attempt": found.attempt, "node": found.node}
    if found.more:
        remark(f"{path or 'the working directory'} holds more than can be listed: not all of it is fetched")
    for each in found.files:
        name = each.name
        if "/" in name or name in (".", "..") or each.kind not in ("file", "directory"):
            remark(f"left out: {path}/{name} ({each.kind})")
            continue
        below = f"{path}/{name}".lstrip("/")
        if each.kind == "directory":
            yield from _fetched(client, run, below, target / name, pinned)
        else:
            yield _written(client, run, below, target / name, pinned)


def _written(client: Client, run: str, path: str, target: Path, place: dict[str, Any]) -> Path:
    pieces = client.file(run, path, **place)
    first = next(pieces, b"")  # a missing file leaves no empty one
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(first)
            for piece in pieces:
                file.write(piece)
    except FileExistsError:
        raise InvalidInput(f"{target} exists already", hint="name another place with -o") from None
    return target
