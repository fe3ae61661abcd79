"""Secrets: sealed as they are kept, opened by whoever has the key, hidden for ever."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from scratch_store import ScratchDatabase
from tarmac.api.storage_operations import SecretBody
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Refused, TarmacError, Unavailable
from tarmac.model.secret import SHARED, SecretForm, SecretUse, project_scope, user_scope
from tarmac.store.secrets import SqlSecrets
from tarmac.vault import KeyFile, Vault

VALUE = "wandb-0123456789"
ADA = user_scope("ada")


def own(name: str, scope: str = ADA) -> SecretUse:
    return SecretUse(name=name, scope=scope)


class Kept:
    """A vault, its record and its key file."""

    def __init__(self, directory: Path) -> None:
        self.records = SqlSecrets(ScratchDatabase())
        self.file = directory / "secrets.key"
        self.clock = VirtualClock(1000.0)

    def vault(self, file: Path | None = None) -> Vault:
        """A server's own, on the same record."""
        return Vault(self.records, KeyFile(file or self.file), self.clock)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_a_value_is_kept_sealed_and_given_by_name(kept: Kept) -> None:
    """N4."""
    vault = kept.vault()
    version = vault.set("wandb", SecretBody(value=VALUE), user="ada", scope=ADA)
    assert (version.number, version.user, version.created_at) == (1, "ada", 1000.0)
    assert VALUE not in repr(kept.records.versions())
    assert kept.vault().values([own("wandb")]) == {"wandb": VALUE}
    assert stat.S_IMODE(kept.file.stat().st_mode) == 0o600
    assert [secret.name for secret in vault.newest()] == ["wandb"]


def test_the_newest_value_is_given_and_every_one_is_known_for_hiding(kept: Kept) -> None:
    vault = kept.vault()
    for value in (VALUE, "second-value", "second-value"):
        vault.set("a", SecretBody(value=value), user="ada", scope=ADA)
    assert vault.values([own("a")]) == {"a": "second-value"}
    assert vault.newest(["a"])[0].number == 2
    vault.remove(own("a"))
    assert vault.past_values([own("a")]) == [VALUE, "second-value"]
    with pytest.raises(InvalidInput, match="no secret 'a' any more"):
        vault.values([own("a")])
    assert vault.set("a", SecretBody(value=VALUE), user="bo", scope=ADA).number == 3
    assert vault.values([own("a")]) == {"a": VALUE}
    vault.purge(own("a"))
    assert vault.past_values([own("a")]) == []
    assert vault.newest() == []


def test_what_is_not_said_anew_stays(kept: Kept) -> None:
    vault = kept.vault()
    new = SecretBody(value=VALUE, form=SecretForm.VARIABLE, variable="A_KEY")
    vault.set("a", new, user="ada", scope=ADA)
    again = vault.set("a", SecretBody(value="another-value"), user="ada", scope=ADA)
    assert (again.form, again.variable) == (SecretForm.VARIABLE, "A_KEY")
    other = vault.set("a", SecretBody(value="another-value", form=SecretForm.FILE), user="ada", scope=ADA)
    assert (other.number, other.form, other.variable) == (3, SecretForm.FILE, None)


def test_a_row_that_was_changed_or_moved_does_not_open(kept: Kept) -> None:
    vault = kept.vault()
    one = vault.set("one", SecretBody(value=VALUE), user="ada", scope=ADA)
    vault.set("two", SecretBody(value="something-else"), user="ada", scope=ADA)
    kept.records.reseal([replace(vault.newest(["two"])[0], sealed=one.sealed)])
    with pytest.raises(Unavailable, match="two cannot be opened"):
        vault.values([own("two")])


