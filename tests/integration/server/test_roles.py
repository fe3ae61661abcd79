"""The table of roles, tried row by row: every operation with each role, with scopes, and with bad tokens."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from served import HELLO, TOKEN, Served
from tarmac.api.operation import Operation
from tarmac.client import Client
from tarmac.control.permissions import ALLOWED
from tarmac.model.actor import Action, ActorRole
from tarmac.model.errors import (
    Forbidden,
    InvalidInput,
    NotFound,
    Refused,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from tarmac.model.people.account import AccountSettings, Visibility
from tarmac.server.app import routes_of

ROOT = Path(__file__).resolve().parents[3]
PASSWORD = "correct horse battery"


def operations(plane: Served) -> list[Operation[Any, Any, Any]]:
    found = [offer.operation for offer in routes_of(plane.service()).offers]
    return sorted(found, key=lambda each: each.path == "/server/stop")  # nothing answers after it


def ask(plane: Served, operation: Operation[Any, Any, Any], token: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port, timeout=120)
    path = f"{operation.base}{re.sub(r'{.*}', 'x', operation.path)}"
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    connection.request(operation.method, path, body="{}", headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode(errors="replace")
    connection.close()
    return answer.status, text


@pytest.fixture
def people(plane: Served) -> dict[str, Client]:
    """A client of the server's owner, and one for an account of each role."""
    owner = plane.client()
    found = {"owner": owner}
    owner.set_user("ada")
    for role in ActorRole:
        owner.set_user(role, AccountSettings(role=role))
        found[role] = plane.remote_client(owner.add_token("test", user=role).text)
    return found


def refused(text: str) -> bool:
    """Whether an answer refuses the action, and not a thing of another user."""
    return re.search(r"(may not (log in|read|change an account|submit|change runs|manage))", text) is not None


@pytest.mark.parametrize("role", list(ActorRole))
def test_every_operation_is_for_the_roles_of_the_table(
    plane: Served, people: dict[str, Client], role: ActorRole
) -> None:
    """N15: the rows of docs/operating/roles.md."""
    token = people["owner"].add_token("again", user=role).text
    for operation in operations(plane):
        status, text = ask(plane, operation, token)
        if operation.path in ("/logout", "/session"):
            token = people["owner"].add_token("another", user=role).text
        assert (status == 403 and refused(text)) is (operation.action not in ALLOWED[role]), (operation, text)
        assert status not in (401, 500), (operation, status, text)


@pytest.mark.parametrize("scope", [Action.READ, Action.SUBMIT, Action.CONTROL])
def test_a_token_does_what_its_scopes_say(plane: Served, people: dict[str, Client], scope: Action) -> None:
    token = people["owner"].add_token("narrow", user="ada", scopes=[scope]).text
    for operation in operations(plane):
        if operation.action is not Action.OPEN:
            status, _ = ask(plane, operation, token)
            assert (status == 403) is (operation.action not in (scope, Action.READ)), operation


def test_no_operation_takes_a_bad_token(plane: Served, people: dict[str, Client]) -> None:
    """Expired, revoked, of a disabled or a removed account, unknown, and cut short."""
    owner = people["owner"]
    expired = owner.add_token("short", user="admin", lifetime_s=10.0).text
    revoked = owner.add_token("gone", user="admin")
    owner.revoke_token(revoked.token.id)
    owner.set_user("carl")
    disabled = owner.add_token("of carl", user="carl").text
    owner.set_user("carl", AccountSettings(disabled=True))
    owner.set_user("dora")
    removed = owner.add_token("of dora", user="dora").text
    owner.remove_user("dora")
    plane.clock.advance(60)
    good = owner.add_token("good", user="admin").text
    for operation in operations(plane):
        if (operation.action is Action.OPEN and operation.path != "/logout") or operation.path == "/metrics":
            continue
        for token in (expired, revoked.text, disabled, removed, good[:-1], f"{good}x", "tarmac_", "x"):
            assert ask(plane, operation, token)[0] == 401, (operation, token)
    assert not plane.stops.is_set()


def test_the_page_of_roles_is_the_table() -> None:
    tool = [sys.executable, str(ROOT / "tools/roles_page.py"), "--check"]
    result = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_first_account_is_an_admin_of_this_machine(plane: Served) -> None:
    """Every later one begins as a member."""
    with pytest.raises(Refused, match="on the server's own machine"):
        plane.remote_client(TOKEN).set_user("eve")
    assert plane.client().set_user("ada").role is ActorRole.ADMIN
    assert plane.client().set_user("bob").role is ActorRole.MEMBER
    for name in ("", "Ada", "a/b", "-x", "x" * 64, "a b"):
        with pytest.raises((InvalidInput, NotFound)):
            plane.client().set_user(name)
    with pytest.raises(InvalidInput, match="system user 'root'"):
        plane.client().set_user("bob", AccountSettings(system_user="root"))


