"""Which program makes the containers of a node: by what the cluster's setting says and what the node has.

    own         the runner itself, see `root`
    podman      the runner itself, in the user namespace that `podman unshare` makes: where the kernel keeps
                them from ordinary programs, and podman may
    apptainer   Apptainer (or Singularity) starts every process: with its set-user-ID starter it needs no user
                namespaces

Called by the hook `image`, by `tarmac doctor` and by the checks of clusters. Only `survey` reads anything.
"""

from __future__ import annotations

import os
import shutil
from typing import Mapping, NamedTuple, Optional, Sequence

AUTO = "auto"
OWN = "own"
PODMAN = "podman"
APPTAINER = "apptainer"
DRIVERS = (OWN, PODMAN, APPTAINER)

_PROGRAMS = {PODMAN: ("podman",), APPTAINER: ("apptainer", "singularity")}
_USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Facts(NamedTuple):
    """What a node has: its programs by driver, with their paths, and whether the runner is root."""

    programs: Mapping[str, str]
    root: bool


def survey(path: Optional[str] = None) -> Facts:
    """The facts of this node; its PATH, and where programs usually are."""
    where = f"{path if path is not None else os.environ.get('PATH', '')}:{_USUAL}"
    found = {}
    for driver, names in _PROGRAMS.items():
        program = next(filter(None, (shutil.which(name, path=where) for name in names)), None)
        if program is not None:
            found[driver] = program
    return Facts(found, os.geteuid() == 0)


def choose(setting: str, facts: Facts) -> tuple[str, ...]:
    """The drivers to try, in this order: the next where one is kept from making the container."""
    if setting in DRIVERS:
        return (setting,) if why_not(setting, facts) is None else ()
    return tuple(driver for driver in DRIVERS if why_not(driver, facts) is None)


def why_not(driver: str, facts: Facts) -> Optional[str]:
    """Why a driver need not be tried; None: only a try can tell."""
    if driver == OWN:
        return None
    if driver == PODMAN and facts.root:
        return "root needs no user namespace"
    return None if driver in facts.programs else f"{' or '.join(_PROGRAMS[driver])} is not installed"


def explain(setting: str, facts: Facts, failures: Mapping[str, str]) -> str:
    """Why none of the drivers made the container, one by one."""
    tried: Sequence[str] = (setting,) if setting in DRIVERS else DRIVERS
    reasons = {driver: failures.get(driver) or why_not(driver, facts) for driver in tried}
    names = {OWN: "tarmac itself"}
    return "; ".join(f"{names.get(driver, driver)}: {reason}" for driver, reason in reasons.items() if reason)
