"""Repositories are judged before a run is kept, whichever reader let them through (must-show 5)."""

from __future__ import annotations

import pytest

from tarmac.model.errors import InvalidInput
from tarmac.model.spec import Checkout, Command, Process, Repository, Role, RunSpec, SetupStep
from tarmac.server.submitting.submissions import check_repositories


def spec(code: Repository | None = None, setup: tuple[SetupStep, ...] = ()) -> RunSpec:
    role = Role(processes=(Process(command=Command(script="true")),))
    return RunSpec(name="digits", roles=(role,), code=code, setup=setup)


@pytest.mark.parametrize(
    "repository",
    [
        Repository(url="ext::sh -c id"),
        Repository(url="https://token-of-ada@example.org/a"),
        Repository(url="https://example.org/a", branch="--upload-pack=id"),
        Repository(url="https://example.org/a", commit="-x"),
    ],
)
def test_hostile_names_of_any_dialect_are_refused(repository: Repository) -> None:
    for bad, where in (
        (spec(code=repository), "code"),
        (spec(setup=(Checkout(repository=repository, path="a"),)), "setup step 1"),
    ):
        with pytest.raises(InvalidInput) as refused:
            check_repositories(bad, filename="launch.py")
        assert str(refused.value).startswith(f"launch.py: {where}: ")
        assert "token-of-ada" not in str(refused.value)


def test_ordinary_ones_pass() -> None:
    good = Repository(url="git@example.org:team/a.git", branch="main", commit="0a1b2c3")
    check_repositories(spec(code=good, setup=(Checkout(repository=good, path="a"),)), filename="run.yaml")
