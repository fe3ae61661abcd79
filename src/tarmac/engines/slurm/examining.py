"""Whether a Slurm has what runs need, for `tarmac clusters check`. Called by `SlurmEngine`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tarmac.engines.slurm.commands import Commands
from tarmac.engines.slurm.host import Host
from tarmac.engines.slurm.installing import Sidecar
from tarmac.engines.slurm.partition import parse_partitions
from tarmac.engines.slurm.settings import SlurmSettings
from tarmac.engines.slurm.site import Site
from tarmac.model.engine_kinds import Finding
from tarmac.model.errors import Unavailable

PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol", "sacct")
OLDEST_SLURM = (20, 11)
OLDEST_PYTHON = (3, 9)
LEAST_FREE_BYTES = 1 << 30
LEAST_FREE_FILES = 10_000

_VERSION = re.compile(r"(?<![0-9])([0-9]{1,4})\.([0-9]{1,4})")


def examined(
    settings: SlurmSettings, host: Host, site: Site, sidecar: Sidecar | None = None
) -> Sequence[Finding]:
    """All findings; none is skipped because another is bad."""
    commands = Commands(host=host)
    return [
        *(_program(commands, name) for name in PROGRAMS),
        _controller(commands),
        _accounting(commands),
        *_partition(settings, commands, site),
        _directory(host),
        _python(settings, commands),
        *([_artifacts(sidecar)] if sidecar is not None else []),
    ]


def _program(commands: Commands, name: str) -> Finding:
    try:
        text = commands.query([name, "--version"]).strip()
    except Unavailable as error:
        return Finding(
            what=name, ok=False, text=f"{error}: is Slurm's client installed, and in the server's PATH?"
        )
    found = _VERSION.search(text)
    if found is not None and (int(found[1]), int(found[2])) < OLDEST_SLURM:
        return Finding(what=name, ok=False, text=f"{text}: older than 20.11, which is the oldest that works")
    return Finding(what=name, ok=True, text=text)


def _controller(commands: Commands) -> Finding:
    try:
        commands.query(["squeue", "--me", "--noheader"])
    except Unavailable as error:
        return Finding(what="controller", ok=False, text=str(error))
    return Finding(what="controller", ok=True, text="answers")


def _accounting(commands: Commands) -> Finding:
    """Good to have: without it, a job that left the queue is judged by its directory alone."""
    try:
        answer = commands.run(["sacct", "--noheader", "--starttime=now-1hours"])
    except Unavailable as error:
        return Finding(what="accounting", ok=True, text=f"none ({error})")
    return Finding(
        what="accounting", ok=True, text="answers" if answer.code == 0 else f"none ({answer.complaint})"
    )


def _partition(settings: SlurmSettings, commands: Commands, site: Site) -> Iterator[Finding]:
    try:
        known = parse_partitions(commands.query(["scontrol", "show", "partition", "-o"]))
        offered = site.read()
    except Unavailable as error:
        yield Finding(what="partition", ok=False, text=str(error))
        return
    for name in settings.partition.split(","):
        fields = known.get(name)
        if fields is None:
            text = f"there is no partition {name}; there are {', '.join(sorted(known)) or 'none'}"
            yield Finding(what="partition", ok=False, text=text)
        else:
            state, longest = fields.get("State", "?"), fields.get("MaxTime", "?")
            count = fields.get("TotalNodes", "?")
            text = f"{name} is {state.lower()}, {count} nodes, at most {longest} for a job"
            yield Finding(what="partition", ok=state == "UP", text=text)
    kinds = offered.types
    if settings.gpu_type is not None and settings.gpu_type.lower() not in kinds:
        text = f"the partition has no {settings.gpu_type}; it has {', '.join(kinds) or 'no GPUs'}"
        yield Finding(what="gpu_type", ok=False, text=text)
    elif settings.gpu_type is None and len(kinds) > 1:
        text = f"the partition has {', '.join(kinds)}: {offered.slot_type} is used, unless gpu_type is set"
        yield Finding(what="gpu_type", ok=True, text=text)


def _directory(host: Host) -> Finding:
    path = host.layout.home
    try:
        free_bytes, free_files = host.room()
    except OSError as error:
        return Finding(what="directory", ok=False, text=f"{path}: {error.strerror}")
    except Unavailable as error:
        return Finding(what="directory", ok=False, text=f"{path}: {error}")
    scarce = ""
    if free_bytes < LEAST_FREE_BYTES:
        scarce = f"{free_bytes >> 20} MiB left: runs need {LEAST_FREE_BYTES >> 20}"
    elif free_files is not None and free_files < LEAST_FREE_FILES:
        scarce = f"room for {free_files} more files: runs need {LEAST_FREE_FILES}"
    if scarce:
        return Finding(what="directory", ok=False, text=f"{path} has {scarce}; free some, or name another")
    text = f"{path} can be written, {free_bytes >> 30} GiB left; nodes must see it under that path"
    return Finding(what="directory", ok=True, text=text)


def _python(settings: SlurmSettings, commands: Commands) -> Finding:
    """Tried here: a node is reached by a job alone, and its log says so where there is none."""
    try:
        text = commands.query([settings.python, "-I", "-S", "--version"]).strip()
    except Unavailable as error:
        return Finding(what="python", ok=False, text=f"{error}: the setting python names that of the nodes")
    found = _VERSION.search(text)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_PYTHON:
        return Finding(what="python", ok=False, text=f"{settings.python} is {text}: nodes need 3.9 or later")
    return Finding(what="python", ok=True, text=f"{settings.python} is {text} on this machine")


def _artifacts(sidecar: Sidecar) -> Finding:
    """What only a job could try is said: nodes write to the store themselves."""
    if sidecar.store.startswith("/"):
        text = f"are kept in {sidecar.store}; nodes must see it under that path (or set [artifacts] store)"
    else:
        text = f"are kept in {sidecar.store}; nodes must reach it, with credentials of their own"
    return Finding(what="artifacts", ok=True, text=text)
