"""The table of the experiment configuration: every field of version 0, as Determined's schemas have it.

Data: `walk` reads along it, `merging` fills it in, docs/dialects/determined.md lists it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.dialects.determined.schema import (
    Alternatives,
    Choice,
    Field,
    Flag,
    Free,
    Hyperparameters,
    ListOf,
    Merge,
    Record,
    Whole,
    Word,
)
from tarmac.dialects.determined.searchers import SEARCHER, length
from tarmac.dialects.determined.sections import (
    BIND_MOUNT,
    ENVIRONMENT,
    INTEGRATIONS,
    LOG_POLICIES,
    OPTIMIZATIONS,
    OWN_CLUSTER,
    PBS,
    PROFILING,
    RESOURCES,
    RETENTION,
    SLURM,
)
from tarmac.dialects.determined.storage import STORAGE
from tarmac.dialects.section import Section

DEAD = "has had no effect for a long time, in Determined too"
BATCHES_0: Mapping[str, Any] = {"batches": 0}


def _whereabouts(section: Section, _found: Mapping[str, Any]) -> None:
    """A project is one of a workspace."""
    given = [name for name in ("workspace", "project") if name in section]
    if len(given) == 1:
        other = "project" if given == ["workspace"] else "workspace"
        section.missing(other, "workspace and project are given together or not at all")


def _grid_counts(section: Section, found: Mapping[str, Any]) -> None:
    """A grid needs to know how many points of a range it tries."""
    value = section.get("hyperparameters")
    if value is None or (found.get("searcher") or {}).get("name") != "grid":
        return
    for path in _uncounted(found.get("hyperparameters") or {}):
        value.refuse(
            f"{path}: 'count' is missing", "the searcher grid needs the number of points of each range"
        )


def _uncounted(parameters: Mapping[str, Any], prefix: str = "") -> list[str]:
    paths: list[str] = []
    for name, item in parameters.items():
        if not isinstance(item, Mapping):
            continue
        if "type" not in item:
            paths += _uncounted(item, f"{prefix}{name}.")
        elif item["type"] in ("int", "double", "log") and "count" not in item:
            paths.append(prefix + name)
    return paths


def _policy_patterns(section: Section, found: Mapping[str, Any]) -> None:
    value = section.get("log_policies")
    for index, policy in enumerate(found.get("log_policies") or []):
        if value is not None and not {"name", "pattern"} & policy.keys():
            value.refuse(f"policy {index + 1} has neither 'name' nor 'pattern'")


EXPERIMENT = Record(
    fields={
        "name": Field(shape=Word()),
        "description": Field(shape=Word()),
        "labels": Field(shape=ListOf(item=Word(), wanted="a list of texts"), default=[]),
        "data": Field(shape=Free(table=True), default={}),
        "workspace": Field(shape=Word(), default=""),
        "project": Field(shape=Word(), default=""),
        "entrypoint": Field(
            shape=Alternatives(
                wanted="a command, or a list of a program and its arguments,",
                scalar=Word(wanted="a command"),
                items=ListOf(
                    item=Word(wanted="a text"), wanted="a list of a program and its arguments,", least=1
                ),
            ),
            required="an experiment says what it runs, such as 'entrypoint: python3 train.py'",
        ),
        "hyperparameters": Field(shape=Hyperparameters(), default={}, merge=Merge.DEEP),
        "searcher": Field(
            shape=SEARCHER,
            required="the shortest is 'searcher: {name: single, metric: loss}'",
            merge=Merge.DEEP,
        ),
        "resources": Field(shape=RESOURCES, default={}, merge=Merge.DEEP),
        "environment": Field(shape=ENVIRONMENT, default={}, merge=Merge.DEEP),
        "bind_mounts": Field(
            shape=ListOf(item=BIND_MOUNT, wanted="a list of mappings with host_path and container_path"),
            default=[],
            merge=Merge.PATHS,
        ),
        "checkpoint_storage": Field(shape=STORAGE, merge=Merge.DEEP),
        "checkpoint_policy": Field(shape=Choice(words=("best", "all", "none")), default="best"),
        "min_checkpoint_period": Field(shape=length(0), default=BATCHES_0),
        "min_validation_period": Field(shape=length(0), default=BATCHES_0),
        "scheduling_unit": Field(shape=Whole(least=1), default=100),
        "records_per_epoch": Field(shape=Whole(least=0), default=0),
        "perform_initial_validation": Field(shape=Flag(), default=False),
        "max_restarts": Field(shape=Whole(least=0), default=5),
        "preemption_timeout": Field(shape=Whole(least=0, most=3650 * 86400), default=3600),
        "log_policies": LOG_POLICIES,
        "retention_policy": Field(
            shape=RETENTION, ignored="logs stay as long as the runs of this server do: see its settings"
        ),
        "reproducibility": Field(
            shape=Record(fields={"experiment_seed": Field(shape=Whole(least=0, most=2**32 - 1))}), default={}
        ),
        "optimizations": Field(shape=OPTIMIZATIONS, default={}, merge=Merge.DEEP),
        "profiling": Field(shape=PROFILING, default={}, merge=Merge.DEEP),
        "debug": Field(shape=Flag(), default=False),
        "integrations": Field(
            shape=INTEGRATIONS,
            ignored="Pachyderm and webhooks are not called from here; it is kept for the run to read",
        ),
        "slurm": Field(shape=SLURM, default={}, ignored=OWN_CLUSTER),
        "pbs": Field(shape=PBS, default={}, ignored=OWN_CLUSTER),
        "data_layer": Field(shape=Free(table=True), ignored=DEAD),
        "security": Field(shape=Free(table=True), ignored=DEAD),
        "tensorboard_storage": Field(shape=Free(table=True), ignored=DEAD),
        "internal": Field(shape=Free(table=True), ignored=DEAD),
        "version": Field(shape=Whole(least=0, most=0)),
    },
    checks=(_whereabouts, _grid_counts, _policy_patterns),
    synonyms={
        "command": "entrypoint",
        "hparams": "hyperparameters",
        "bind_mount": "bind_mounts",
        "slots_per_trial": "resources: {slots_per_trial: ...}",
        "slots": "resources: {slots_per_trial: ...}",
        "gpus": "resources: {slots_per_trial: ...}",
        "resource_pool": "resources: {resource_pool: ...}",
        "priority": "resources: {priority: ...}",
        "image": "environment: {image: ...}",
        "environment_variables": "environment: {environment_variables: ...}",
        "max_length": "searcher: {max_length: ...}",
        "metric": "searcher: {metric: ...}",
        "seed": "reproducibility: {experiment_seed: ...}",
        "experiment_seed": "reproducibility: {experiment_seed: ...}",
        "batches_per_step": "scheduling_unit",
        "min_checkpoint_periods": "min_checkpoint_period",
    },
)
"""The whole configuration."""
