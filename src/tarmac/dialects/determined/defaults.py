"""What a cluster gives to every experiment: the table `[determined]` of the server's settings.

Read once by the server's wiring; the dialect merges it below what each configuration says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tarmac.dialects.determined.merging import normalised
from tarmac.dialects.determined.priorities import FIRST, LAST, USUAL
from tarmac.dialects.determined.schema import Field, Record, Whole, Word
from tarmac.dialects.determined.sections import ENVIRONMENT
from tarmac.dialects.determined.table import EXPERIMENT
from tarmac.dialects.determined.walk import Walk
from tarmac.dialects.located import from_plain
from tarmac.dialects.problems import Problems
from tarmac.dialects.section import Value

CONTAINER_DEFAULTS = Record(
    fields={
        "image": ENVIRONMENT.fields["image"],
        "environment_variables": ENVIRONMENT.fields["environment_variables"],
        "bind_mounts": EXPERIMENT.fields["bind_mounts"],
        "preemption_timeout": EXPERIMENT.fields["preemption_timeout"],
        "log_policies": Field(shape=EXPERIMENT.fields["log_policies"].shape),
        "startup_hook": Field(shape=Word(wanted="a script")),
    }
)
SETTINGS = Record(
    fields={
        "task_container_defaults": Field(shape=CONTAINER_DEFAULTS),
        "checkpoint_storage": EXPERIMENT.fields["checkpoint_storage"],
        "default_priority": Field(shape=Whole(least=FIRST, most=LAST)),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDefaults:
    """`config` lies below every configuration; `startup_hook` runs before every entry point."""

    config: Mapping[str, Any] = field(default_factory=dict)
    priority: int = USUAL
    startup_hook: str | None = None


NO_DEFAULTS = ClusterDefaults()


def read_defaults(table: Mapping[str, Any], *, filename: str) -> ClusterDefaults:
    """The defaults that the settings name; raises InvalidInput with all that is wrong with them."""
    if not table:
        return NO_DEFAULTS
    problems = Problems(filename)
    found = Walk().value(Value(from_plain(table), "determined", problems), SETTINGS)
    problems.raise_any()
    containers = found.get("task_container_defaults", {})
    environment = {
        name: containers[name] for name in ("image", "environment_variables") if name in containers
    }
    config = {
        name: containers[name]
        for name in ("bind_mounts", "preemption_timeout", "log_policies")
        if name in containers
    }
    if environment:
        config["environment"] = environment
    if "checkpoint_storage" in found:
        config["checkpoint_storage"] = found["checkpoint_storage"]
    return ClusterDefaults(
        config=normalised(config),
        priority=found.get("default_priority", USUAL),
        startup_hook=containers.get("startup_hook"),
    )
