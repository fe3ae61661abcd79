"""`tarmac artifacts`: list, fetch and remove the artifacts of runs."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import complete_run, json_option
from tarmac.cli.output import print_json, print_text, remark
from tarmac.cli.session import connect
from tarmac.cli.views.amounts import size
from tarmac.cli.views.artifactview import artifact_table
from tarmac.cli.views.bars import BytesBar
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.client.fetching import fetch, selected
from tarmac.model.codec import json_form

KINDS = ("checkpoint", "crud", "lossy", "log")


@click.group(cls=Subcommands)
def artifacts() -> None:
    """List, fetch and remove what runs left behind: checkpoints and other files they keep."""


@artifacts.command()
@click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_run)
@json_option
def ls(*, run: str | None, as_json: bool) -> None:
    """List the artifacts of RUN, or of all runs.

    The id of a version is RUN.KIND.NUMBER; a run file may name it, or a run, under input_artifacts.
    """
    found = connect().artifacts(run)
    if as_json:
        print_json({"artifacts": found})
    elif found:
        print_text(artifact_table(found, stdout_terminal(), now=time.time()))
    else:
        remark("no run has artifacts yet" if run is None else "this run has no artifacts yet")


@artifacts.command()
@click.argument("artifact", metavar="ID|RUN")
@click.argument("path", metavar="[PATH]", required=False)
@click.option(
    "--kind", type=click.Choice(KINDS), default="checkpoint", help="Which kind of a RUN's artifacts."
)
@click.option("-o", "--output", metavar="DIR", default=".", help="Where to put it; by default right here.")
@json_option
def get(*, artifact: str, path: str | None, kind: str, output: str, as_json: bool) -> None:
    """Fetch one version: that of an ID, or the latest of a RUN; only PATH of it, if given.

    Fetching again goes on where it was broken off, and fetches nothing that is there already.
    """
    client = connect()
    content = client.artifact(artifact, kind=kind)
    entries = selected(content.entries, path)
    total = sum(entry.bytes for entry in entries)
    done = 0
    with BytesBar.on_stderr(quiet=as_json) as bar:

        def progress(more: int) -> None:
            nonlocal done
            done += more
            bar.show(done, total)

        fetch(client, entries, Path(output), progress)
    if as_json:
        fetched = {"output": str(Path(output).resolve()), "fetched_bytes": total}
        print_json(json_form(content.artifact) | fetched)
    else:
        count = sum(entry.kind == "file" for entry in entries)
        files = "1 file" if count == 1 else f"{count} files"
        print_text(f"{content.artifact.id}: {files}, {size(total)} in {output}")


@artifacts.command()
@click.argument("artifact", metavar="ID")
@json_option
def rm(*, artifact: str, as_json: bool) -> None:
    """Remove one version; refused while a run resumes from it or reads it."""
    gone = connect().remove_artifact(artifact).artifact
    if as_json:
        print_json(gone)
    else:
        print_text(f"{gone.id} is gone")
