"""The commands for a machine of a Ray cluster, with their variables. Pure: used by its siblings.

Ray reads the token from a file, never from a command line, which every user of the machine could read.
"""

import hashlib
import re
from collections.abc import Sequence

from tarmac.model.cluster import Machine

RAY_VERSION = "2.60.0"
"""The version that `--install` installs if no machine has a Ray yet."""

PORT = 6379
PYTHON = "python3"
SERVICE = "ray"

STARTED = "Ray runtime started"
"""The line that `ray start` prints after it has started."""

_HEALTH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}
"""For the head alone: a lost machine is noticed after 5 s, not after a minute."""

OUTLASTS_HEAD = {"RAY_gcs_rpc_server_reconnect_timeout_s": "86400"}
"""After a day without the head, Ray on another machine ends; its default is a minute."""

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_PREFIX = re.compile(r"^\d{4}-\d\d-\d\d [\d:,]+\s+[A-Z]+ \S+ -- ")


class Place:
    """The paths of the files of a cluster's machine: below `directory`, which other machines may share.

    `own` is the directory of this machine alone, `service` the place of its service; `state` is that of the
    head, and survives a restart.
    """

    def __init__(self, cluster: str, machine: Machine) -> None:
        self.directory = machine.directory or f"/var/tmp/tarmac-{cluster}"
        self.own = f"{self.directory}/{machine.name}"
        self.service = f"{self.own}/{SERVICE}"
        self.token = f"{self.own}/token"
        self.state = f"{self.own}/state"
        self.environment = f"{self.directory}/venv"
        """The virtual environment that `--install` creates: nodes need their Python at one path."""
        self.runs = f"{self.directory}/runs"
        """The engine's directory for runs, at one path on all nodes."""
        self.scratch = f"/tmp/tarmac-ray-{hashlib.sha256(self.own.encode()).hexdigest()[:12]}"
        """Sockets and logs of Ray; short, because names of sockets may have 107 characters."""


def start_argv(
    ray: str, machine: Machine, *, address: str, head: str, ports: Sequence[int], scratch: str
) -> list[str]:
    """The command that runs Ray on a machine until it ends.

    `head` is the address of the head, `ports` are two free ones.
    """
    argv = [ray, "start", "--block", "--log-color", "false", "--node-ip-address", address]
    argv += ["--temp-dir", scratch]
    if machine.head:
        argv += ["--head", "--port", head.rpartition(":")[2], "--include-dashboard", "false"]
        argv += ["--ray-client-server-port", str(ports[0])]
    else:
        argv += ["--address", head]
    argv += ["--dashboard-agent-listen-port", str(ports[1])]
    if machine.slots is not None:
        argv += ["--num-gpus", str(machine.slots)]
    if machine.cpus is not None:
        argv += ["--num-cpus", f"{machine.cpus:g}"]
    return argv


def start_variables(machine: Machine, place: Place) -> dict[str, str]:
    """The environment of that command, in addition to that of a login there."""
    variables = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": place.token,
        "RAY_USAGE_STATS_ENABLED": "0",
        **OUTLASTS_HEAD,
    }
    if machine.head:
        variables |= {**_HEALTH, "RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": place.state}
    return variables


def last_words(lines: Sequence[str]) -> str:
    """The last meaningful line that Ray printed, without its decoration."""
    plain = [_PREFIX.sub("", _ESCAPES.sub("", line)).strip() for line in lines]
    worded = [line for line in plain if re.search(r"[A-Za-z]{3}", line)]
    errors = [
        line for line in worded if re.search(r"error|mismatch|refus|fail|denied|cannot", line, re.IGNORECASE)
    ]
    return (errors or worded or [""])[-1][:300]


def installing(python: str, environment: str, version: str) -> list[list[str]]:
    """The commands that create the virtual environment of a machine, in order."""
    pip = [f"{environment}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return [[python, "-m", "venv", environment], [*pip, f"ray=={version}"]]


def ray_beside(python: str) -> str:
    """The program `ray` that belongs to an interpreter: beside it, if its path is known."""
    folder, slash, _ = python.rpartition("/")
    return f"{folder}{slash}ray"
