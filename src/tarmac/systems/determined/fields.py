"""The table of the experiment configuration: every field of version 0 in Determined's schemas.

Data for `schema`, which reads along it, and `merging`, which completes it; docs/using/dialects/determined.md
lists it.
"""

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from tarmac.dialects.kinds import number, one_of, yaml12
from tarmac.dialects.native.fields import check_pattern
from tarmac.dialects.schema import FREE, Alternatives, Field, ListOf, Record
from tarmac.dialects.section import Section, words_for
from tarmac.systems.determined.environment import ARGUMENTS, ENVIRONMENT, OWN_CLUSTER
from tarmac.systems.determined.hyperparameters import HYPERPARAMETERS, RANGES
from tarmac.systems.determined.schema import (
    ABSOLUTE,
    COUNT,
    DEAD,
    FLAG,
    NO,
    POSITIVE,
    TABLE,
    TEXT,
    YES,
    Merge,
    record,
    union,
    whole,
    word,
)
from tarmac.systems.determined.searchers import SEARCHER, length
from tarmac.systems.determined.statuses import FIRST, LAST
from tarmac.systems.determined.storage import STORAGE

# --- resources

_MEMORY = r"([0-9]*[.])?[0-9]+ ?(([kmgtpKMGTP]([iI]?[bB])?)|[bB])?"


def _amounts(section: Section, found: Mapping[str, Any]) -> None:
    size, amount = section.get("shm_size"), found.get("shm_size")
    if size is not None and not (
        (type(amount) is int and amount >= 0) or (isinstance(amount, str) and re.fullmatch(_MEMORY, amount))
    ):
        size.expected("a size such as 4g or 512MiB, or a number of bytes")
    if (weight := section.get("weight")) is not None and found.get("weight", 1) <= 0:
        weight.expected("a number above 0")


def memory_bytes(amount: object) -> int | None:
    """The bytes of a `shm_size`; None: no limit, or it was refused."""
    if not isinstance(amount, str):
        return amount if isinstance(amount, int) and amount > 0 else None
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+) ?([kmgtpKMGTP]?)[iI]?[bB]?", amount)
    if found is None:
        return None
    return int(float(found[1]) * 1024 ** " kmgtp".find(found[2].lower() or " ")) or None


RESOURCES = record(
    {
        "slots_per_trial": Field(whole(0, 100_000), 1),
        "max_slots": COUNT,
        "weight": Field(number(of=yaml12, as_written=True), 1),
        "priority": whole(FIRST, LAST),
        "resource_pool": Field(TEXT, ""),
        "shm_size": Field(Alternatives("a size such as 4g, or a number of bytes", scalar=FREE)),
        "is_single_node": FLAG,
        "devices": Field(
            ListOf(
                Alternatives(
                    'a device as "/host/path:/container/path:mrw", or a mapping with host_path',
                    scalar=word('a device as "/host/path:/container/path:mrw"', r"[^:]+:[^:]+(:[mrw]{1,3})?"),
                    table=record(
                        {
                            "host_path": Field(TEXT, required="the device on the node"),
                            "container_path": Field(TEXT, required="the device in the run"),
                            "mode": Field(word("some of m, r and w", r"[mrw]{0,3}"), "mrw"),
                        }
                    ),
                ),
                "a list of devices",
            ),
            [],
            merge=Merge.PATHS,
            ignored="runs see all devices that their user may use; none is passed on by name",
        ),
        "native_parallel": Field(FLAG, False, ignored=DEAD),
        "agent_label": Field(
            Alternatives("a text", scalar=TEXT), ignored="has had no effect since 0.20; name a resource_pool"
        ),
        "slots": Field(whole(), ignored="is for commands and notebooks; an experiment says slots_per_trial"),
    },
    _amounts,
    synonyms=words_for(slots_per_trial="slots gpus num_gpus slots_per_trail", resource_pool="pool"),
)


# --- mounts and log policies


def _mount(section: Section, found: Mapping[str, Any]) -> None:
    value, target = section.get("container_path"), found.get("container_path")
    if value is None or not isinstance(target, str):
        return
    path = posixpath.normpath(target) if target else "."
    if path in (".", "/"):
        value.refuse(f"{target!r} would hide everything the run has", "name a directory of its own")
    elif path == ".." or path.startswith("../"):
        value.refuse(f"{target!r} leaves the work directory", "an absolute path, or one below it")


