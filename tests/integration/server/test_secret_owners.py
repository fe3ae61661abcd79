"""Secrets of several users over HTTP: a user's own, those of a project, and those for everyone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from click.testing import CliRunner, Result

from actors import ADA, member
from determined_experiments import turn
from served import HELLO, MEMBER, OWNER, TOKEN, Served
from tarmac.api.storage_operations import SecretBody
from tarmac.cli.main import program
from tarmac.client import Client
from tarmac.model.actor import Actor
from tarmac.model.codec import replace
from tarmac.model.errors import Forbidden, InvalidInput, NotFound, Refused
from tarmac.model.secret import SERVER, SHARED, SecretForm, SecretUse, project_scope, user_scope
from tarmac.server.storage.secret_service import SecretService

HERS, HIS, SAME = "hers-0123456789", "his-0123456789", "of-all-0123456789"
VISION = project_scope("vision")
GIVEN = "name: given\nproject: vision\nsecrets: {K: k}\ncommand: echo hello\n"
SEARCH = (
    "name: search\nslots: 1\nsecrets: {K: k}\ncommand: work ${parameters.lr}\nparameters: {lr: [0.1, 0.2]}\n"
    "search: {method: grid, metric: loss}\n"
)
ONE = (
    "name: one\nslots: 1\nsecrets: {K: k}\ncommand: work\nparameters: {lr: 0.1}\n"
    "search: {method: single, metric: loss}\n"
)


def scope_of(plane: Served, run: str) -> str:
    """The scope that is recorded with the only secret of a run."""
    (use,) = plane.plane.find(ADA, run).spec.secrets
    return use.scope


def value_of(plane: Served, run: str) -> str:
    """The value that the next attempt of a run gets."""
    return plane.secrets.values(plane.plane.find(ADA, run).spec.secrets)["k"]


def tarmac_as_member(plane: Served, *arguments: str, stdin: str | None = None) -> Result:
    environment = {"TARMAC_HOME": str(plane.home.root), "TARMAC_TOKEN": TOKEN}
    environment["TARMAC_URL"] = f"http://127.0.0.1:{plane.member_port}"
    return CliRunner(env=environment).invoke(program, arguments, input=stdin, catch_exceptions=False)


Use = Callable[[Client, str], object]
"""Uses the secret of this name."""


def submits(source: str, **options: Any) -> Use:
    def use(client: Client, name: str) -> object:
        given = json.loads(json.dumps(options).replace("NAME", name))
        return client.submit(source.replace("NAME", name), **given)

    return use


def searches(source: str) -> Use:
    return lambda client, name: client.create_experiment(source.replace("NAME", name))


def native(**fields: Any) -> str:
    return json.dumps({"name": "x", "command": "echo hello"} | fields)


MCLI: Mapping[str, Any] = {"filename": "m.yaml", "dialect": "mcli", "overrides": {"no_container": True}}
MCLI_FILE = "name: m\nimage: x\ncompute: {cpus: 1}\ncommand: echo hello\n"
WAYS: Mapping[str, Use] = {
    "variable": submits(native(secrets={"K": "NAME"})),
    "its own form": submits(native(secrets=["NAME"])),
    "file": submits(native(secrets=[{"name": "NAME", "as": "file"}])),
    "git": submits(native(secrets=[{"name": "NAME", "as": "git"}])),
    "registry": submits(
        native(secrets=[{"name": "NAME", "as": "registry"}], environment={"image": "example.org/box:1"})
    ),
    "env": submits(native(env={"K": "${{ secrets.NAME }}"})),
    "notify": submits(native(notify={"to": "${{ secrets.NAME }}", "as": "slack"})),
    "array": submits(native(array="0-3", secrets={"K": "NAME"})),
    "--secret": submits(native(), overrides={"secrets": {"K": "NAME"}}),
    "MCLI": submits(f"{MCLI_FILE}env_variables: {{K: '${{{{ secrets.NAME }}}}'}}\n", **MCLI),
    "experiment": searches(SEARCH.replace("K: k", "K: NAME")),
    "sweep": lambda client, name: client.create_experiment(
        native(secrets={"K": name}, parameters={"lr": 1}), sweep={"lr": "1,2"}
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("owner", [OWNER, MEMBER])
def test_the_secret_of_another_user_is_like_a_missing_one(plane: Served, way: str, owner: str) -> None:
    """N15: no way of use answers differently, not even to an administrator, and nothing is stored."""
    client, other = plane.client(), plane.member_client()
    if owner == MEMBER:
        client, other = other, client
    client.set_secret("theirs", HERS, form="variable", variable="THEIRS")
    said = []
    for name in ("theirs", "absent"):
        with pytest.raises(InvalidInput) as refused:
            WAYS[way](other, name)
        problems = [(each.message, each.hint or "") for each in refused.value.problems]
        said.append([tuple(text.replace(name, "NAME") for text in each) for each in problems])
    assert said[0] == said[1] == [("there is no secret 'NAME'", "tarmac secret set NAME sets it")]
    assert client.runs().runs == []
    assert client.experiments().experiments == []


def test_an_image_is_not_pulled_with_the_credentials_of_another_user(plane: Served) -> None:
    """N15: `tarmac images pull --secret`."""
    plane.client().set_secret("theirs", "ada:lovelace", form="registry")
    said = []
    for name in ("theirs", "absent"):
        with pytest.raises(InvalidInput) as refused:
            tarmac_as_member(plane, "images", "pull", "example.org/team/box:1", "--secret", name)
        said.append(str(refused.value).replace(name, "NAME"))
    assert said == ["there is no secret 'NAME' (tarmac secret set NAME sets it)"] * 2


def test_a_clone_gets_the_secrets_of_its_own_user(plane: Served) -> None:
    """N16: of the same names, anew; the original keeps the one that it was submitted with."""
    client, other = plane.client(), plane.member_client()
    client.set_secret("k", HERS)
    original = client.submit(GIVEN)
    with pytest.raises(InvalidInput, match="there is no secret 'k'"):
        other.submit(clone=original.id)
    other.set_secret("k", HIS)
    clone = other.submit(clone=original.id)
    assert (scope_of(plane, clone.id), value_of(plane, clone.id)) == (user_scope(MEMBER), HIS)
    back = client.submit(clone=clone.id)
    assert (scope_of(plane, back.id), value_of(plane, back.id)) == (user_scope(OWNER), HERS)


def test_the_nearest_owner_of_a_name_is_recorded_with_the_run(plane: Served) -> None:
    """N16: a user's own, else the project's, else the one for everyone; never another one later."""
    client, other = plane.client(), plane.member_client()
    found = []
    for scope, value in ((SHARED, SAME), (VISION, HERS), (user_scope(MEMBER), HIS)):
        (client if scope != user_scope(MEMBER) else other).set_secret("k", value, scope=scope)
        found.append((other.submit(GIVEN).id, scope, value))
    for run, scope, value in found:
        assert (scope_of(plane, run), value_of(plane, run)) == (scope, value)
    elsewhere = other.submit(GIVEN.replace("vision", "speech"))
    assert scope_of(plane, elsewhere.id) == user_scope(MEMBER)
    assert scope_of(plane, client.submit(GIVEN.replace("vision", "speech")).id) == SHARED
    assert scope_of(plane, client.submit(GIVEN).id) == VISION
    other.remove_secret("k", force=True)
    with pytest.raises(InvalidInput, match="there is no secret 'k' any more"):
        value_of(plane, found[2][0])


def test_a_receiver_of_messages_is_in_the_secret_of_the_nearest_owner(plane: Served) -> None:
    """N16: messages go to the address of the run's user, whoever else has a secret of that name."""
    client, other = plane.client(), plane.member_client()
    client.set_secret("k", HERS)
    other.set_secret("k", HIS)
    run = other.submit(native(notify={"to": "${{ secrets.k }}", "as": "slack", "on": "completed"}))
    plane.turn()
    plane.turn()
    plane.advance(60)
    (message,) = plane.store.notifications.of_run(run.id)
    named = SecretUse(name=message.receiver.address, scope=message.receiver.scope)
    assert plane.secrets.values([named]) == {"k": HIS}


