"""How commands reach the server: one client per call, made late. Only this module imports `client`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tarmac.cli.output import remark

if TYPE_CHECKING:
    from tarmac.client import Client

LAST = "@last"
"""The newest run, wherever the server is asked for a run."""


def connect(*, start: bool = True, server_options: Sequence[str] = ()) -> Client:
    """A client for the server of this environment, closed with the command.

    The user's own server is started if need be, with these options, unless told not to.
    """
    from tarmac.cli.views.bars import UploadBar
    from tarmac.client import Client

    bar = UploadBar()
    client = Client(start=start, on_notice=remark, on_upload=bar, server_options=server_options)
    if (command := click.get_current_context(silent=True)) is not None:
        command.call_on_close(bar.close)
        command.call_on_close(client.close)
    return client
