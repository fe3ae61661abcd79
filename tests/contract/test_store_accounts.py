"""The record of accounts, tokens and the audit log: the same promises on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from threading import Thread

import pytest

from tarmac.model.actor import Action, ActorRole
from tarmac.model.codec import replace
from tarmac.model.notification import Channel, Receiver, Subscription
from tarmac.model.people.account import Account, AuditEntry, Membership, Organisation, Token, Visibility
from tarmac.model.summary import SavedView
from tarmac.store import SqlStore, open_store

ADA = Account(name="ada", role=ActorRole.ADMIN, created_at=1.5)
BOB = Account(name="bob", role=ActorRole.VIEWER, created_at=2.5, organisation="lab", system_user="bob1")
TOKEN = Token(id="t1", user="ada", label="ci", created_at=3.0, scopes=(Action.READ,), expires_at=9.0)


@pytest.fixture
def sql_store(database_url: str) -> Iterator[SqlStore]:
    with closing(open_store(database_url)) as opened:
        yield opened


def test_an_account_is_kept_with_its_password_until_it_is_removed(sql_store: SqlStore) -> None:
    """N15."""
    records = sql_store.accounts
    assert records.people().accounts == {}
    records.put_account(ADA, password="hash")
    assert records.add_account(BOB)
    assert not records.add_account(replace(BOB, disabled=True))
    records.put_account(replace(ADA, disabled=True))
    assert records.people().accounts == {"ada": replace(ADA, disabled=True), "bob": BOB}
    assert (records.password("ada"), records.password("bob"), records.password("eve")) == ("hash", None, None)
    records.put_membership(Membership(project="p", user="ada", role=ActorRole.MEMBER))
    records.add_token(TOKEN, digest="d1")
    mail = Subscription(receiver=Receiver(channel=Channel.EMAIL, address="ada@lab.example"))
    for user in ("ada", "bob"):
        sql_store.notifications.subscribe(user, [mail])
        sql_store.run_views.save(user, SavedView(name="failed", query="status=failed"))
    records.remove_account("ada")
    people = records.people()
    assert (list(people.accounts), people.memberships, records.tokens()) == (["bob"], [], [])
    assert sql_store.notifications.subscriptions() == {"bob": (mail,)}
    assert [len(sql_store.run_views.saved(user)) for user in ("ada", "bob")] == [0, 1]


def test_memberships_and_organisations_replace_those_before(sql_store: SqlStore) -> None:
    records = sql_store.accounts
    for role in (ActorRole.MEMBER, ActorRole.ADMIN):
        records.put_membership(Membership(project="p", user="ada", role=role))
    records.put_membership(Membership(project="p", user="bob", role=ActorRole.VIEWER))
    records.remove_membership("p", "bob")
    records.remove_membership("p", "nobody")
    assert records.people().memberships == [Membership(project="p", user="ada", role=ActorRole.ADMIN)]
    for visibility in Visibility:
        records.put_organisation(Organisation(name="lab", visibility=visibility))
    assert records.people().organisations == {"lab": Organisation(name="lab", visibility=Visibility.OWN)}


def test_a_token_is_found_by_its_digest_and_revoked_once(sql_store: SqlStore) -> None:
    records = sql_store.accounts
    assert records.add_token(TOKEN, digest="d1")
    assert records.add_token(replace(TOKEN, id="t2", created_at=1.0), digest="d2")
    assert not records.add_token(replace(TOKEN, id="t3"), digest="d1")
    assert not records.add_token(TOKEN, digest="d3")
    assert records.token("d1") == TOKEN
    assert records.token("nothing") is None
    assert [token.id for token in records.tokens("ada")] == ["t2", "t1"]
    assert records.tokens("bob") == []
    records.note_use("t1", at=5.0)
    assert records.revoke(at=6.0, token_id="t1") == 1
    assert records.revoke(at=7.0, token_id="t1") == 0
    assert records.token("d1") == replace(TOKEN, last_used_at=5.0, revoked_at=6.0)
    assert records.revoke(at=8.0, user="ada") == 1


def test_the_audit_log_only_grows_whoever_writes(sql_store: SqlStore) -> None:
    records = sql_store.accounts
    entry = AuditEntry(at=1.0, user="ada", origin="local", action="POST", target="/runs", status=201)

    def write(user: str) -> None:
        for at in range(20):
            records.add_audit([replace(entry, at=float(at), user=user)])

    threads = [Thread(target=write, args=(user,)) for user in ("ada", "bob")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = records.audit(limit=1000)
    assert len(found) == len({each.id for each in found}) == 40
    assert [each.at for each in found] == sorted((each.at for each in found), reverse=True)
    assert {each.user for each in records.audit(user="bob", since=18.0, limit=100)} == {"bob"}
    assert len(records.audit(since=18.0, limit=100)) == 4
    assert len(records.audit(limit=3)) == 3