def test_a_password_gives_a_token_and_a_wrong_one_says_nothing(plane: Served) -> None:
    owner = plane.client()
    owner.set_user("ada", password=PASSWORD)
    owner.set_user("bob", password=PASSWORD)
    anybody = plane.remote_client("")
    made = anybody.login("bob", PASSWORD)
    assert made.text.startswith("tarmac_")
    bob = plane.remote_client(made.text)
    assert bob.account().name == "bob"
    owner.set_user("bob", AccountSettings(disabled=True))
    messages = set()
    for user, password in (("bob", PASSWORD), ("ada", "wrong"), ("nobody", PASSWORD), ("ada", "x" * 4000)):
        with pytest.raises(Unauthorized) as wrong:
            anybody.login(user, password)
        messages.add(str(wrong.value))
    assert len(messages) == 1
    with pytest.raises(InvalidInput, match="10 to 256 characters"):
        owner.set_user("ada", password="short")
    with pytest.raises(Unauthorized, match="revoked"):
        bob.account()


@pytest.mark.heavy
def test_a_password_cannot_be_guessed(plane: Served) -> None:
    """Ten tries a minute for an account, and thirty for an address, whatever the account."""
    owner, anybody = plane.client(), plane.remote_client("")
    owner.set_user("ada", password=PASSWORD)
    for number in range(10):
        with pytest.raises(Unauthorized):
            anybody.login("ada", f"guess number {number}")
    with pytest.raises(TooManyRequests, match="ada: 10 logins to one account in a minute"):
        anybody.login("ada", PASSWORD)
    for number in range(19):
        with pytest.raises(Unauthorized):
            anybody.login(f"nobody{number}", "a guess of ten")
    with pytest.raises(TooManyRequests, match="30 logins from one address in a minute"):
        anybody.login("bob", PASSWORD)


def test_a_new_password_ends_all_logins(plane: Served) -> None:
    plane.client().set_user("ada", password=PASSWORD)
    ada = plane.remote_client(plane.remote_client("").login("ada", PASSWORD).text)
    with pytest.raises(Forbidden, match="the current password is wrong"):
        ada.set_password("another long one", current="wrong")
    ada.set_password("another long one", current=PASSWORD)
    with pytest.raises(Unauthorized, match="revoked"):
        ada.account()
    assert plane.remote_client("").login("ada", "another long one").token.user == "ada"


def test_a_token_makes_none_with_more_scopes_or_for_others(plane: Served, people: dict[str, Client]) -> None:
    narrow = people["owner"].add_token("narrow", user="member", scopes=[Action.ACCOUNT, Action.READ])
    client = plane.remote_client(narrow.text)
    assert set(client.add_token("same").token.scopes or ()) >= {Action.ACCOUNT, Action.READ}
    with pytest.raises(Forbidden, match="sets no password"):
        client.set_password("a way around the scopes")
    of_admin = people["owner"].add_token("narrow", user="admin", scopes=[Action.ACCOUNT])
    with pytest.raises(NotFound):
        plane.remote_client(of_admin.text).revoke_token(narrow.token.id)
    with pytest.raises(Forbidden, match="has not the scope submit"):
        client.add_token("more", scopes=[Action.SUBMIT])
    for other in ("ada", "admin"):
        with pytest.raises(Forbidden):
            people["member"].add_token("theirs", user=other)
    with pytest.raises(InvalidInput, match="at most 366 days"):
        people["member"].add_token("long", lifetime_s=None)
    with pytest.raises(NotFound):
        people["member"].revoke_token(people["owner"].add_token("hers", user="ada").token.id)


def test_a_project_with_members_is_for_them(plane: Served, people: dict[str, Client]) -> None:
    """N15: a member of the server outside the project may not submit to it, its admin changes its runs."""
    owner, member, viewer = (people[name] for name in ("owner", "member", "viewer"))
    source = f"{HELLO}project: vision\n"
    first = member.submit(source)
    owner.set_member("vision", "viewer", ActorRole.ADMIN)
    with pytest.raises(Forbidden, match="in project vision"):
        member.submit(source)
    with pytest.raises(Forbidden, match="in project vision"):
        member.stop(first.id)
    viewer.submit(source)
    viewer.stop(first.id)
    with pytest.raises(Forbidden, match="may not change the members"):
        member.set_member("vision", "member", ActorRole.ADMIN)
    viewer.set_member("vision", "member", ActorRole.MEMBER)
    member.submit(source)
    viewer.set_member("vision", "member", None)
    with pytest.raises(Forbidden):
        member.submit(source)
    owner.submit(source)