def test_several_servers_share_a_key_file_and_none_makes_a_second_key(kept: Kept, tmp_path: Path) -> None:
    kept.vault().set("a", SecretBody(value=VALUE), user="ada", scope=ADA)
    stranger = kept.vault(tmp_path / "another.key")
    with pytest.raises(Unavailable, match="sealed with a key that is not here"):
        stranger.values([own("a")])
    with pytest.raises(Refused, match="sealed with a key that is not here"):
        stranger.set("b", SecretBody(value=VALUE), user="bo", scope=ADA)
    assert stranger.past_values([own("a")]) == []
    assert not (tmp_path / "another.key").exists()
    (tmp_path / "another.key").touch(0o600)
    (tmp_path / "another.key").write_bytes(kept.file.read_bytes())
    assert stranger.values([own("a")]) == {"a": VALUE}


def test_a_rotation_leaves_nothing_of_the_old_key(kept: Kept) -> None:
    vault, other = kept.vault(), kept.vault()
    assert vault.rotate() == 0
    for name in ("a", "b"):
        vault.set(name, SecretBody(value=VALUE), user="ada", scope=ADA)
    vault.remove(own("b"))
    assert other.values([own("a")]) == {"a": VALUE}
    before = kept.file.read_bytes()
    assert vault.rotate() == 2
    assert len(kept.file.read_bytes().split()) == 1
    assert kept.file.read_bytes() != before
    assert len({version.key_id for version in kept.records.versions()}) == 1
    assert other.values([own("a")]) == vault.values([own("a")]) == {"a": VALUE}
    assert other.past_values([own("b")]) == [VALUE]


def test_a_rotation_that_was_broken_off_loses_nothing(kept: Kept) -> None:
    """Both keys are in the file until everything is sealed with the new one."""
    kept.vault().set("a", SecretBody(value=VALUE), user="ada", scope=ADA)
    KeyFile(kept.file).add()
    assert kept.vault().values([own("a")]) == {"a": VALUE}
    kept.vault().set("b", SecretBody(value=VALUE), user="ada", scope=ADA)
    assert kept.vault().rotate() == 2
    assert kept.vault().values([own("a"), own("b")]) == {"a": VALUE, "b": VALUE}


def test_what_another_server_sealed_during_a_rotation_opens_after_it(kept: Kept) -> None:
    other = kept.vault()
    other.set("a", SecretBody(value=VALUE), user="ada", scope=ADA)

    class Meddling(SqlSecrets):
        """Takes a rotation in the moment before a value is kept."""

        def add(self, version):  # type: ignore[no-untyped-def]
            Vault(kept.records, KeyFile(kept.file), kept.clock).rotate()
            return kept.records.add(version)

        def versions(self, names=None):  # type: ignore[no-untyped-def]
            return kept.records.versions(names)

        def reseal(self, versions):  # type: ignore[no-untyped-def]
            kept.records.reseal(versions)

    Vault(Meddling(ScratchDatabase()), KeyFile(kept.file), kept.clock).set(
        "b", SecretBody(value=VALUE), user="bo", scope=ADA
    )
    assert kept.vault().values([own("a"), own("b")]) == {"a": VALUE, "b": VALUE}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("../x", VALUE, "cannot be the name"),
        ("", VALUE, "cannot be the name"),
        ("a\n", VALUE, "cannot be the name"),
        ("a" * 64, VALUE, "cannot be the name"),
        ("a", "abc", "fewer than 4"),
        ("a", " a \n ", "fewer than 4"),
        ("a", "qqq\0qqq", "NUL"),
        ("a", "qqq\ud800", "not text"),
        ("a", "q" * 65_537, "at most 65536"),
    ],
)
def test_what_cannot_be_kept_is_refused_without_the_value(
    kept: Kept, name: str, value: str, words: str
) -> None:
    with pytest.raises(TarmacError, match=words) as caught:
        kept.vault().set(name, SecretBody(value=value), user="ada", scope=ADA)
    assert value not in str(caught.value)
    assert "qqq" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "x\n", "QUJD\n"])
def test_a_key_file_that_is_none_is_said(kept: Kept, content: str) -> None:
    kept.vault().set("a", SecretBody(value=VALUE), user="ada", scope=ADA)
    kept.file.write_text(content)
    with pytest.raises(TarmacError, match="key"):
        kept.vault().values([own("a")])
    with pytest.raises(TarmacError, match="key"):
        kept.vault().set("a", SecretBody(value=VALUE), user="ada", scope=ADA)