def test_members_of_an_array_and_trials_have_the_secret_of_their_user(plane: Served) -> None:
    other = plane.member_client()
    plane.client().set_secret("k", HERS)
    other.set_secret("k", HIS)
    array = other.submit(f"array: 0-1\n{GIVEN}")
    search = other.create_experiment(SEARCH)
    members = [each.id for each in other.runs(array=array.array_id).runs]
    his = [*members, *(trial.run for trial in other.trials(search.id))]
    assert len(members) == 2
    assert {scope_of(plane, run) for run in his} == {user_scope(MEMBER)}
    forked = plane.client().create_experiment(fork=search.id)
    trials = plane.client().trials(forked.id)
    assert {scope_of(plane, trial.run) for trial in trials} == {user_scope(OWNER)}


def test_an_administrator_uses_no_own_secret_in_the_experiment_of_another_user(plane: Served) -> None:
    """N16: by a changed configuration; the user of the experiment could read it."""
    client, other = plane.client(), plane.member_client()
    other.set_secret("k", HIS)
    made = other.create_experiment(ONE)
    other.stop_experiment(made.id, now=True)
    turn(plane, 10.0)
    turn(plane, 10.0)
    client.set_secret("k", HERS)

    def go_on(actor: Actor) -> None:
        plane.plane.experiments.go_on(actor, made.id, change=lambda spec: replace(spec, labels={"a": "b"}))

    with pytest.raises(InvalidInput, match="there is no secret 'k'"):
        go_on(ADA)
    go_on(member(MEMBER))
    (trial,) = other.trials(made.id)
    assert scope_of(plane, trial.run) == user_scope(MEMBER)


