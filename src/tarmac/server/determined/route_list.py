"""Every route of the gateway, in the order in which they are tried. Read by `application`, and by tests."""

from __future__ import annotations

from tarmac.server.determined import (
    allocations_api,
    checkpoints_api,
    cluster_api,
    experiments_api,
    jobs_api,
    login_api,
    logs_api,
    master_api,
    operations_api,
    reported_checkpoints_api,
    reports_api,
    resources_api,
    tasks_api,
    trials_api,
    workspaces_api,
)
from tarmac.server.determined.calls import Route

ROUTES: tuple[Route, ...] = (
    *login_api.ROUTES,
    *master_api.ROUTES,
    *experiments_api.ROUTES,
    *trials_api.ROUTES,
    *logs_api.ROUTES,
    *checkpoints_api.ROUTES,
    *jobs_api.ROUTES,
    *cluster_api.ROUTES,
    *resources_api.ROUTES,
    *workspaces_api.ROUTES,
    *allocations_api.ROUTES,
    *reports_api.ROUTES,
    *operations_api.ROUTES,
    *reported_checkpoints_api.ROUTES,
    *tasks_api.ROUTES,
)
