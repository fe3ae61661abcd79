"""`tarmac artifacts` and `tarmac datasets`: the files that runs left behind, and the data that runs read."""

from contextlib import closing
from pathlib import Path

import click

from tarmac import api
from tarmac.cli.dialogue import answer, connect, print_list, wants_json
from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import complete_run
from tarmac.cli.views.amounts import age, counted, size
from tarmac.cli.views.bars import BytesBar
from tarmac.cli.views.table import Cell, Column, Table
from tarmac.client.fetching import fetch, selected
from tarmac.model.codec import json_form
from tarmac.model.run_records import Dataset, DatasetState
from tarmac.node.attempt.protocol import ARTIFACT_KINDS


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


ARTIFACTS: Table[api.Artifact] = (
    Column("ID", lambda artifact, _: artifact.id),
    Column("RUN", lambda artifact, _: artifact.run_name, flexible=True),
    Column("KIND", lambda artifact, _: artifact.kind),
    Column("ATTEMPT", lambda artifact, _: artifact.attempt, right=True, optional=True),
    Column("FILES", lambda artifact, _: _files(artifact), right=True),
    Column("SIZE", lambda artifact, _: size(artifact.bytes), right=True),
    Column("KEPT", lambda artifact, now: age(artifact.created_at, now), right=True),
)
_STYLES = {"available": "green", "failed": "red", "caching": "yellow"}
DATASETS: Table[Dataset] = (
    Column("ID", lambda dataset, _: dataset.id),
    Column("STATE", lambda dataset, _: Cell(dataset.state, _STYLES.get(dataset.state))),
    Column("SIZE", lambda dataset, _: _amount(dataset), right=True),
    Column("ADDED", lambda dataset, now: age(dataset.created_at, now), right=True, optional=True),
    Column("FROM", lambda dataset, _: dataset.source, flexible=True),
    Column("WHY", lambda dataset, _: dataset.message),
)


@click.group(cls=Subcommands)
def artifacts() -> None:
    """List, fetch and remove what runs left behind: checkpoints and other files they keep."""


@artifacts.command()
@click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_run)
def ls(*, run: str | None) -> None:
    """List the artifacts of RUN, or of all runs.

    The id of a version is RUN.KIND.NUMBER; a run file may name it, or a run, under input_artifacts.
    """
    empty = "no run has artifacts yet" if run is None else "this run has no artifacts yet"
    print_list("artifacts", connect().artifacts(run), ARTIFACTS, empty=empty)


@artifacts.command()
@click.argument("artifact", metavar="ID|RUN")
@click.argument("path", metavar="[PATH]", required=False)
@click.option(
    "--kind", type=click.Choice(ARTIFACT_KINDS), default="checkpoint", help="Which kind of a RUN's artifacts."
)
@click.option("-o", "--output", metavar="DIR", default=".", help="Where to put it; by default right here.")
def get(*, artifact: str, path: str | None, kind: str, output: str) -> None:
    """Fetch one version: that of an ID, or the latest of a RUN; only PATH of it, if given.

    Fetching again goes on where it was broken off, and fetches nothing that is there already.
    """
    client = connect()
    content = client.artifact(artifact, kind=kind)
    entries = selected(content.entries, path)
    total = sum(entry.bytes for entry in entries)
    with closing(BytesBar.on_stderr(quiet=wants_json())) as bar:
        fetch(client, entries, Path(output), lambda more: bar.add(more, total))
    fetched = {"output": str(Path(output).resolve()), "fetched_bytes": total}
    files = counted(sum(entry.kind == "file" for entry in entries), "file")
    text = f"{content.artifact.id}: {files}, {size(total)} in {output}"
    answer(json_form(content.artifact) | fetched, text)


@artifacts.command()
@click.argument("artifact", metavar="ID")
def rm(*, artifact: str) -> None:
    """Remove one version; refused while a run resumes from it or reads it."""
    gone = connect().remove_artifact(artifact).artifact
    answer(gone, f"{gone.id} is gone")


@click.group(cls=Subcommands)
def datasets() -> None:
    """List, add and remove datasets: data that runs read at /data/<id>."""


@datasets.command("ls")
def ls_datasets() -> None:
    """List the datasets and how far they have come."""
    empty = "there is no dataset; tarmac datasets add ID PATH adds one"
    print_list("datasets", connect().datasets(), DATASETS, empty=empty)


@datasets.command("add")
@click.argument("dataset", metavar="ID")
@click.argument("source", metavar="PATH|URL")
def add_dataset(*, dataset: str, source: str) -> None:
    """Take up a dataset: a directory or file of the server's machine, or a URL that is fetched once.

    A dataset whose fetching failed is tried again.
    """
    if "://" not in source:
        source = str(Path(source).absolute())
    added = connect().add_dataset(dataset, source)
    text = f"{added.id} is being fetched; tarmac datasets ls tells how far it has come"
    if added.state is DatasetState.AVAILABLE:
        text = f"runs that name {added.id} read it at /data/{added.id}"
    answer(added, text)


@datasets.command("rm")
@click.argument("dataset", metavar="ID")
def rm_dataset(*, dataset: str) -> None:
    """Forget a dataset, and what was fetched of it; refused while a run reads it.

    Data that was on the server's machine before stays there.
    """
    gone = connect().remove_dataset(dataset)
    answer(gone, f"{gone.id} is gone")
