"""The credentials of a cluster for the runs of each user: whose secrets an engine gets."""

from __future__ import annotations

import pytest

from actors import ADA
from served import MEMBER, OWNER, Served
from tarmac.model.cluster import Cluster
from tarmac.model.errors import InvalidInput
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


def test_two_users_of_a_site_have_their_own_logins(plane: Served) -> None:
    """N15: the secrets of a user are for the runs of that user alone."""
    set_login(plane, HERS)
    set_login(plane, HIS, of=MEMBER)
    hers, his = (plane.secrets.credentials(SITE, user) for user in (OWNER, MEMBER))
    assert (hers.owner, hers.values) == (user_scope(OWNER), HERS)
    assert (his.owner, his.values) == (user_scope(MEMBER), HIS)
    assert HERS["password"] not in repr(hers)


def test_questions_about_the_cluster_use_the_login_of_the_user_who_added_it(plane: Served) -> None:
    set_login(plane, HERS)
    assert plane.secrets.credentials(SITE).values == HERS
    plane.plane.clusters.add(ADA, SITE)
    (added,) = plane.store.clusters()
    assert added.added_by == ADA.user


@pytest.mark.parametrize("scope", [SHARED, SERVER])
def test_users_without_a_login_of_their_own_use_the_common_one(plane: Served, scope: str) -> None:
    set_login(plane, HERS, scope=scope)
    assert plane.secrets.credentials(SITE, MEMBER).owner == scope
    set_login(plane, HIS, of=MEMBER)
    assert plane.secrets.credentials(SITE, MEMBER).values == HIS


def test_half_a_login_is_not_joined_with_another_users_half(plane: Served) -> None:
    set_login(plane, HERS, scope=SHARED)
    set_login(plane, {"user": "bob@site"}, of=MEMBER)
    assert plane.secrets.credentials(SITE, MEMBER).values == HERS


def test_a_missing_login_names_the_secret_to_set(plane: Served) -> None:
    set_login(plane, HERS)
    set_login(plane, {"user": "bob@site"}, of=MEMBER)
    with pytest.raises(InvalidInput, match="bob has no secret 'site-password'") as refused:
        plane.secrets.credentials(SITE, MEMBER)
    assert refused.value.hint == "tarmac secret set site-password"


def test_a_cluster_without_credentials_needs_none(plane: Served) -> None:
    assert plane.secrets.credentials(Cluster(name="site", engine="placed")).values == {}
