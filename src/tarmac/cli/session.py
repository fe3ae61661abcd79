"""How commands reach the server: one client per call, created late. Only this module imports `client`."""

from __future__ import annotations

from collections.abc import Sequence

import click

import tarmac
from tarmac.cli.output import remark

LAST = "@last"
"""The newest run, in every reference to a run."""


def connect(*, start: bool = True, server_options: Sequence[str] = ()) -> tarmac.Client:
    """A client for the server of this environment, closed with the command.

    With `start`, starts the user's own server with these options if it is not running.
    """
    from tarmac.cli.views.bars import BytesBar
    from tarmac.client import Client

    bar = BytesBar.on_stderr()
    client = Client(start=start, on_notice=remark, on_upload=bar.show, server_options=server_options)
    if (command := click.get_current_context(silent=True)) is not None:
        command.call_on_close(bar.close)
        command.call_on_close(client.close)
    return client
