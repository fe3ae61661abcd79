"""`det workspace ...` and `det project ...`: the projects, in one workspace. Listed in `application`.

A project exists while it has members or experiments. Its number is derived from its name; experiments without
a project are in `Uncategorized`, number 1.
"""

from typing import Any

from tarmac.api.account_operations import MemberBody
from tarmac.dialects import names
from tarmac.model.actor import Action, ActorRole
from tarmac.model.errors import InvalidInput, NotFound, Refused
from tarmac.model.lifecycle import ExperimentState
from tarmac.systems.determined.gateway.calls import Call, Route
from tarmac.systems.determined.gateway.gateway import UNCATEGORIZED
from tarmac.systems.determined.gateway.routes.users import user_id
from tarmac.systems.determined.gateway.tokens import DEFAULT_USER
from tarmac.systems.determined.identity import number_of
from tarmac.systems.determined.reader import NO_PROJECT

_UNNAMED = "default"
"""The project of runs that name none."""

_HINT = f"det project list {NO_PROJECT} has the numbers"


def number(project: str) -> int:
    """The number of a project."""
    return UNCATEGORIZED if project == _UNNAMED else number_of("project", project)


def shown(project: str) -> str:
    """The name of a project for Determined's clients."""
    return NO_PROJECT if project == _UNNAMED else project


def named(call: Call, project: int) -> str | None:
    """The project with a number; None for 0, which is none. Raises InvalidInput for an unknown one."""
    known = next((each for each in _counts(call) if number(each) == project), None)
    if project and known is None:
        raise InvalidInput(f"project not found: {project}", hint=_HINT)
    return known


def _counts(call: Call) -> dict[str, int]:
    """The number of experiments that the caller may see in each project; that without a name is first."""
    found = call.gateway.experiments.projects(call.actor.sees)
    every = {_UNNAMED, *found, *(each.project for each in call.gateway.people.memberships)}
    return {name: found.get(name, 0) for name in sorted(every, key=lambda each: (each != _UNNAMED, each))}


def _records(call: Call) -> list[dict[str, Any]]:
    """The projects that the request selects, each with its members as the description."""
    live = call.gateway.experiments.load(list(call.gateway.experiments.live()))
    active = [each.project for each in live.values() if each.state is ExperimentState.ACTIVE]
    place = {"workspaceId": UNCATEGORIZED, "workspaceName": NO_PROJECT, "key": "", "notes": []}
    members = sorted(call.gateway.people.memberships, key=lambda each: each.user)
    return [
        {
            **_common(count),
            **place,
            **{"id": number(name), "name": shown(name), "immutable": name == _UNNAMED},
            "description": ", ".join(
                f"{each.user} ({each.role})" for each in members if each.project == name
            ),
            "numRuns": count,
            "numActiveExperiments": active.count(name),
        }
        for name, count in _counts(call).items()
        if _is_named(call, shown(name))
    ]


def _common(experiments: int) -> dict[str, Any]:
    """The fields of the workspace and of its projects."""
    found = {"id": UNCATEGORIZED, "name": NO_PROJECT, "numExperiments": experiments, "immutable": True}
    user = {"userId": user_id(DEFAULT_USER), "username": DEFAULT_USER}
    return {**found, **user, "archived": False, "state": "WORKSPACE_STATE_UNSPECIFIED", "errorMessage": ""}


def _is_named(call: Call, name: str) -> bool:
    """Whether the request selects this workspace or project."""
    return call.text("nameCaseSensitive") in (None, name) and call.text("name") in (None, name, name.lower())


def _workspace(call: Call) -> dict[str, Any]:
    found = _counts(call)
    return {**_common(sum(found.values())), "numProjects": len(found), "pinned": False}


def _workspaces(call: Call) -> Any:
    return call.page("workspaces", [_workspace(call)] if _is_named(call, NO_PROJECT) else [])


def _one_workspace(call: Call) -> Any:
    _check_workspace(call)
    return {"workspace": _workspace(call)}


def _create_workspace(_call: Call) -> None:
    hint = f"det project create {NO_PROJECT} NAME; `tarmac organisations` groups users"
    raise InvalidInput(f"tarmac has one workspace, {NO_PROJECT}, with all projects", hint=hint)


def _list(call: Call) -> Any:
    _check_workspace(call)
    return call.page("projects", _records(call))


def _one(call: Call) -> Any:
    return _record(call, call.number("id"))


def _record(call: Call, project: int) -> dict[str, Any]:
    found = next((each for each in _records(call) if each["id"] == project), None)
    if found is None:
        raise NotFound(f"project not found: {project}", hint=_HINT)
    return {"project": found}


def _create(call: Call) -> Any:
    """Make the caller, an admin, the first member of a project."""
    _check_workspace(call)
    name, user = names.fit(call.typed("name", str, "a text")), call.actor.user
    if not name or name in _counts(call):
        raise Refused(f"there is a project {name} already" if name else "a name has a letter or digit")
    if user not in call.gateway.people.accounts:
        hint = "a project without members begins with the first experiment that names it"
        raise Refused(f"{user} has no account, and cannot be a member of the project {name}", hint=hint)
    accounts, body = call.gateway.service.accounts, MemberBody(user=user, role=ActorRole.ADMIN)
    accounts.set_member(call.actor, name, body)
    return _record(call, number(name))


def _check_workspace(call: Call) -> None:
    if call.number("id") != UNCATEGORIZED:
        raise NotFound(f"tarmac has one workspace, {NO_PROJECT}", hint=f"its number is {UNCATEGORIZED}")


_ONE = "/api/v1/workspaces/{id}"

ROUTES = (
    Route("GET", "/api/v1/workspaces", _workspaces),
    Route("POST", "/api/v1/workspaces", _create_workspace),
    Route("GET", _ONE, _one_workspace),
    Route("GET", f"{_ONE}/projects", _list),
    Route("POST", f"{_ONE}/projects", _create, action=Action.ACCOUNT),
    Route("GET", "/api/v1/projects/{id}", _one),
)
