"""Every route of the gateway, in matching order. Read by `application`, and by tests."""

from __future__ import annotations

from tarmac.systems.determined.gateway.calls import Route
from tarmac.systems.determined.gateway.routes import (
    agents,
    allocations,
    checkpoints,
    experiment_lists,
    experiments,
    jobs,
    login,
    logs,
    master,
    metric_streams,
    operations,
    pools,
    previews,
    reported_checkpoints,
    reports,
    resources,
    task_lists,
    tasks,
    trials,
    workspaces,
)

ROUTES: tuple[Route, ...] = (
    *login.ROUTES,
    *master.ROUTES,
    *experiment_lists.ROUTES,
    *experiments.ROUTES,
    *previews.ROUTES,
    *trials.ROUTES,
    *metric_streams.ROUTES,
    *logs.ROUTES,
    *checkpoints.ROUTES,
    *jobs.ROUTES,
    *agents.ROUTES,
    *task_lists.ROUTES,
    *pools.ROUTES,
    *resources.ROUTES,
    *workspaces.ROUTES,
    *allocations.ROUTES,
    *reports.ROUTES,
    *operations.ROUTES,
    *reported_checkpoints.ROUTES,
    *tasks.ROUTES,
)
