"""Where the tarmac home lies, by the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.model.errors import InvalidInput
from tarmac.model.home import Home, find_home

USER_HOME = Path("/home/ada")


@pytest.mark.parametrize(
    ("environment", "root"),
    [
        ({}, "/home/ada/.local/state/tarmac"),
        ({"TARMAC_HOME": ""}, "/home/ada/.local/state/tarmac"),
        ({"TARMAC_HOME": "/x"}, "/x"),
        ({"XDG_STATE_HOME": "/state"}, "/state/tarmac"),
        ({"XDG_STATE_HOME": "relative"}, "/home/ada/.local/state/tarmac"),
        ({"XDG_STATE_HOME": "/state", "TARMAC_HOME": "/x"}, "/x"),
    ],
)
def test_where_the_home_lies(environment: dict[str, str], root: str) -> None:
    assert find_home(environment, user_home=USER_HOME).root == Path(root)


def test_a_relative_home_is_refused() -> None:
    with pytest.raises(InvalidInput, match="must be an absolute path"):
        find_home({"TARMAC_HOME": "here"}, user_home=USER_HOME)


def test_its_files() -> None:
    home = Home(Path("/x"))
    files = (home.database, home.socket, home.lock, home.log, home.token, home.settings)
    names = ["tarmac.db", "server.sock", "server.lock", "server.log", "token", "settings.toml"]
    assert [path.name for path in files] == names
    assert home.code == Path("/x/code")
