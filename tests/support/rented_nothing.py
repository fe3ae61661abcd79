"""A provider whose machines are never free, and two shapes of it, for tests of a real server."""

from __future__ import annotations

from shell import Shell
from tarmac.client import Client
from tarmac.model.burst.shapes import Shape

WORDS = "no machine of this kind is free"


def rent_nothing(owner: Shell, client: Client) -> None:
    """Add the provider `lab` and its shapes."""
    script = owner.write("create.sh", f'echo "{WORDS}" >&2\nexit 10\n')
    commands = {"create": f"sh {owner.directory / script}", "list": "echo []", "delete": "true"}
    client.add_provider("lab", "machines", commands)
    small = Shape(
        id="lab-small",
        provider="lab",
        region="here",
        machine="small",
        slots=2,
        rate=0.12,
        credits=0.5,
        rated_on="2026-11-01",
    )
    big = Shape(
        id="lab-h100",
        provider="lab",
        region="there",
        machine="big",
        processor="EPYC <b>9654</b>",
        slots=8,
        slot_type="h100",
        spot=True,
        rate=19.6,
        rated_on="2026-10-31",
    )
    client.set_shapes([small, big])
