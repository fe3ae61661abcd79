"""A project with members, as all others see it: its runs, and everything made of them, are not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from served import HELLO, Served
from tarmac.artifacts.remote import open_blobs
from tarmac.artifacts.versions.sync import Place, Syncer
from tarmac.client import Client
from tarmac.model.actor import ActorRole
from tarmac.model.errors import InvalidInput, NotFound
from tarmac.model.people.account import EVERY_USER, AccountSettings, Visibility

VISION = f"{HELLO}project: vision\n"
SEARCH = f"""{VISION}
search: {{method: random, max_trials: 1, metric: loss}}
parameters: {{lr: {{uniform: [0.1, 1.0]}}}}
"""


@pytest.fixture
def clients(plane: Served) -> dict[str, Client]:
    """Clients of an admin, of bob (a member of the project vision) and eve (none), and of dan elsewhere."""
    owner = plane.client()
    owner.set_user("ada")
    for name in ("bob", "eve"):
        owner.set_user(name)
    owner.set_user("dan", AccountSettings(organisation="elsewhere"))
    owner.set_member("vision", "bob", ActorRole.MEMBER)
    return {
        name: plane.remote_client(owner.add_token("test", user=name).text)
        for name in ("ada", "bob", "eve", "dan")
    }


def keep_checkpoint(plane: Served, run_id: str) -> str:
    """A version of a run's checkpoint, as a sidecar would have made it; its id."""
    root = plane.home.root / f"kept-{run_id}"
    root.mkdir()
    (root / "weights").write_text("weights")
    place = Place(run_id=run_id, attempt=1, kind="checkpoint", rank=0, root=str(root), seen_at=(str(root),))
    Syncer(open_blobs(str(plane.home.root / "artifacts")), place).sync()
    return f"{run_id}.checkpoint"


def start(plane: Served, client: Client, source: str = VISION) -> Any:
    run = client.submit(source)
    plane.turn()
    plane.turn()
    return client.run(run.id)


def test_only_members_and_admins_see_the_runs_of_a_project_with_members(
    plane: Served, clients: dict[str, Client]
) -> None:
    """N15: in lists, the queue, the histories, and all that is made of its runs."""
    run = start(plane, clients["bob"], f"{VISION}slots: 2\n")
    checkpoint = keep_checkpoint(plane, run.id)

    def shown(client: Client) -> dict[str, bool]:
        lists: dict[str, set[str]] = {
            "list": {each.id for each in client.runs(everything=True).runs},
            "queue": {each.id for pool in client.queue() for each in pool.runs},
            "nodes": {each.id for node in client.nodes() for each in node.runs},
            "artifacts": {each.run for each in client.artifacts()},
        }
        return {name: run.id in found for name, found in lists.items()} | {
            "usage": any(each.project == "vision" for each in client.usage())
        }

    plane.clock.advance(60)
    for name, client in clients.items():
        sees = name in ("ada", "bob")
        assert set(shown(client).values()) == {sees}, (name, shown(client))
    questions: list[Callable[[Client], object]] = [
        lambda client: client.run(run.id),
        lambda client: client.run("hello"),
        lambda client: client.run(run.id[:-1]),
        lambda client: client.run("@last"),
        lambda client: client.events(run.id),
        lambda client: client.attempts(run.id),
        lambda client: client.why(run.id),
        lambda client: list(client.logs(run.id)),
        lambda client: client.metrics([run.id]),
        lambda client: client.artifacts(run.id),
        lambda client: client.artifact(checkpoint),
        lambda client: client.stop(run.id),
    ]
    for number, question in enumerate(questions):
        for name in ("eve", "dan"):
            with pytest.raises(NotFound) as hidden:
                question(clients[name])
            assert run.id not in str(hidden.value.hint), number
    nodes = [sum(node.slots_used for node in clients[name].nodes()) for name in ("eve", "ada")]
    assert nodes[0] == nodes[1] > 0, "its slots are used for everybody"


def test_experiments_of_a_closed_project_are_hidden_too(plane: Served, clients: dict[str, Client]) -> None:
    """N15."""
    made = clients["bob"].create_experiment(SEARCH)
    assert [each.id for each in clients["ada"].experiments().experiments] == [made.id]
    assert clients["eve"].experiments().experiments == []
    for reference in (made.id, made.name, made.id[:-1]):
        with pytest.raises(NotFound) as hidden:
            clients["eve"].experiment(reference)
        assert made.id not in str(hidden.value.hint)
    with pytest.raises(NotFound) as hidden:
        clients["eve"].run(made.name)
    assert "experiment" not in str(hidden.value.hint), "not even that there is one"


