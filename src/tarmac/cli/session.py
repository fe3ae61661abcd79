"""How commands reach the server: one client per call, made late. The only module here that imports `client`.

`@last` is resolved here; ids, their prefixes and names are the server's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tarmac.cli.output import remark
from tarmac.model.errors import NotFound

if TYPE_CHECKING:
    from tarmac.client import Client

LAST = "@last"
"""The newest run, wherever a run is asked for."""


def connect(*, start: bool = True, server_options: Sequence[str] = ()) -> Client:
    """A client for the server of this environment, closed with the command.

    The user's own server is started if need be, with these options, unless told not to.
    """
    from tarmac.cli.bars import UploadBar
    from tarmac.client import Client

    bar = UploadBar()
    client = Client(start=start, on_notice=remark, on_upload=bar, server_options=server_options)
    if (command := click.get_current_context(silent=True)) is not None:
        command.call_on_close(bar.close)
        command.call_on_close(client.close)
    return client


def resolve(client: Client, reference: str) -> str:
    """`reference` as the server understands it."""
    if reference != LAST:
        return reference
    runs = client.runs(limit=1)["runs"]
    if not runs:
        raise NotFound("there is no run yet", hint="tarmac run -- echo hello makes one")
    return runs[0]["id"]


def references(client: Client, given: tuple[str, ...]) -> list[str]:
    """Several of them, in order, each once."""
    return list(dict.fromkeys(resolve(client, reference) for reference in given))
