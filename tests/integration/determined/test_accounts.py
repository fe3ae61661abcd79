"""The gateway of a server with accounts: the same users, roles, scopes and projects (I2, N15)."""

from __future__ import annotations

from typing import Any

import pytest
from argon2 import PasswordHasher

from determined_calls import Answer, DeterminedCalls
from determined_experiments import SINGLE, create, logged_in, model_definition, turn
from served import TOKEN, Served
from tarmac.client import Client
from tarmac.model.actor import Action, ActorRole
from tarmac.model.codec import replace
from tarmac.model.people.account import AccountSettings, Visibility, salted
from tarmac.systems.determined.gateway.tokens import Claim, TokenKind, TokenMaker

OLGA, BOB, VERA, CLEO = "olga", "bob", "vera", "cleo"
NIGHTLY = "nightly"
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""Each hash says what it costs to check it: those of these tests cost nothing."""


def password_of(name: str) -> str:
    return f"the password of {name}"


@pytest.fixture
def admin(here: Served) -> Client:
    """The owner at the socket of the home, who has added the accounts: olga is the first, an admin."""
    client, records = here.client(), here.store.accounts
    client.set_user(OLGA)  # the first is an admin
    client.set_user(BOB, AccountSettings(role=ActorRole.MEMBER))
    client.set_user(VERA, AccountSettings(role=ActorRole.VIEWER))
    client.set_user(CLEO)
    for account in records.people().accounts.values():
        hashed = QUICK.hash(salted(password_of(account.name)))
        records.put_account(replace(account, has_password=True), password=hashed)
    client.set_user(NIGHTLY, AccountSettings(service=True))
    return client


def login(here: Served, name: str, password: str, *, hashed: bool = True) -> Answer:
    """A login as the clients send it (all of them hash), or with the text itself."""
    body = {"username": name, "password": salted(password) if hashed else password, "isHashed": hashed}
    return DeterminedCalls(here.gateway_port).post("/api/v1/auth/login", body)


def calls_of(here: Served, name: str) -> DeterminedCalls:
    status, found = login(here, name, password_of(name))
    assert (status, found["user"]["username"]) == (200, name), found
    return DeterminedCalls(here.gateway_port, token=found["token"])


def submitted(calls: DeterminedCalls, config: str = SINGLE, **more: Any) -> Answer:
    return calls.post(
        "/api/v1/experiments", {"config": config, "modelDefinition": model_definition(), **more}
    )


@pytest.mark.heavy
@pytest.mark.parametrize("hashed", [True, False])
def test_the_password_is_that_of_the_account(here: Served, admin: Client, hashed: bool) -> None:
    """N15. Every client of Determined sends a hash: it is checked like the text."""
    status, found = login(here, BOB, password_of(BOB), hashed=hashed)
    assert (status, found["user"]["admin"], found["user"]["active"]) == (200, False, True)
    assert found["token"].startswith("tarmac_")
    calls = DeterminedCalls(here.gateway_port, token=found["token"])
    assert calls.get("/api/v1/me")[1]["user"] == found["user"]
    assert [(each.user, each.label) for each in admin.tokens(everybody=True)] == [(BOB, "det user login")]
    assert create(calls, SINGLE)["username"] == BOB
    assert here.remote_client(admin.login(BOB, password_of(BOB)).text).account().name == BOB


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "password"),
    [(BOB, "guess"), (BOB, password_of(CLEO)), ("nobody", password_of(BOB)), (BOB, ""), (BOB, TOKEN)],
)
def test_a_wrong_password_is_refused(here: Served, admin: Client, name: str, password: str) -> None:
    """N15. The token of the home opens no account: it is the owner's."""
    status, found = login(here, name, password)
    assert status == 403
    assert "is wrong" in found["message"]
    assert "the password of the account will do, or one of its tokens" in found["message"] or not password


def test_the_owner_needs_no_account(here: Served, admin: Client) -> None:
    assert logged_in(here).get("/api/v1/me")[1]["user"]["admin"] is True
    assert login(here, "determined", TOKEN)[0] == 200
    assert DeterminedCalls(here.gateway_port, token=TOKEN).get("/api/v1/users")[0] == 200


def test_a_session_from_before_the_accounts_is_over(here: Served, request: pytest.FixtureRequest) -> None:
    """Without accounts every holder of the home's token is an admin, under any name."""
    before = DeterminedCalls(here.gateway_port, token=login(here, BOB, TOKEN)[1]["token"])
    assert before.get("/api/v1/me")[1]["user"]["admin"] is True
    request.getfixturevalue("admin")
    assert before.get("/api/v1/me")[0] == 401


