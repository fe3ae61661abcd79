"""Names of runs and other things, as parts of a path of the API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tarmac.client import Client
from tarmac.model.errors import NotFound

ASKING: dict[str, Callable[[Client, str], object]] = {
    "run": lambda client, name: client.run(name),
    "artifact": lambda client, name: client.remove_artifact(name),
    "dataset": lambda client, name: client.remove_dataset(name),
    "cluster": lambda client, name: client.remove_cluster(name),
}


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../runs/other", "r1/stop"])
@pytest.mark.parametrize("what", sorted(ASKING))
def test_what_can_be_no_name_is_not_found_and_not_even_asked_for(
    tmp_path: Path, what: str, name: str
) -> None:
    """There is no server here that could be asked."""
    with pytest.raises(NotFound, match=f"there is no {what} '{name}'"):
        ASKING[what](Client(home=tmp_path, start=False), name)