def test_a_system_gives_every_run_the_secrets_that_its_user_may_use(plane: Served) -> None:
    """N15: MCLI gives all secrets with a form to all runs."""
    client, other = plane.client(), plane.member_client()
    form = {"form": "variable", "variable": "HERS"}
    client.set_secret("hers", HERS, **form)
    other.set_secret("his", HIS, **form | {"variable": "HIS"})
    client.set_secret("same", SAME, scope=SHARED, **form | {"variable": "SAME"})
    client.set_secret("of-vision", SAME, scope=VISION, **form | {"variable": "VISION"})
    for user, names in ((client, ["hers", "same"]), (other, ["his", "same"])):
        run = user.submit(MCLI_FILE, **MCLI)
        assert [use["name"] for use in run.spec["secrets"]] == names


def test_no_run_gets_a_secret_of_the_server(plane: Served) -> None:
    """N15: those that settings and clusters name; administrators set, list and remove them."""
    client, other = plane.client(), plane.member_client()
    client.set_secret("k", HERS, scope=SERVER, form="variable", variable="K")
    assert plane.secrets.values([SecretUse(name="k", scope=SERVER)]) == {"k": HERS}
    for user in (client, other):
        with pytest.raises(InvalidInput, match="there is no secret 'k'"):
            user.submit(GIVEN)
        assert "secrets" not in user.submit(MCLI_FILE, **MCLI).spec
    assert ([each.scope for each in client.secrets()], other.secrets()) == ([SERVER], [])
    with pytest.raises(Forbidden):
        other.set_secret("k", HIS, scope=SERVER)
    with pytest.raises(NotFound):
        other.remove_secret("k", scope=SERVER)
    with pytest.raises(Refused, match="there is one of the server"):
        client.remove_secret("k")
    assert client.remove_secret("k", scope=SERVER) is not None