def test_a_logout_revokes_the_token(here: Served, admin: Client) -> None:
    """N15."""
    calls, other = calls_of(here, BOB), calls_of(here, BOB)
    assert calls.post("/api/v1/auth/logout") == (200, {})
    status, found = calls.get("/api/v1/me")
    assert (status, "was revoked" in found["message"]) == (401, True)
    assert other.get("/api/v1/me")[0] == 200
    assert [each.revoked_at is None for each in admin.tokens(user=BOB)].count(False) == 1
    viewer = calls_of(here, VERA)
    assert viewer.post("/api/v1/auth/logout") == (200, {})
    assert viewer.get("/api/v1/me")[0] == 401


def test_a_token_is_a_bearer_and_a_password(here: Served, admin: Client) -> None:
    """N15. A service account has no password: its token is typed in place of one, or is in DET_USER_TOKEN."""
    made = admin.add_token("nightly runs", user=NIGHTLY, scopes=(Action.SUBMIT,), lifetime_s=None)
    bearer = DeterminedCalls(here.gateway_port, token=made.text)
    status, found = login(here, NIGHTLY, made.text)
    assert status == 200
    session = DeterminedCalls(here.gateway_port, token=found["token"])
    assert login(here, BOB, made.text)[0] == 403, "it is nobody else's"
    for calls in (bearer, session):
        assert calls.get("/api/v1/me")[1]["user"]["username"] == NIGHTLY
        made_id = create(calls, SINGLE)["id"]
        status, found = calls.post(f"/api/v1/experiments/{made_id}/pause")
        assert (status, "may not change runs: its scopes are open, read, submit" in found["message"]) == (
            403,
            True,
        )
    assert session.post("/api/v1/auth/logout") == (200, {})
    assert (session.get("/api/v1/me")[0], bearer.get("/api/v1/me")[0]) == (401, 200)
    second = DeterminedCalls(here.gateway_port, token=login(here, NIGHTLY, made.text)[1]["token"])
    admin.revoke_token(made.token.id)
    assert (second.get("/api/v1/me")[0], bearer.get("/api/v1/me")[0]) == (401, 401)
    status, found = login(here, NIGHTLY, made.text)
    assert (status, "was revoked" in found["message"]) == (403, True)


def test_expired_and_unknown_tokens_and_disabled_accounts_are_refused(here: Served, admin: Client) -> None:
    made = admin.add_token("short", user=BOB, lifetime_s=60.0)
    calls = DeterminedCalls(here.gateway_port, token=made.text)
    session = DeterminedCalls(here.gateway_port, token=login(here, BOB, made.text)[1]["token"])
    here.clock.advance(61.0)
    for each in (calls, session):
        status, found = each.get("/api/v1/me")
        assert (status, "has expired" in found["message"]) == (401, True)
    assert DeterminedCalls(here.gateway_port, token="tarmac_x").get("/api/v1/me")[0] == 401
    late = calls_of(here, BOB)
    admin.set_user(BOB, AccountSettings(disabled=True))
    assert late.get("/api/v1/me")[0] == 401
    assert login(here, BOB, password_of(BOB))[0] == 403


def test_a_viewer_reads_and_changes_nothing(here: Served, admin: Client) -> None:
    """N15."""
    create(calls_of(here, BOB), SINGLE)
    turn(here)
    viewer = calls_of(here, VERA)
    assert [each["username"] for each in viewer.get("/api/v1/experiments")[1]["experiments"]] == [BOB]
    assert viewer.get("/api/v1/trials/1")[0] == 200
    refused = [
        submitted(viewer),
        viewer.post("/api/v1/preview-hp-search", {"config": {}}),
        viewer.post("/api/v1/experiments/1/kill"),
        viewer.post("/api/v1/experiments/continue", {"id": 1, "overrideConfig": "null"}),
        viewer.ask("PATCH", "/api/v1/experiments/1", {"name": "mine"}),
        viewer.post("/api/v1/trials/1/metrics", {"metrics": {"metrics": {"avgMetrics": {"loss": 0}}}}),
        viewer.post("/api/v1/agents/node-0/disable", {}),
        viewer.get("/api/v1/master/logs"),
        viewer.post("/api/v1/users", {"user": {"username": "eve", "admin": True, "active": True}}),
        viewer.ask("PATCH", "/api/v1/users/olga", {"active": False}),
    ]
    assert [status for status, _ in refused] == [403] * len(refused)
    assert "vera may not submit runs (this takes the role member)" in refused[0][1]["message"]


