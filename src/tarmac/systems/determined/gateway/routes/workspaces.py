"""Workspaces and projects: tarmac has one of each, for all users. Listed in `application`."""

from __future__ import annotations

from typing import Any

from tarmac.model.errors import NotFound
from tarmac.model.experiment import ExperimentQuery, ExperimentState
from tarmac.systems.determined.gateway.calls import Call, get
from tarmac.systems.determined.gateway.numbering import UNCATEGORIZED
from tarmac.systems.determined.gateway.records.experiments import ONLY
from tarmac.systems.determined.gateway.records.written import page
from tarmac.systems.determined.gateway.routes.experiment_lists import ALL
from tarmac.systems.determined.gateway.routes.login import DEFAULT_USER, user_id

_NO_STATE = "WORKSPACE_STATE_UNSPECIFIED"


def _common(call: Call) -> dict[str, Any]:
    experiments = call.gateway.experiments.heads(ExperimentQuery(limit=ALL))
    return {
        "id": UNCATEGORIZED,
        "name": ONLY,
        "archived": False,
        "immutable": True,
        "numExperiments": len(experiments),
        "userId": user_id(DEFAULT_USER),
        "username": DEFAULT_USER,
        "state": _NO_STATE,
        "errorMessage": "",
    }


def _workspace(call: Call) -> dict[str, Any]:
    return {**_common(call), "numProjects": 1, "pinned": False}


def _project(call: Call) -> dict[str, Any]:
    common = _common(call)
    own = {"key": "", "notes": [], "workspaceId": UNCATEGORIZED, "workspaceName": ONLY, "description": ""}
    live = call.gateway.experiments.load(list(call.gateway.experiments.live()))
    active = sum(each.state is ExperimentState.ACTIVE for each in live.values())
    return {**common, **own, "numRuns": common["numExperiments"], "numActiveExperiments": active}


def _workspaces(call: Call) -> Any:
    shown = [_workspace(call)] if _is_named(call) else []
    return page(call, "workspaces", shown, list)


def _is_named(call: Call) -> bool:
    """Whether the request selects the only workspace or project."""
    name = call.text("name")
    return call.text("nameCaseSensitive") in (None, ONLY) and name in (None, ONLY, ONLY.lower())


def _one_workspace(call: Call) -> Any:
    _check(call, "workspace")
    return {"workspace": _workspace(call)}


def _projects(call: Call) -> Any:
    _check(call, "workspace")
    shown = [_project(call)] if _is_named(call) else []
    return page(call, "projects", shown, list)


def _one_project(call: Call) -> Any:
    _check(call, "project")
    return {"project": _project(call)}


def _check(call: Call, what: str) -> None:
    if call.number("id") != UNCATEGORIZED:
        raise NotFound(f"tarmac has one {what}, {ONLY}", hint=f"its number is {UNCATEGORIZED}")


ROUTES = (
    get("/api/v1/workspaces", _workspaces),
    get("/api/v1/workspaces/{id}", _one_workspace),
    get("/api/v1/workspaces/{id}/projects", _projects),
    get("/api/v1/projects/{id}", _one_project),
)