def test_a_user_lists_own_and_common_secrets_and_an_administrator_all(plane: Served) -> None:
    """N15: the names of others are not in lists, and in no hint either."""
    client, other = plane.client(), plane.member_client()
    client.set_secret("hers", HERS)
    other.set_secret("his", HIS)
    client.set_secret("same", SAME, scope=SHARED)
    other.set_secret("of-vision", SAME, scope=VISION)
    seen = [[(each.name, each.scope) for each in user.secrets()] for user in (client, other)]
    common = [("of-vision", VISION), ("same", SHARED)]
    assert seen == [
        [("hers", user_scope(OWNER)), ("his", user_scope(MEMBER)), *common],
        [("his", user_scope(MEMBER)), *common],
    ]
    listed = tarmac_as_member(plane, "secret", "ls").stdout
    assert [line.split()[:3] for line in listed.splitlines()[1:]] == [
        ["his", "bob", "what"],
        ["of-vision", "project", "vision"],
        ["same", "everyone", "what"],
    ]
    with pytest.raises(InvalidInput) as refused:
        other.submit(native(secrets={"K": "her"}))
    assert "hers" not in str(refused.value.problems[0].hint)


def test_each_owner_has_rules_for_changes(plane: Served) -> None:
    """N15: users set their own, the members of a project its own, administrators those for everyone."""
    client, other = plane.client(), plane.member_client()
    with pytest.raises(Forbidden, match="bob may not manage this server"):
        other.set_secret("k", HIS, scope=SHARED)
    for scope in (user_scope(OWNER), "project:", "project:a b", "team:x", "bob"):
        with pytest.raises(InvalidInput, match="cannot set a secret with the scope") as refused:
            other.set_secret("k", HIS, scope=scope)
        assert str(refused.value.hint).startswith("user:bob (without an option), project:NAME")
    with pytest.raises(InvalidInput, match="cannot set a secret"):
        client.set_secret("k", HERS, scope=user_scope(MEMBER))
    client.set_secret("k", HERS, scope=VISION)
    client.set_secret("k", SAME, scope=SHARED)
    for change in (
        lambda: other.set_secret("k", HIS, scope=VISION),
        lambda: other.remove_secret("k", scope=VISION),
    ):
        with pytest.raises(Forbidden, match="bob may not change secrets of ada"):
            change()
    with pytest.raises(Forbidden, match="bob may not manage"):
        other.remove_secret("k", scope=SHARED)
    other.set_secret("mine", HIS, scope=VISION)
    assert client.set_secret("mine", HERS, scope=VISION).number == 2, "an administrator may replace it"


def test_a_secret_is_removed_by_its_name_or_its_name_and_owner(plane: Served) -> None:
    client, other = plane.client(), plane.member_client()
    other.set_secret("k", HIS)
    with pytest.raises(Refused, match="you have no secret 'k'; there is one of bob") as refused:
        client.remove_secret("k")
    assert "--user" in str(refused.value.hint)
    client.set_secret("k", SAME, scope=SHARED)
    client.set_secret("k", HERS, scope=VISION)
    client.set_secret("k", HERS)
    for asked, scope in ((None, user_scope(OWNER)), (VISION, VISION), (SHARED, SHARED)):
        removed = client.remove_secret("k", scope=asked)
        assert removed is not None
        assert removed.scope == scope
    gone = client.remove_secret("k", scope=user_scope(MEMBER))
    assert gone is not None
    assert gone.user == MEMBER
    assert other.secrets() == []


def test_removing_a_secret_of_another_user_is_like_removing_none(plane: Served) -> None:
    """N15: with every option."""
    client, other = plane.client(), plane.member_client()
    client.set_secret("theirs", HERS)
    said = []
    for name in ("theirs", "absent"):
        for options in ({}, {"scope": user_scope(OWNER)}, {"purge": True}, {"scope": VISION, "force": True}):
            with pytest.raises(NotFound) as missing:
                other.remove_secret(name, **options)  # type: ignore[arg-type]
            said.append(str(missing.value).replace(name, "NAME"))
    assert set(said) == {"there is no secret 'NAME' (tarmac secret set NAME sets it)"}
    assert [each.name for each in client.secrets()] == ["theirs"]


