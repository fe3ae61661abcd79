"""`tarmac datasets`: add, list and remove data that runs read at /data/<id>."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import json_option
from tarmac.cli.output import print_json, print_text, remark
from tarmac.cli.session import connect
from tarmac.cli.views.artifactview import dataset_table
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.model.dataset import DatasetState


@click.group(cls=Subcommands)
def datasets() -> None:
    """List, add and remove datasets: data that runs read at /data/<id>."""


@datasets.command()
@json_option
def ls(*, as_json: bool) -> None:
    """List the datasets and how far they have come."""
    known = connect().datasets()
    if as_json:
        print_json({"datasets": known})
    elif known:
        print_text(dataset_table(known, stdout_terminal(), now=time.time()))
    else:
        remark("there is no dataset; tarmac datasets add ID PATH adds one")


@datasets.command()
@click.argument("dataset", metavar="ID")
@click.argument("source", metavar="PATH|URL")
@json_option
def add(*, dataset: str, source: str, as_json: bool) -> None:
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


@datasets.command()
@click.argument("dataset", metavar="ID")
@json_option
def rm(*, dataset: str, as_json: bool) -> None:
    """Forget a dataset, and what was fetched of it; refused while a run reads it.

    Data that was on the server's machine before stays there.
    """
    gone = connect().remove_dataset(dataset)
    if as_json:
        print_json(gone)
    else:
        print_text(f"{gone.id} is gone")
