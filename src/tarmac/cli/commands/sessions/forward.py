"""`tarmac port-forward`: forward ports of this machine to ports beside a worker."""

from __future__ import annotations

import sys
from typing import Any

import click

from tarmac.cli.commands.sessions.exec import worker_options
from tarmac.cli.forwarding import HERE, Forward
from tarmac.cli.options import run_argument
from tarmac.cli.output import remark
from tarmac.cli.session import connect
from tarmac.cli.views.messages import state_of
from tarmac.model.errors import Refused

LARGEST_PORT = 65_535


def ports_of(text: str) -> tuple[int, int]:
    """`PORT` or `LOCAL:PORT`, as two numbers."""
    local, colon, port = text.rpartition(":")
    numbers = (local if colon else port, port)
    if not all(number.isdecimal() and int(number) <= LARGEST_PORT for number in numbers) or int(port) == 0:
        raise click.BadParameter(f"{text!r} is not PORT or LOCAL:PORT, numbers up to {LARGEST_PORT}")
    return int(numbers[0]), int(port)


@click.command("port-forward")
@run_argument
@click.argument("ports", nargs=-1, required=True, type=ports_of, metavar="[LOCAL:]PORT...")
@worker_options
def port_forward(*, run: str, ports: tuple[tuple[int, int], ...], **worker: Any) -> None:
    """Reach ports beside a worker of a run from this machine, until Ctrl-C or the end of the run.

    LOCAL is the port here, the same as there if left out, any free one if 0. Only this machine can connect.

    \b
    tarmac port-forward digits 6006
    tarmac port-forward digits 9000:8888
    """
    client = connect()
    record = client.run(run)
    if record["state"] == "ended":
        raise Refused(f"run {record['name']} ({record['id']}) has ended: there is nothing to connect to")
    chosen = {name: value for name, value in worker.items() if value is not None}
    forwards = [Forward(client, local=local, instead=f"LOCAL:{port}") for local, port in ports]
    for forward, (_, port) in zip(forwards, ports, strict=True):
        forward.start(record["id"], port, **chosen)
        remark(f"http://{HERE}:{forward.local} leads to port {port} of {record['name']} ({record['id']})")
    ended = client.wait(record["id"])
    remark(f"{ended['name']} ({ended['id']}) is {state_of(ended)}")
    sys.exit(0)
