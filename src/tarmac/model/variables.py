"""How a variable of a worker's environment is declared: once, by whoever gives it.

`launch.variables` declares those that every worker gets, each dialect its own family; the pages of docs list
them (tests compare).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Giver(StrEnum):
    """Who sets a variable, and whether the run file may say otherwise."""

    DEFAULT = "default"  # for every worker, unless the run file sets it
    CONTRACT = "contract"  # for every worker; a run file that sets it is refused
    NODE = "node"  # by the runner on the node, unless the run file sets it
    RUNNER = "runner"  # by the runner on the node; a run file that sets it is refused


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable: its name, who gives it, what it means."""

    name: str
    giver: Giver
    meaning: str
