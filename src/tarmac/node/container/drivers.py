"""Chooses the program that makes a node's containers, from the cluster's setting and the node's programs.

    own         the runner itself, see `root`
    podman      the runner itself, in the user namespace that `podman unshare` makes: for kernels that deny
                them to ordinary programs but allow them to podman
    apptainer   Apptainer (or Singularity) starts every process: with its set-user-ID starter it needs no user
                namespaces

Called by the hook `image`, by `tarmac doctor` and by the checks of clusters. Only `survey` reads anything.
"""

from __future__ import annotations

import os
import shutil
from typing import Mapping, NamedTuple, Optional, Sequence

from tarmac.node.container.failures import REFUSED, ImageProblem
from tarmac.node.container.reference import is_apptainer

AUTO = "auto"
OWN = "own"
PODMAN = "podman"
APPTAINER = "apptainer"
DRIVERS = (OWN, PODMAN, APPTAINER)

_PROGRAMS = {PODMAN: ("podman",), APPTAINER: ("apptainer", "singularity")}
_INSTEAD = "name the image of a registry that it was made of"
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Facts(NamedTuple):
    """The facts of a node: its programs by driver, with their paths, and whether the runner is root."""

    programs: Mapping[str, str]
    root: bool


def survey(path: Optional[str] = None) -> Facts:
    """The facts of this node, found in its PATH and the usual directories."""
    where = f"{path if path is not None else os.environ.get('PATH', '')}:{USUAL_PATH}"
    found = {}
    for driver, names in _PROGRAMS.items():
        program = next(filter(None, (shutil.which(name, path=where) for name in names)), None)
        if program is not None:
            found[driver] = program
    return Facts(found, os.geteuid() == 0)


def choose(setting: str, facts: Facts) -> tuple[str, ...]:
    """The drivers to try, in this order, until one makes the container."""
    if setting in DRIVERS:
        return (setting,) if why_not(setting, facts) is None else ()
    return tuple(driver for driver in DRIVERS if why_not(driver, facts) is None)


def setting_for(path: str, setting: str, facts: Facts) -> str:
    """The setting for an image that is used unchanged: only Apptainer opens its own images.

    Raises ImageProblem if this node has no Apptainer, or if the setting names another driver; OSError.
    """
    if not is_apptainer(path):
        return setting
    if setting not in (AUTO, APPTAINER):
        message = f"{path} is an image of Apptainer, and containers here are made by {setting}"
        raise ImageProblem(REFUSED, message, _INSTEAD)
    if APPTAINER not in facts.programs:
        message = f"{path} is an image of Apptainer, and neither apptainer nor singularity is installed here"
        raise ImageProblem(REFUSED, message, f"install Apptainer on the node, or {_INSTEAD}")
    return APPTAINER


def why_not(driver: str, facts: Facts) -> Optional[str]:
    """The reason why a driver cannot work; None if only a try can show that."""
    if driver == OWN:
        return None
    if driver == PODMAN and facts.root:
        return "root needs no user namespace"
    return None if driver in facts.programs else f"{' or '.join(_PROGRAMS[driver])} is not installed"


def explain(setting: str, facts: Facts, failures: Mapping[str, str]) -> str:
    """The reason of each driver that failed to make the container."""
    tried: Sequence[str] = (setting,) if setting in DRIVERS else DRIVERS
    reasons = {driver: failures.get(driver) or why_not(driver, facts) for driver in tried}
    names = {OWN: "tarmac itself"}
    return "; ".join(f"{names.get(driver, driver)}: {reason}" for driver, reason in reasons.items() if reason)
