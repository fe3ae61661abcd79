"""Every route of the gateway, in matching order. Read by `application`, and by tests."""

from __future__ import annotations

from tarmac.server.determined import (
    agents_api,
    allocations_api,
    checkpoints_api,
    experiment_lists_api,
    experiments_api,
    jobs_api,
    login_api,
    logs_api,
    master_api,
    metric_streams_api,
    operations_api,
    pools_api,
    previews_api,
    reported_checkpoints_api,
    reports_api,
    resources_api,
    task_lists_api,
    tasks_api,
    trials_api,
    workspaces_api,
)
from tarmac.server.determined.calls import Route

ROUTES: tuple[Route, ...] = (
    *login_api.ROUTES,
    *master_api.ROUTES,
    *experiment_lists_api.ROUTES,
    *experiments_api.ROUTES,
    *previews_api.ROUTES,
    *trials_api.ROUTES,
    *metric_streams_api.ROUTES,
    *logs_api.ROUTES,
    *checkpoints_api.ROUTES,
    *jobs_api.ROUTES,
    *agents_api.ROUTES,
    *task_lists_api.ROUTES,
    *pools_api.ROUTES,
    *resources_api.ROUTES,
    *workspaces_api.ROUTES,
    *allocations_api.ROUTES,
    *reports_api.ROUTES,
    *operations_api.ROUTES,
    *reported_checkpoints_api.ROUTES,
    *tasks_api.ROUTES,
)