BIND_MOUNT = record(
    {
        "host_path": Field(ABSOLUTE, required="the file or directory of the node"),
        "container_path": Field(word("a path"), required="where the run sees it"),
        "read_only": NO,
        "propagation": Field(
            one_of(("rprivate", "private", "rshared", "shared", "rslave", "slave")), "rprivate"
        ),
    },
    _mount,
    synonyms=words_for(host_path="source src", container_path="target dst", read_only="readonly ro"),
)


def _one_action(section: Section, _found: Mapping[str, Any]) -> None:
    section.exclude("action", "actions", reason="the two say the same")


_ACTIONS = ("cancel_retries", "exclude_node")

LOG_POLICY = record(
    {
        "name": TEXT,
        "pattern": TEXT,
        "action": Alternatives(
            "cancel_retries, exclude_node, or the older form {type: cancel_retries}",
            scalar=one_of(_ACTIONS),
            table=Alternatives(
                "a mapping with 'type'", table=union("type", dict.fromkeys(_ACTIONS, Record({})))
            ),
        ),
        "actions": Field(
            ListOf(
                Alternatives(
                    "cancel_retries, exclude_node, or {signal: ...}",
                    scalar=one_of(_ACTIONS),
                    table=record({"signal": Field(TEXT, required="the word for the log")}),
                ),
                "a list of actions",
            ),
            legacy=True,
        ),
        "signal": Field(TEXT, legacy=True),
    },
    _one_action,
    check_pattern,
    synonyms={"regex": "pattern"},
)
DEFAULT_POLICIES = [
    {"name": "CUDA OOM", "pattern": ".*CUDA out of memory.*"},
    {"name": "ECC Error", "pattern": ".*uncorrectable ECC error encountered.*"},
]


# --- the whole configuration


def _profiled(section: Section, found: Mapping[str, Any]) -> None:
    begin, end = found.get("begin_on_batch", 0), found.get("end_after_batch")
    if end is not None and end < begin:
        section.refuse(f"end_after_batch ({end}) is before begin_on_batch ({begin})")


def _whereabouts(section: Section, _found: Mapping[str, Any]) -> None:
    """Report a workspace without a project, or a project without a workspace."""
    present = [name for name in ("workspace", "project") if name in section]
    if len(present) == 1:
        other = "project" if present == ["workspace"] else "workspace"
        section.missing(other, "workspace and project are given together or not at all")


def _grid_counts(section: Section, found: Mapping[str, Any]) -> None:
    """Report ranges for which a grid lacks the number of points."""
    value = section.get("hyperparameters")
    if value is None or (found.get("searcher") or {}).get("name") != "grid":
        return
    for path in _uncounted(found.get("hyperparameters") or {}):
        value.refuse(
            f"{path}: 'count' is missing", "the searcher grid needs the number of points of each range"
        )


def _uncounted(item: Any, path: str = "") -> list[str]:
    """The paths of ranges without a count, in lists as well."""
    if isinstance(item, list):
        return [found for at, each in enumerate(item) for found in _uncounted(each, f"{path}[{at}]")]
    if not isinstance(item, Mapping):
        return []
    if path and "type" in item:
        return [path] if item["type"] in RANGES and "count" not in item else []
    return [found for name in item for found in _uncounted(item[name], f"{path}.{name}".lstrip("."))]


def _policy_patterns(section: Section, found: Mapping[str, Any]) -> None:
    value = section.get("log_policies")
    for index, policy in enumerate(found.get("log_policies") or []):
        if value is not None and not {"name", "pattern"} & policy.keys():
            value.refuse(f"policy {index + 1} has neither 'name' nor 'pattern'")


_DEAD = Field(TABLE, ignored=f"{DEAD}, in Determined too")

