"""Tests whether containers can be made here, by making one. For `tarmac doctor` and checks of clusters."""

from __future__ import annotations

import os
import tempfile
from typing import NamedTuple

from tarmac.node.container import drivers, making
from tarmac.node.container.drivers import APPTAINER, AUTO, Facts
from tarmac.node.container.entry import Container
from tarmac.node.container.root import CannotMake, Root


class Trial(NamedTuple):
    """The result of a trial: the driver that succeeded, or the reason of the failure."""

    works: bool
    text: str


def try_container(directory: str, setting: str = AUTO) -> Trial:
    """Make and remove an empty container, like an attempt below that directory."""
    facts, notes = drivers.survey(), list[str]()
    try:
        with tempfile.TemporaryDirectory(dir=directory, prefix="trial-") as scratch:
            lower, place = os.path.join(scratch, "image"), os.path.join(scratch, "root")
            os.mkdir(lower)
            request = making.Request(
                root=Root(base="/", layers=(lower,), place=place, binds=()),
                flat=lambda: lower,
                env={},
                numbers={},
                key="trial",
                accelerators=False,
                token="",
            )
            made = making.make(setting, facts, request, notes.append)
            text = _text(made, facts) if isinstance(made, Container) else _by_apptainer(facts)
            made.close()
            made.clear(place)
    except CannotMake as problem:
        return Trial(False, str(problem))
    except OSError as problem:
        return Trial(False, f"{directory}: {problem.strerror}")
    return Trial(True, "; ".join([text, *notes]))


def _text(made: Container, facts: Facts) -> str:
    if made.users is None:
        return "runs start in their images, made as root"
    return "runs start in their images, in a user namespace" + (
        " although this is root" if facts.root else ""
    )


def _by_apptainer(facts: Facts) -> str:
    return f"runs start in their images by {facts.programs[APPTAINER]}"
