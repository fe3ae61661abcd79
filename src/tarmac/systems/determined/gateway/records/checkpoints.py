"""Converts checkpoints into Determined's form. Pure; called by the routes about checkpoints and trials."""

from __future__ import annotations

from typing import Any

from tarmac.systems.determined.gateway.checkpoints import Checkpoint
from tarmac.systems.determined.gateway.records.experiments import config_of
from tarmac.systems.determined.gateway.records.metrics import metrics_record
from tarmac.systems.determined.gateway.records.written import finite, time_of


def checkpoint_record(checkpoint: Checkpoint, *, trial: int, experiment: int) -> dict[str, Any]:
    """A checkpoint, with the numbers of its trial and experiment."""
    report = checkpoint.report.body if checkpoint.report is not None else {}
    return {
        "uuid": checkpoint.uuid,
        "taskId": report.get("taskId"),
        "allocationId": report.get("allocationId"),
        "reportTime": time_of(checkpoint.at),
        "state": checkpoint.state,
        "metadata": {"steps_completed": checkpoint.steps, **checkpoint.metadata},
        "resources": dict(checkpoint.resources),
        "storageId": report.get("storageId"),
        "training": {
            "trialId": trial,
            "experimentId": experiment,
            "experimentConfig": config_of(checkpoint.spec),
            "hparams": dict(checkpoint.run.spec.parameters or {}),
            "searcherMetric": finite(checkpoint.metric),
            "trainingMetrics": metrics_record({}),
            "validationMetrics": metrics_record(checkpoint.metrics),
        },
    }


def checkpoint_step(checkpoint: Checkpoint) -> dict[str, Any]:
    """A checkpoint as a workload of its trial."""
    return {
        "uuid": checkpoint.uuid,
        "endTime": time_of(checkpoint.at),
        "state": checkpoint.state,
        "resources": dict(checkpoint.resources),
        "totalBatches": checkpoint.steps,
        "metadata": {"steps_completed": checkpoint.steps, **checkpoint.metadata},
    }