def test_a_member_changes_their_own_experiments_alone(here: Served, admin: Client) -> None:
    """I2, N15."""
    bob, cleo = calls_of(here, BOB), calls_of(here, CLEO)
    create(bob, SINGLE)
    turn(here)
    turn(here)
    assert cleo.get("/api/v1/experiments/1")[0] == 200
    for answer in (
        cleo.post("/api/v1/experiments/1/cancel"),
        cleo.post("/api/v1/trials/1/kill"),
        cleo.ask("PATCH", "/api/v1/experiments/1", {"name": "mine"}),
        cleo.post("/api/v1/trials/1/metrics", {"metrics": {"metrics": {"avgMetrics": {"loss": 0}}}}),
        cleo.post("/api/v1/agents/node-0/disable", {}),
    ):
        assert answer[0] == 403, answer
    assert bob.post("/api/v1/experiments/1/cancel") == (200, {})
    assert calls_of(here, OLGA).post("/api/v1/experiments/1/kill") == (200, {})


def test_hidden_runs_are_not_found(here: Served, admin: Client) -> None:
    """I2: the organisation decides what its members see of each other."""
    bob, cleo, olga = (calls_of(here, name) for name in (BOB, CLEO, OLGA))
    create(bob, SINGLE + "workspace: w\nproject: secret\n")
    turn(here)
    turn(here)
    task = bob.get("/api/v1/trials/1")[1]["trial"]["taskId"]
    paths = (
        "/api/v1/experiments/1",
        "/api/v1/experiments/1/trials",
        "/api/v1/experiments/1/model_def",
        "/api/v1/experiments/1/checkpoints",
        "/api/v1/trials/1",
        "/api/v1/trials/1/workloads",
        "/api/v1/trials/1/logs/fields",
        "/api/v1/trials/1/checkpoints",
        f"/api/v1/tasks/{task}/logs/fields",
        f"/api/v1/tasks/{task}/context_directory",
        "/api/v1/trials/metrics/trial_metrics?trialIds=1",
    )
    admin.set_organisation("default", Visibility.OWN)
    for path in paths:
        assert cleo.raw("GET", path)[0] == 404, path
        assert (bob.raw("GET", path)[0], olga.raw("GET", path)[0]) == (200, 200), path
    assert submitted(cleo, SINGLE, parentId=1)[0] == 404
    span = {"timestamp_after": "1970-01-01T00:00:00Z", "timestamp_before": "1971-01-01T00:00:00Z"}

    def seen(calls: DeterminedCalls) -> list[int]:
        jobs = calls.get("/api/v1/job-queues-v2")[1]["jobs"]
        projects = calls.get("/api/v1/workspaces/1/projects")[1]["projects"]
        tasks = calls.get("/api/v1/tasks")[1]["allocationIdToSummary"]
        used = calls.get("/api/v1/resources/allocation/raw", **span)[1]["resourceEntries"]
        experiments = calls.get("/api/v1/experiments")[1]["experiments"]
        return [len(each) for each in (experiments, jobs, tasks, used, projects)]

    assert (seen(cleo), seen(bob), seen(olga)) == ([0, 0, 0, 0, 1], [1, 1, 1, 1, 2], [1, 1, 1, 1, 2])
    assert [each["username"] for each in cleo.get("/api/v1/users")[1]["users"]] == [CLEO]
    token = TokenMaker(TOKEN).make(
        Claim(kind=TokenKind.ALLOCATION, subject=f"{_run_of(here)}.1", owner=CLEO), until=here.clock.now() + 9
    )
    code = DeterminedCalls(here.gateway_port, token=token)
    assert code.get("/api/v1/experiments/1")[0] == 404, "the code of a run sees what its user may see"
    admin.set_organisation("default", Visibility.CONTROL)
    assert cleo.post("/api/v1/experiments/1/cancel") == (200, {})


def _run_of(here: Served) -> str:
    return str(here.client().runs().runs[0].id)


