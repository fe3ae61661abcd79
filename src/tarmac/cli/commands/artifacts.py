"""`tarmac artifacts` and `tarmac datasets`: the files that runs left behind, and the data that runs read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import complete_run, json_option
from tarmac.cli.output import print_json, print_text, remark
from tarmac.cli.session import connect
from tarmac.cli.views.amounts import age, size
from tarmac.cli.views.bars import BytesBar
from tarmac.cli.views.table import Cell, heads, render
from tarmac.cli.views.terminal import Terminal, stdout_terminal
from tarmac.client.fetching import fetch, selected
from tarmac.model.codec import json_form
from tarmac.model.dataset import Dataset, DatasetState

if TYPE_CHECKING:
    from tarmac import api

KINDS = ("checkpoint", "crud", "lossy", "log")

_ARTIFACTS = heads(
    "ID, RUN, KIND, ATTEMPT, FILES, SIZE, KEPT",
    right="ATTEMPT, FILES, SIZE, KEPT",
    flexible="RUN",
    optional="ATTEMPT",
)
_DATASETS = heads("ID, STATE, SIZE, ADDED, FROM, WHY", right="SIZE, ADDED", flexible="FROM", optional="ADDED")
_STYLES = {"available": "green", "failed": "red", "caching": "yellow"}


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
        print_text(_artifact_table(found, stdout_terminal(), now=time.time()))
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


@click.group(cls=Subcommands)
def datasets() -> None:
    """List, add and remove datasets: data that runs read at /data/<id>."""


@datasets.command("ls")
@json_option
def ls_datasets(*, as_json: bool) -> None:
    """List the datasets and how far they have come."""
    known = connect().datasets()
    if as_json:
        print_json({"datasets": known})
    elif known:
        print_text(_dataset_table(known, stdout_terminal(), now=time.time()))
    else:
        remark("there is no dataset; tarmac datasets add ID PATH adds one")


@datasets.command("add")
@click.argument("dataset", metavar="ID")
@click.argument("source", metavar="PATH|URL")
@json_option
def add_dataset(*, dataset: str, source: str, as_json: bool) -> None:
    """Take up a dataset: a directory or file of the server's machine, or a URL that is fetched once.

    A dataset whose fetching failed is tried again.
    """
    if "://" not in source:
        source = str(Path(source).absolute())
    added = connect().add_dataset(dataset, source)
    if as_json:
        print_json(added)
    elif added.state is DatasetState.AVAILABLE:
        print_text(f"runs that name {added.id} read it at /data/{added.id}")
    else:
        print_text(f"{added.id} is being fetched; tarmac datasets ls tells how far it has come")


@datasets.command("rm")
@click.argument("dataset", metavar="ID")
@json_option
def rm_dataset(*, dataset: str, as_json: bool) -> None:
    """Forget a dataset, and what was fetched of it; refused while a run reads it.

    Data that was on the server's machine before stays there.
    """
    gone = connect().remove_dataset(dataset)
    if as_json:
        print_json(gone)
    else:
        print_text(f"{gone.id} is gone")


def _artifact_table(artifacts: Sequence[api.Artifact], terminal: Terminal, *, now: float) -> str:
    """A table with a line for each version."""
    rows = (
        (
            artifact.id,
            artifact.run_name or "",
            artifact.kind,
            str(artifact.attempt),
            _files(artifact),
            size(artifact.bytes),
            age(artifact.created_at, now),
        )
        for artifact in artifacts
    )
    return render(_ARTIFACTS, rows, terminal)


def _dataset_table(datasets: Sequence[Dataset], terminal: Terminal, *, now: float) -> str:
    """A table with a line for each dataset."""
    rows = (
        (
            dataset.id,
            Cell(dataset.state, _STYLES.get(dataset.state)),
            _amount(dataset),
            age(dataset.created_at, now),
            dataset.source,
            dataset.message or "",
        )
        for dataset in datasets
    )
    return render(_DATASETS, rows, terminal)


def _files(artifact: api.Artifact) -> str:
    """The number of files, and how many incomplete ones were left out."""
    left_out = len(artifact.left_out)
    return f"{artifact.files} ({left_out} left out)" if left_out else str(artifact.files)


def _amount(dataset: Dataset) -> str:
    """The amount fetched so far; empty for data that is used in place."""
    done, total = dataset.done_bytes, dataset.total_bytes
    if dataset.state == "caching" and total:
        return f"{size(done)} of {size(total)}"
    return size(done) if done else ""
