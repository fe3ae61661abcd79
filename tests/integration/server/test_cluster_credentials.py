"""The credentials of a cluster for the runs of each user: whose secrets an engine gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest
from click.testing import CliRunner, Result

from actors import ADA
from cluster_starter import NAME
from served import HELLO, MEMBER, OWNER, TOKEN, Served
from tarmac.cli.main import program
from tarmac.model.cluster import Cluster
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.kinds.engines import EngineKind
from tarmac.model.secret import SERVER, SHARED, user_scope

SITE = Cluster(
    name="site",
    engine="placed",
    credentials={"user": "site-user", "password": "site-password"},
    added_by=OWNER,
)
HERS = {"user": "ada@site", "password": "hers-0123456789"}
HIS = {"user": "bob@site", "password": "his-0123456789"}


def set_login(plane: Served, values: dict[str, str], *, of: str = OWNER, scope: str | None = None) -> None:
    client = plane.client() if of == OWNER else plane.member_client()
    for use, value in values.items():
        client.set_secret(SITE.credentials[use], value, scope=scope)


def login(plane: Served, user: str) -> tuple[str | None, Mapping[str, str]]:
    scope = plane.secrets.login_of(SITE, user)
    return scope, plane.secrets.credentials(SITE, scope)


def test_two_users_of_a_site_have_their_own_logins(plane: Served) -> None:
    """N15: the secrets of a user are for the runs of that user alone."""
    set_login(plane, HERS)
    set_login(plane, HIS, of=MEMBER)
    assert login(plane, OWNER) == (user_scope(OWNER), HERS)
    assert login(plane, MEMBER) == (user_scope(MEMBER), HIS)


def test_questions_about_the_cluster_use_the_login_of_the_user_who_added_it(plane: Served) -> None:
    set_login(plane, HERS)
    assert plane.secrets.credentials(SITE) == HERS
    plane.plane.clusters.add(ADA, replace(SITE, name=NAME))
    (added,) = plane.store.clusters()
    assert added.added_by == ADA.user


@pytest.mark.parametrize("scope", [SHARED, SERVER])
def test_users_without_a_login_of_their_own_use_the_common_one(plane: Served, scope: str) -> None:
    set_login(plane, HERS, scope=scope)
    assert login(plane, MEMBER) == (scope, HERS)
    set_login(plane, HIS, of=MEMBER)
    assert login(plane, MEMBER) == (user_scope(MEMBER), HIS)


def test_half_a_login_is_not_joined_with_another_users_half(plane: Served) -> None:
    set_login(plane, HERS, scope=SHARED)
    set_login(plane, {"user": "bob@site"}, of=MEMBER)
    assert login(plane, MEMBER) == (SHARED, HERS)


def test_a_missing_login_names_the_secret_to_set(plane: Served) -> None:
    set_login(plane, HERS)
    set_login(plane, {"user": "bob@site"}, of=MEMBER)
    with pytest.raises(InvalidInput, match="needs the secret 'site-password', and bob has none") as refused:
        plane.secrets.login_of(SITE, MEMBER)
    assert refused.value.hint == "tarmac secret set site-password"


def test_a_cluster_without_credentials_needs_no_login(plane: Served) -> None:
    bare = replace(SITE, credentials={})
    assert plane.secrets.login_of(bare, OWNER) is None
    assert plane.secrets.credentials(bare) == {}


def tarmac(plane: Served, *arguments: str, member: bool = False, **variables: str) -> Result:
    """A command of the owner of the server, or of another user."""
    environment = {"TARMAC_HOME": str(plane.home.root), **variables}
    if member:
        environment |= {"TARMAC_TOKEN": TOKEN, "TARMAC_URL": f"http://127.0.0.1:{plane.member_port}"}
    return CliRunner(env=environment).invoke(program, arguments, catch_exceptions=False)


def add(plane: Served, *options: str, engine: str = "placed", **variables: str) -> Result:
    return tarmac(plane, "clusters", "add", NAME, "--engine", engine, *options, **variables)


def test_a_cluster_is_added_by_options_alone(plane: Served) -> None:
    result = add(
        plane,
        *("--url", "https://site.example.org/api", "--token-url", "https://auth.example.org/t"),
        *("--system", "daint", "--credential", "user=site-user", "--credential", "password=site-password"),
        *("--set", "pools.train.partition=gpu"),
    )
    assert result.exit_code == 0, result.output
    assert f"cluster {NAME} needs the secret 'site-user', and ada has none of that name" in result.output
    assert "tarmac secret set site-user" in result.output
    (added,) = plane.store.clusters()
    assert added.settings == {
        "url": "https://site.example.org/api",
        "token_url": "https://auth.example.org/t",
        "system": "daint",
        "pools": {"train": {"partition": "gpu"}},
    }
    assert added.credentials == SITE.credentials
    refused = tarmac(plane, "clusters", "add", "site.yaml", "--credential", "user=site-user")
    assert refused.exit_code == 2
    assert "credentials go with --engine" in refused.output


@pytest.mark.parametrize(
    ("engine", "variables"),
    [
        ("unicore", {"user": "MANTIK_UNICORE_USERNAME", "password": "MANTIK_UNICORE_PASSWORD"}),
        (
            "firecrest",
            {"client_id": "MANTIK_FIRECREST_CLIENT_ID", "client_secret": "MANTIK_FIRECREST_CLIENT_SECRET"},
        ),
    ],
)
def test_the_login_of_the_shell_becomes_secrets_of_the_user(
    plane: Served, engine: str, variables: dict[str, str]
) -> None:
    """K10: the variables of Mantik, and never their values in a description."""
    cast("dict[str, EngineKind]", plane.plane.control.engines.kinds)[engine] = plane.starter
    values = {name: f"{use}-0123456789" for use, name in variables.items()}
    result = add(plane, "--url", "https://a.b/c", engine=engine, **values)
    assert result.exit_code == 0, result.output
    (added,) = plane.store.clusters()
    assert added.credentials == {use: f"{NAME}-{use}".replace("_", "-") for use in variables}
    assert plane.secrets.credentials(added) == {use: values[name] for use, name in variables.items()}
    assert not any(value in result.output or value in str(added) for value in values.values())
    one = dict([values.popitem()])
    assert add(plane, "--url", "https://a.b/c", "--replace", engine=engine, **one).exit_code == 0
    assert plane.store.clusters()[0].credentials == {}, "half a login is none"


def test_a_run_of_a_user_without_a_login_is_refused(plane: Served) -> None:
    add(plane, "--credential", "user=site-user", "--credential", "password=site-password")
    set_login(plane, HERS)
    submitted = plane.client().submit(HELLO, overrides={"cluster": NAME})
    assert plane.plane.find(ADA, submitted.id).spec.target.cluster == NAME
    with pytest.raises(InvalidInput, match=f"needs the secret 'site-user', and {MEMBER} has none"):
        plane.member_client().submit(HELLO, overrides={"cluster": NAME})
    set_login(plane, HIS, of=MEMBER)
    his = plane.member_client().submit(HELLO, overrides={"cluster": NAME})
    set_login(plane, HERS, scope=SHARED)
    assert plane.plane.find(ADA, his.id).spec.login == user_scope(MEMBER), "it keeps the login of its jobs"
    hers = plane.client().submit(clone=his.id)
    assert plane.plane.find(ADA, hers.id).spec.login == user_scope(OWNER)