EXPERIMENT = record(
    {
        "name": TEXT,
        "description": TEXT,
        "labels": Field(ListOf(TEXT, "a list of texts"), []),
        "data": Field(TABLE, {}),
        "workspace": Field(TEXT, ""),
        "project": Field(TEXT, ""),
        "entrypoint": Field(
            Alternatives(
                "a command, or a list of a program and its arguments,",
                scalar=word("a command"),
                items=ListOf(TEXT, "a list of a program and its arguments,", least=1),
            ),
            required="an experiment says what it runs, such as 'entrypoint: python3 train.py'",
        ),
        "hyperparameters": Field(HYPERPARAMETERS, {}, merge=Merge.DEEP),
        "searcher": Field(
            SEARCHER, required="the shortest is 'searcher: {name: single, metric: loss}'", merge=Merge.DEEP
        ),
        "resources": Field(RESOURCES, {}, merge=Merge.DEEP),
        "environment": Field(ENVIRONMENT, {}, merge=Merge.DEEP),
        "bind_mounts": Field(
            ListOf(BIND_MOUNT, "a list of mappings with host_path and container_path"), [], merge=Merge.PATHS
        ),
        "checkpoint_storage": Field(STORAGE, merge=Merge.DEEP),
        "checkpoint_policy": Field(one_of(("best", "all", "none")), "best"),
        "min_checkpoint_period": Field(length(0), {"batches": 0}),
        "min_validation_period": Field(length(0), {"batches": 0}),
        "scheduling_unit": Field(POSITIVE, 100),
        "records_per_epoch": Field(COUNT, 0),
        "perform_initial_validation": NO,
        "max_restarts": Field(COUNT, 5),
        "preemption_timeout": Field(whole(0, 3650 * 86400), 3600),
        "log_policies": Field(
            ListOf(LOG_POLICY, "a list of mappings with 'pattern'"), DEFAULT_POLICIES, merge=Merge.POLICIES
        ),
        "retention_policy": Field(
            record({"log_retention_days": Field(whole(-1, 32767), required="-1 keeps them for ever")}),
            ignored="logs stay as long as the runs of this server do: see its settings",
        ),
        "reproducibility": Field(
            record({"experiment_seed": whole(0, 2**32 - 1)}, synonyms={"seed": "experiment_seed"}), {}
        ),
        "optimizations": Field(
            record(
                {
                    "aggregation_frequency": Field(POSITIVE, 1),
                    "auto_tune_tensor_fusion": NO,
                    "average_aggregated_gradients": YES,
                    "average_training_metrics": YES,
                    "gradient_compression": NO,
                    "grad_updates_size_file": TEXT,
                    "mixed_precision": Field(one_of(("O0", "O1", "O2", "O3")), "O0"),
                    "tensor_fusion_cycle_time": Field(COUNT, 1),
                    "tensor_fusion_threshold": Field(COUNT, 64),
                }
            ),
            {},
            merge=Merge.DEEP,
        ),
        "profiling": Field(
            record(
                {
                    "enabled": NO,
                    "begin_on_batch": Field(COUNT, 0),
                    "end_after_batch": COUNT,
                    "sync_timings": YES,
                },
                _profiled,
            ),
            {},
            merge=Merge.DEEP,
        ),
        "debug": NO,
        "integrations": Field(
            record(
                {
                    "pachyderm": TABLE,
                    "webhooks": record(
                        {
                            "webhook_id": ListOf(whole(), "a list of ids"),
                            "webhook_name": ListOf(TEXT, "a list of names"),
                            "exclude": NO,
                        }
                    ),
                }
            ),
            ignored="Pachyderm and webhooks are not called from here; it is kept for the run to read",
        ),
        "slurm": Field(
            record({"slots_per_node": POSITIVE, "gpu_type": TEXT, "sbatch_args": Field(ARGUMENTS, [])}),
            {},
            ignored=OWN_CLUSTER,
        ),
        "pbs": Field(
            record({"slots_per_node": POSITIVE, "pbsbatch_args": Field(ARGUMENTS, [])}),
            {},
            ignored=OWN_CLUSTER,
        ),
        **dict.fromkeys(("data_layer", "security", "tensorboard_storage", "internal"), _DEAD),
        "version": whole(0, 0),
    },
    _whereabouts,
    _grid_counts,
    _policy_patterns,
    synonyms=words_for(
        entrypoint="command",
        hyperparameters="hparams",
        bind_mounts="bind_mount",
        scheduling_unit="batches_per_step",
        min_checkpoint_period="min_checkpoint_periods",
    ),
)
"""The whole configuration."""
