"""The record of secrets: the same promises in memory, on SQLite and on PostgreSQL."""

from __future__ import annotations

from typing import cast

import pytest

from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.ports import Store
from tarmac.model.secret import SecretForm, SecretRecords, SecretVersion
from tarmac.store import SqlStore

FIRST = SecretVersion(
    name="wandb",
    scope="user:ada",
    number=1,
    sealed="AAAA",
    key_id="k1",
    user="ada",
    created_at=1.5,
)
SECOND = replace(FIRST, number=2, sealed="BBBB", form=SecretForm.VARIABLE, variable="WANDB_API_KEY")
OTHER = replace(FIRST, name="Key-file", form=SecretForm.FILE, path="/secrets/x", user="bo")


MISSING = [replace(FIRST, **other) for other in ({"name": "nothing"}, {"name": "\0"}, {"scope": ""})]


def records_of(store: Store) -> SecretRecords:
    return cast(SqlStore, store).secrets


def test_versions_are_kept_as_they_are_in_order(store: Store) -> None:
    """N4."""
    records = records_of(store)
    assert records.versions() == []
    for version in (SECOND, OTHER, FIRST):
        assert records.add(version)
    assert records.versions() == [OTHER, FIRST, SECOND]
    assert records.versions(["wandb", "nothing", "\0"]) == [FIRST, SECOND]
    assert records.versions([]) == []


def test_a_version_is_never_written_over(store: Store) -> None:
    records = records_of(store)
    assert records.add(FIRST)
    assert not records.add(replace(FIRST, sealed="other"))
    assert records.versions() == [FIRST]
    with pytest.raises(InvalidInput):
        records.add(replace(FIRST, name="a\0b"))
    with pytest.raises(InvalidInput):
        records.add(replace(FIRST, scope="user:a\0b"))


def test_versions_are_sealed_again_without_a_change_to_anything_else(store: Store) -> None:
    records = records_of(store)
    for version in (FIRST, SECOND, OTHER):
        records.add(version)
    records.retire(FIRST, at=9.0)
    records.reseal([replace(FIRST, sealed="CC", key_id="k2"), replace(FIRST, number=7, sealed="DD")])
    records.reseal([])
    retired = replace(FIRST, sealed="CC", key_id="k2", retired_at=9.0)
    assert records.versions() == [OTHER, retired, replace(SECOND, retired_at=9.0)]


def test_versions_are_retired_once_and_forgotten_when_purged(store: Store) -> None:
    records = records_of(store)
    for version in (FIRST, OTHER):
        records.add(version)
    for at in (5.0, 6.0):
        records.retire(FIRST, at=at)
    for missing in MISSING:
        records.retire(missing, at=5.0)
    records.add(SECOND)
    assert records.versions() == [OTHER, replace(FIRST, retired_at=5.0), SECOND]
    for secret in (FIRST, *MISSING):
        records.purge(secret)
    assert records.versions() == [OTHER]