def test_a_key_file_that_others_may_read_is_refused(kept: Kept) -> None:
    kept.vault().set("a", SecretBody(value=VALUE), user="ada", scope=ADA)
    kept.file.chmod(0o644)
    with pytest.raises(Unavailable, match="can be read by others"):
        kept.vault().values([own("a")])


def test_the_uses_of_a_new_run_are_settled(kept: Kept) -> None:
    vault = kept.vault()
    vault.set("plain", SecretBody(value=VALUE), user="ada", scope=ADA)
    new = SecretBody(value=VALUE, form=SecretForm.VARIABLE, variable="OWN")
    vault.set("own", new, user="ada", scope=ADA)
    plain = SecretUse(name="plain", form=SecretForm.VARIABLE, variable="P", scope=ADA)
    has_form = SecretUse(name="own", form=SecretForm.VARIABLE, variable="OWN", scope=ADA)
    assert vault.resolved([plain, SecretUse(name="own")], [ADA]) == ([plain, has_form], [])
    assert vault.resolved([plain], [ADA], every=True) == ([plain, has_form], [])
    override = replace(plain, variable="OWN")
    assert vault.resolved([override], [ADA], every=True) == ([override], [])
    _, problems = vault.resolved([SecretUse(name="plain"), SecretUse(name="owm")], [ADA])
    assert [problem.message for problem in problems] == [
        "secret 'plain' needs a variable",
        "there is no secret 'owm'",
    ]
    assert "did you mean own?" in str(problems[1].hint)


def test_a_name_means_the_secret_of_the_first_scope_that_has_it(kept: Kept) -> None:
    """N16: three secrets of one name have values, numbers and ends of their own."""
    vault, vision = kept.vault(), project_scope("vision")
    scopes = [ADA, vision, SHARED]
    for number, scope in enumerate(reversed(scopes)):
        vault.set("a", SecretBody(value=f"value-{number}"), user="ada", scope=scope)
        use = SecretUse(name="a", form=SecretForm.VARIABLE, variable="A")
        ((found,), _) = vault.resolved([use], scopes)
        assert (found.scope, vault.values([found])) == (scope, {"a": f"value-{number}"})
    assert [each.number for each in vault.newest(["a"])] == [1, 1, 1]
    vault.remove(own("a"))
    assert vault.usable(scopes)["a"].scope == vision
    assert vault.past_values([own("a")]) == ["value-2"]
    with pytest.raises(InvalidInput, match="no secret 'a' any more") as gone:
        vault.values([own("a")])
    assert gone.value.hint == "tarmac secret set a sets it"
    vault.purge(own("a", vision))
    for scope, option in ((vision, "--project vision"), (SHARED, "--shared")):
        vault.remove(own("a", scope))
        with pytest.raises(InvalidInput) as gone:
            vault.values([own("a", scope)])
        assert gone.value.hint == f"tarmac secret set a {option} sets it"


def test_a_row_that_was_moved_to_another_owner_does_not_open(kept: Kept) -> None:
    """N16: the scope is part of what seals a value."""
    vault = kept.vault()
    hers = vault.set("a", SecretBody(value=VALUE), user="ada", scope=ADA)
    kept.records.add(replace(hers, scope=user_scope("bo"), user="bo"))
    with pytest.raises(Unavailable, match="a cannot be opened"):
        vault.values([own("a", user_scope("bo"))])


def test_one_of_every_secret_with_a_form_is_given_by_the_nearest_owner(kept: Kept) -> None:
    vault = kept.vault()
    for scope in (SHARED, ADA, user_scope("bo")):
        new = SecretBody(value=VALUE, form=SecretForm.VARIABLE, variable="A_KEY")
        vault.set("a" if scope == SHARED else f"of-{scope[5:]}", new, user="ada", scope=scope)
    uses, _ = vault.resolved([], [ADA, SHARED], every=True)
    assert [(use.name, use.scope) for use in uses] == [("of-ada", ADA), ("a", SHARED)]
