"""`tarmac jupyter`: run JupyterLab in a run of its own, reachable from this machine only."""

import re
import secrets
import signal
import sys
from typing import Any

import click

from tarmac.cli.commands.sessions.forward import HERE, Forward
from tarmac.cli.commands.sessions.shell import NotStarted, begin, own_run, own_run_options, sit
from tarmac.cli.output import remark
from tarmac.cli.session import connect

_LAB = r"""
read -r JUPYTER_TOKEN; export JUPYTER_TOKEN
if ! command -v jupyter-lab > /dev/null; then
  echo "jupyter-lab is not installed where this run is (PATH $PATH): pip install jupyterlab" >&2
  exit 127
fi
[ "$(id -u)" != 0 ] || set -- --allow-root
exec jupyter-lab --no-browser --ip=127.0.0.1 --port=0 "$@"
"""
"""The token comes through standard input: all users of a node see arguments, and every user reads logs."""

_ADDRESS = re.compile(rb"http://127\.0\.0\.1:(\d+)/")


@click.command()
@own_run_options
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="N",
    help="The port here; any free one by default.",
)
def jupyter(*, port: int, **options: Any) -> None:
    """Run JupyterLab in a run of its own, and print the URL by which this machine reaches it.

    It begins in a copy of the current directory. Ctrl-C ends it, and its run with it.

    \b
    tarmac jupyter --slots 1
    """
    client = connect()
    forward = Forward(client, local=port, instead="--port")
    token = secrets.token_urlsafe(24)
    try:
        run_id = begin(client, "jupyter", own_run({**options, "slots": options["slots"] or 0}))
    except NotStarted as end:
        sys.exit(end.code)
    seen = bytearray()

    def listen(data: bytes) -> None:
        """Wait for the address, which JupyterLab prints once it listens."""
        if len(seen) > _MOST_BYTES:
            return
        seen.extend(data)
        found = _ADDRESS.search(seen)
        if found is not None:
            seen.extend(bytes(_MOST_BYTES))
            forward.start(run_id, int(found[1]))
            remark(f"JupyterLab is at http://{HERE}:{forward.local}/lab?token={token}")

    code = sit(
        client,
        run_id,
        ("sh", "-c", _LAB),
        terminal=False,
        typed=f"{token}\n".encode(),
        interrupt=signal.SIGTERM,
        listener=listen,
    )
    sys.exit(code)


_MOST_BYTES = 1 << 20
