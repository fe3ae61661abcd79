"""The settings of a Ray cluster, checked without any effect. Called by `kind`."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tarmac.model.errors import InvalidInput
from tarmac.model.kinds import setting_values as values

_ADDRESS = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")

LEAST_LEASE_S = 15
DEFAULT_LEASE_S = 600.0
_LEASE = f"of at least {LEAST_LEASE_S}s, such as 10m or 1h"
_HEAD = "the head as HOST:PORT, such as 10.0.0.1:6379"
MOST_SLOTS = 1024
TOKEN = "token"
"""The one credential: the secret with the token of the Ray."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaySettings:
    """The address of the head of the Ray, the directory for runs on every node, and the resources of nodes.

    `python` has Ray; it runs our bridge on this machine, or on the one that `ssh` reaches. With `tunnel`,
    connections to nodes use that ssh as well. `slots` are those
    of a node without a GPU, or fewer than it has. `lease_s`: how long a run continues without contact to this
    server.
    """

    address: str
    directory: Path
    python: str = sys.executable
    token_file: Path | None = None
    ssh: str | None = None
    tunnel: bool = False
    slots: int | None = None
    slot_type: str | None = None
    cpus: float | None = None
    lease_s: float = DEFAULT_LEASE_S


FIELDS = [field.name.removesuffix("_s") for field in fields(RaySettings)]


def read_settings(settings: Mapping[str, Any]) -> RaySettings:
    """The settings in a description; raises InvalidInput with the first mistake."""
    values.refuse_unknown(settings, FIELDS, "the engine ray")
    address = values.text_of(settings, "address", _ADDRESS, _HEAD)
    if address is None:
        raise InvalidInput("the engine ray needs the setting 'address'", hint=f"write {_HEAD}")
    if not 0 < int(address.rpartition(":")[2]) < 65_536:
        raise InvalidInput(f"'address' is {address!r}: a port is a number up to 65535")
    return RaySettings(
        address=address,
        directory=values.path_of(settings, "directory") or Path("/var/tmp/tarmac"),
        python=values.text_of(settings, "python", values.PROGRAM, values.A_PROGRAM) or sys.executable,
        token_file=values.path_of(settings, "token_file", "the absolute path of a file with the token"),
        ssh=values.text_of(settings, "ssh", values.SSH, values.SSH_FORM),
        tunnel=_tunnel(settings),
        slots=values.count_of(settings, "slots", most=MOST_SLOTS) or None,
        slot_type=values.text_of(settings, "slot_type", _NAME, "a type of slots, such as h100"),
        cpus=_number(settings, "cpus"),
        lease_s=values.seconds_of(settings, "lease", _LEASE, least_s=LEAST_LEASE_S) or DEFAULT_LEASE_S,
    )


def _tunnel(settings: Mapping[str, Any]) -> bool:
    """Whether nodes are reached through `ssh`; on the command line a value is a text."""
    value = settings.get("tunnel", False)
    if value not in (True, False, "true", "false"):
        raise InvalidInput(f"'tunnel' is {value!r:.200}", hint="write true or false")
    if value in (True, "true") and settings.get("ssh") is None:
        raise InvalidInput("'tunnel' needs the setting 'ssh'", hint="ssh names a node of the Ray")
    return value in (True, "true")


def _number(settings: Mapping[str, Any], name: str) -> float | None:
    """A number above 0, or its text from the command line."""
    value = settings.get(name)
    if value is None:
        return None
    try:
        number = float(value) if isinstance(value, str | int | float) and value is not True else 0.0
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise InvalidInput(f"{name!r} is {value!r:.200}", hint="a number above 0")
    return number