def test_users_are_the_accounts(here: Served, admin: Client) -> None:
    """N15: `det user list`, `create`, `deactivate`, `activate`, `change-password`, of an admin."""
    olga = calls_of(here, OLGA)
    users = {each["username"]: each for each in olga.get("/api/v1/users")[1]["users"]}
    assert {name: each["admin"] for name, each in users.items()} == {
        name: name == OLGA for name in (OLGA, BOB, VERA, CLEO, NIGHTLY)
    }
    new = {"username": "dan", "admin": False, "active": True, "remote": False}
    body = {"user": new, "password": salted("A password 1"), "isHashed": True}
    status, found = olga.post("/api/v1/users", body)
    assert (status, found["user"]["username"], found["user"]["admin"]) == (200, "dan", False)
    assert login(here, "dan", "A password 1")[0] == 200
    assert admin.login("dan", "A password 1").token.user == "dan", "it is the password everywhere"
    status, again = olga.post("/api/v1/users", body)
    assert (status, "there is a user dan already" in again["message"]) == (409, True)

    one = f"/api/v1/users/{olga.get('/api/v1/users/dan/by-username')[1]['user']['id']}"
    assert olga.ask("PATCH", one, {"active": False})[1]["user"]["active"] is False
    assert login(here, "dan", "A password 1")[0] == 403
    names = [each["username"] for each in olga.get("/api/v1/users", active="true")[1]["users"]]
    assert "dan" not in names
    assert olga.ask("PATCH", one, {"active": True, "admin": True})[1]["user"]["admin"] is True
    assert olga.ask("PATCH", one, {"password": salted("B password 2"), "isHashed": True})[0] == 200
    assert (login(here, "dan", "A password 1")[0], login(here, "dan", "B password 2")[0]) == (403, 200)
    for wrong in ({"password": "plain", "isHashed": True}, {"username": "other"}):
        assert olga.ask("PATCH", one, wrong)[0] == 400, wrong
    assert olga.ask("PATCH", "/api/v1/users/77", {"active": False})[0] == 404


def test_projects_have_members(here: Served, admin: Client) -> None:
    """N15: `det project create`, `list`, `describe`."""
    olga, bob, cleo = (calls_of(here, name) for name in (OLGA, BOB, CLEO))
    status, refused = bob.post("/api/v1/workspaces/1/projects", {"name": "vision", "workspaceId": 1})
    assert (status, "may not change the members of vision" in refused["message"]) == (403, True)
    status, made = olga.post("/api/v1/workspaces/1/projects", {"name": "vision", "workspaceId": 1})
    assert (status, made["project"]["description"]) == (200, "olga (admin)")
    number = made["project"]["id"]
    assert olga.post("/api/v1/workspaces/1/projects", {"name": "vision", "workspaceId": 1})[0] == 409
    admin.set_member("vision", BOB, ActorRole.MEMBER)
    assert bob.get(f"/api/v1/projects/{number}")[1]["project"]["description"] == "bob (member), olga (admin)"
    inside = create(bob, SINGLE, projectId=number)
    assert (inside["projectName"], inside["projectId"]) == ("vision", number)
    for status, found in (
        submitted(cleo, SINGLE, projectId=number),
        submitted(cleo, SINGLE + "workspace: w\nproject: vision\n"),
    ):
        assert (status, "cleo may not submit runs in project vision" in found["message"]) == (403, True)
    assert bob.get("/api/v1/experiments", projectId=number)[1]["experiments"][0]["id"] == inside["id"]
    assert cleo.get("/api/v1/experiments", projectId=number)[1]["experiments"] == []
    assert cleo.get(f"/api/v1/experiments/{inside['id']}")[0] == 404
    [trial] = bob.get(f"/api/v1/experiments/{inside['id']}/trials")[1]["trials"]
    assert cleo.get(f"/api/v1/trials/{trial['id']}")[0] == 404
    texts = [
        submitted(cleo, SINGLE.replace("{name", f"{{source_trial_id: {source}, name"))
        for source in (trial["id"], 987654)
    ]
    assert [status for status, _ in texts] == [400, 400]
    assert [found["message"].count("there is no trial") for _, found in texts] == [1, 1]


def test_changes_and_refusals_are_in_the_audit_log(here: Served, admin: Client) -> None:
    """N15."""
    viewer = calls_of(here, VERA)
    viewer.post("/api/v1/experiments/1/kill")
    viewer.get("/api/v1/experiments")
    login(here, BOB, "guess")
    found = [(each.user, each.action, each.target, each.status) for each in admin.audit()]
    assert found[:3] == [
        ("", "POST", "/auth/login", 403),
        (VERA, "POST", "/experiments/1/kill", 403),
        (VERA, "POST", "/auth/login", 200),
    ]
