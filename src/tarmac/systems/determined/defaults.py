"""The cluster's values for every experiment: the table `[determined]` of the server's settings.

Read once by the server's wiring; the dialect merges the values below each configuration.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tarmac.dialects.located import Problems, from_plain
from tarmac.dialects.schema import read_value
from tarmac.dialects.section import Value
from tarmac.systems.determined.environment import ENVIRONMENT
from tarmac.systems.determined.fields import EXPERIMENT
from tarmac.systems.determined.library import LIBRARY
from tarmac.systems.determined.merging import normalise
from tarmac.systems.determined.schema import record, whole, word
from tarmac.systems.determined.statuses import FIRST, LAST, USUAL
from tarmac.systems.determined.storage import note_missing

SETTINGS = record(
    {
        "task_container_defaults": record(
            {
                **{name: ENVIRONMENT.fields[name] for name in ("image", "environment_variables")},
                **{name: EXPERIMENT.fields[name] for name in ("bind_mounts", "preemption_timeout")},
                "log_policies": EXPERIMENT.fields["log_policies"].shape,
                "startup_hook": word("a script"),
            }
        ),
        "checkpoint_storage": EXPERIMENT.fields["checkpoint_storage"],
        "default_priority": whole(FIRST, LAST),
        "library": word("a version of the package 'determined', or an empty text for none", LIBRARY),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDefaults:
    """`config` is merged below every configuration; `startup_hook` runs before every entry point.

    `library` is the version of the package `determined` that is installed for runs whose code imports it.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    priority: int = USUAL
    startup_hook: str | None = None
    library: str | None = None


NO_DEFAULTS = ClusterDefaults()


def read_defaults(table: Mapping[str, Any], *, filename: str) -> ClusterDefaults:
    """The defaults in the settings; raises InvalidInput with every problem in them."""
    if not table:
        return NO_DEFAULTS
    problems = Problems(filename)
    found = read_value(Value(from_plain(table), "determined", problems), SETTINGS)
    if storage := found.get("checkpoint_storage"):
        place = Value(from_plain(table["checkpoint_storage"]), "determined.checkpoint_storage", problems)
        note_missing(place, storage)
    problems.raise_any()
    containers = found.get("task_container_defaults", {})
    own = {"image", "environment_variables", "startup_hook"}
    config = {name: item for name, item in containers.items() if name not in own}
    if environment := {name: item for name, item in containers.items() if name in own - {"startup_hook"}}:
        config["environment"] = environment
    if "checkpoint_storage" in found:
        config["checkpoint_storage"] = found["checkpoint_storage"]
    return ClusterDefaults(
        config=normalise(config),
        priority=found.get("default_priority", USUAL),
        startup_hook=containers.get("startup_hook"),
        library=found.get("library"),
    )