def test_a_token_gives_no_role_with_more_than_its_scopes(plane: Served, people: dict[str, Client]) -> None:
    """N15: in a project, to its own account or to another."""
    people["owner"].set_member("vision", "member", ActorRole.ADMIN)
    scopes = [Action.ACCOUNT, Action.SUBMIT]
    narrow = plane.remote_client(people["owner"].add_token("narrow", user="member", scopes=scopes).text)
    for user in ("viewer", "*", "member"):
        for role in (ActorRole.MEMBER, ActorRole.ADMIN):
            with pytest.raises(Forbidden, match="your own token has not the scope"):
                narrow.set_member("vision", user, role)
        narrow.set_member("vision", user, ActorRole.VIEWER)
    assert {each.role for each in people["owner"].members("vision")} == {ActorRole.VIEWER}


@pytest.mark.parametrize("visibility", list(Visibility))
def test_an_organisation_decides_about_each_others_runs(
    plane: Served, people: dict[str, Client], visibility: Visibility
) -> None:
    """I2: anyone in it may view and cancel anyone's runs, or only their owner and admins."""
    owner, member = people["owner"], people["member"]
    owner.set_user("mate")
    owner.set_user("stranger", AccountSettings(organisation="elsewhere"))
    mate, stranger = (
        plane.remote_client(owner.add_token("test", user=name).text) for name in ("mate", "stranger")
    )
    owner.set_organisation("default", visibility)
    run = mate.submit(HELLO)
    foreign = stranger.submit(HELLO)
    listed = {each.id for each in member.runs().runs}
    queued = {entry.id for pool in member.queue() for entry in pool.runs}
    assert (run.id in listed, run.id in queued) == (visibility is not Visibility.OWN,) * 2
    assert (foreign.id in listed) is (visibility is Visibility.VIEW)
    if visibility is Visibility.CONTROL:
        assert member.stop(run.id).id == run.id
    else:
        with pytest.raises(Forbidden if visibility is Visibility.VIEW else NotFound):
            member.stop(run.id)
    for ask_for in (member.run, member.why, member.events, member.attempts):
        if visibility is not Visibility.VIEW:
            with pytest.raises(NotFound):
                ask_for(foreign.id)
    assert {each.id for each in people["admin"].runs().runs} >= {run.id, foreign.id}


def test_changes_and_refusals_are_in_the_audit_log(plane: Served, people: dict[str, Client]) -> None:
    with pytest.raises(Forbidden):
        people["viewer"].submit(HELLO)
    people["member"].submit(HELLO)
    with pytest.raises(Unauthorized):
        plane.remote_client("tarmac_wrong").runs()
    found = [(entry.user, entry.action, entry.target, entry.status) for entry in people["owner"].audit()]
    assert ("viewer", "POST", "/code/needed", 403) in found
    assert ("member", "POST", "/runs", 201) in found
    assert ("", "GET", "/runs", 401) in found
    assert json.dumps([str(entry) for entry in people["owner"].audit()]).count("tarmac_") == 0
    assert {entry.user for entry in people["owner"].audit(user="viewer")} == {"viewer"}
    assert people["owner"].audit(since=plane.clock.now() + 1) == []


def test_a_change_is_in_the_audit_log_before_its_answer(plane: Served, people: dict[str, Client]) -> None:
    """N15: where the log cannot be written, the answer says so; the entry follows with the next one."""
    owner, database = people["owner"], plane.store.database
    for _ in range(20):
        made = people["member"].submit(HELLO)
        newest = owner.audit(limit=1)[0]
        assert (newest.user, newest.target, newest.status) == ("member", "/runs", 201), made.id
    database.failures_before[database.writes + 2] = Unavailable("the disk is full")
    with pytest.raises(Unavailable, match="audit log cannot be written: the disk is full"):
        owner.set_user("dora")
    assert owner.audit(limit=1)[0].target == "/runs"
    assert "dora" in {user.name for user in owner.users()}, "as the hint says"
    owner.set_user("emil")
    assert [each.target for each in owner.audit(limit=2)] == ["/users/emil", "/users/dora"]


def test_entries_of_many_requests_at_once_are_all_there(plane: Served, people: dict[str, Client]) -> None:
    """N15."""
    clients = [plane.remote_client(people["owner"].add_token("x", user="member").text) for _ in range(8)]
    with ThreadPoolExecutor(len(clients)) as pool:
        runs = list(pool.map(lambda client: [client.submit(HELLO).id for _ in range(5)], clients))
    assert len({run for some in runs for run in some}) == 40
    found = [
        each for each in people["owner"].audit(limit=500) if (each.target, each.status) == ("/runs", 201)
    ]
    assert len(found) == 40