def test_a_project_can_say_that_it_is_open_to_all(plane: Served, clients: dict[str, Client]) -> None:
    """N15: `*` is every account; a membership of one's own counts before it."""
    run = start(plane, clients["bob"])
    plane.client().set_member("vision", EVERY_USER, ActorRole.VIEWER)
    assert clients["eve"].run(run.id).id == clients["dan"].run(run.id).id == run.id
    plane.client().set_member("vision", EVERY_USER, None)
    with pytest.raises(NotFound):
        clients["eve"].run(run.id)


@pytest.mark.parametrize("visibility", list(Visibility))
def test_the_rule_of_an_organisation_is_about_open_projects(
    plane: Served, clients: dict[str, Client], visibility: Visibility
) -> None:
    """I2, N15: members of a project see each other's runs there whatever their organisations say."""
    owner = plane.client()
    owner.set_organisation("default", visibility)
    owner.set_organisation("elsewhere", visibility)
    owner.set_member("vision", "dan", ActorRole.VIEWER)
    closed, open_ = start(plane, clients["bob"]), start(plane, clients["bob"], f"{HELLO}project: open\n")
    listed = {name: {each.id for each in client.runs().runs} for name, client in clients.items()}
    assert listed["bob"] == listed["ada"] == {closed.id, open_.id}
    assert (closed.id in listed["dan"], closed.id in listed["eve"]) == (True, False)
    assert (open_.id in listed["eve"]) is (visibility is not Visibility.OWN)
    assert (open_.id in listed["dan"]) is (visibility is Visibility.VIEW)


def test_a_run_takes_nothing_from_a_run_that_its_user_may_not_see(
    plane: Served, clients: dict[str, Client]
) -> None:
    """N15: the answer is that for one that does not exist, for inputs, clones and experiments alike."""
    run = start(plane, clients["bob"])
    checkpoint = keep_checkpoint(plane, run.id)
    assert clients["bob"].submit(f"{VISION}input_artifacts: [{checkpoint}]\n").id
    messages = {}
    for reference in (checkpoint, run.id, f"{checkpoint}.1", "no-such.checkpoint", "no-such-run"):
        for client in (clients["eve"], clients["dan"]):
            with pytest.raises(InvalidInput) as refused:
                client.submit(f"{HELLO}input_artifacts: [{reference}]\n")
            messages[reference] = str(refused.value).replace(repr(reference), "IT")
            with pytest.raises(InvalidInput, match="there is no artifact"):
                client.create_experiment(
                    SEARCH.replace("vision", "open") + f"input_artifacts: [{reference}]\n"
                )
    assert len(set(messages.values())) == 1, messages
    with pytest.raises(NotFound):
        clients["dan"].submit(None, clone=run.id)
    own = start(plane, clients["eve"], HELLO.replace("hello", run.id, 1))
    with pytest.raises(InvalidInput, match="there is no artifact"):
        clients["eve"].submit(f"{HELLO}input_artifacts: [{checkpoint}]\n")
    assert own.name == run.id, "a run of the hidden one's id as its name opens nothing"
    seen = start(plane, clients["bob"], f"{HELLO}input_artifacts: [{checkpoint}]\n")
    with pytest.raises(InvalidInput, match="there is no artifact"):
        clients["eve"].submit(None, clone=seen.id)


def test_credits_are_shown_to_those_who_use_them(plane: Served, clients: dict[str, Client]) -> None:
    """I13, N15: one's own and those of one's projects; an admin sees all."""
    owner = plane.client()
    for account in ("user:bob", "user:eve", "project:vision", "project:open"):
        owner.grant_credits(account, 10.0)
    seen = {
        "ada": ["project:open", "project:vision", "user:bob", "user:eve"],
        "bob": ["project:open", "project:vision", "user:bob"],
        "eve": ["project:open", "user:eve"],
        "dan": ["project:open"],
    }
    for name, accounts in seen.items():
        assert [each.account for each in clients[name].credits()] == accounts
        assert sorted(each.account for each in clients[name].credit_entries()) == accounts
        for account in seen["ada"]:
            found = clients[name].credit_entries(account=account)
            assert [each.account for each in found] == [account] * (account in accounts)