def test_options_name_the_owner(plane: Served) -> None:
    """From the command line to the store and back."""

    def tarmac(*arguments: str, stdin: str | None = None, code: int = 0) -> str:
        done = tarmac_as_member(plane, *arguments, stdin=stdin)
        assert done.exit_code == code, done.output
        return done.output

    assert "k is set; a run file" in tarmac("secret", "set", "k", stdin=HIS)
    assert "k is set for project vision; " in tarmac("secret", "set", "k", "--project", "vision", stdin=HIS)
    with pytest.raises(Forbidden, match="may not manage"):
        tarmac("secret", "set", "k", "--shared", stdin=HIS)
    several = tarmac("secret", "set", "k", "--shared", "--project", "vision", stdin=HIS, code=2)
    assert "a secret has one owner" in several
    with pytest.raises(NotFound, match="there is no secret 'k'"):
        tarmac("secret", "rm", "k", "--user", OWNER)
    tarmac("secret", "rm", "k")
    tarmac("secret", "rm", "k", "--project", "vision")
    assert plane.client().secrets() == []


def test_the_log_of_a_run_hides_the_values_of_its_own_secret(plane: Served) -> None:
    """N16: of this scope, also those before."""
    client, other = plane.client(), plane.member_client()
    client.set_secret("k", HERS)
    other.set_secret("k", HIS)
    run = other.submit(GIVEN)
    other.set_secret("k", "a-later-value")
    plane.turn()
    plane.turn()
    plane.engine.write(f"{run.id}.1", "logs/main.0.0.log", f"{HIS} {HERS} a-later-value\n".encode())
    (chunk,) = client.logs(run.id)
    assert chunk.text == f"*** {HERS} ***\n"


def test_the_owner_of_a_server_has_the_same_secrets_under_every_name(plane: Served) -> None:
    """A member of that name is somebody else."""
    secrets = SecretService(plane.secrets.vault, plane.store, owner_names=lambda: {"api": OWNER})
    api, stranger = replace(ADA, user="api"), member("api")
    assert secrets.set(ADA, "k", SecretBody(value=HERS)).scope == user_scope(OWNER)
    spec = plane.plane.find(ADA, plane.client().submit(HELLO).id).spec
    spec = replace(spec, secrets=(SecretUse(name="k", form=SecretForm.VARIABLE),))
    assert secrets.resolved(spec, api)[0].secrets[0].scope == user_scope(OWNER)
    assert len(secrets.resolved(spec, stranger)[1]) == 1
    assert (secrets.set(api, "k", SecretBody(value=HERS)).number, secrets.all(stranger)) == (1, [])
    assert secrets.set(stranger, "k", SecretBody(value=HIS)).scope == "user:api"
    assert secrets.remove(api, "k") is not None
    assert [each.scope for each in secrets.all(ADA)] == ["user:api"]


def test_who_may_use_a_project_decides_over_its_secrets(plane: Served) -> None:
    """N16: for a user who may not, they are missing in runs, lists and removals."""
    members = {(OWNER, "vision")}
    secrets = SecretService(
        plane.secrets.vault, plane.store, lambda actor, name: (actor.user, name) in members
    )
    bob, body = member(MEMBER), SecretBody(value=HERS)
    secrets.set(ADA, "k", body, scope=VISION)
    spec = plane.plane.find(ADA, plane.client().submit(HELLO).id).spec
    spec = replace(spec, project="vision", secrets=(SecretUse(name="k", form=SecretForm.VARIABLE),))
    assert secrets.resolved(spec, ADA)[0].secrets[0].scope == VISION
    (problem,) = secrets.resolved(spec, bob)[1]
    assert (problem.message, problem.hint) == ("there is no secret 'k'", "tarmac secret set k sets it")
    assert secrets.all(bob) == []
    with pytest.raises(InvalidInput, match="cannot set a secret"):
        secrets.set(bob, "k", body, scope=VISION)
    with pytest.raises(NotFound):
        secrets.remove(bob, "k", scope=VISION)
    members.add((MEMBER, "vision"))
    assert secrets.resolved(spec, bob)[1] == []
