"""The bridge to a Ray that cannot be reached: plain words within a deadline, and no second try at once."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest

from tarmac.engines.ray.bridge import Bridge
from tarmac.engines.ray.settings import read_settings
from tarmac.model.errors import Unavailable


@pytest.fixture
def listening() -> Iterator[str]:
    """Something that listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def failure(address: str, python: str = sys.executable) -> str:
    bridge = Bridge(read_settings({"address": address, "python": python}), "key", token=lambda: None)
    try:
        with pytest.raises(Unavailable) as first:
            bridge.members()
        with pytest.raises(Unavailable) as second:
            bridge.members()
        assert second.value is first.value  # it was not tried again
    finally:
        bridge.close()
    return first.value.message


def test_a_head_that_nobody_runs_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    assert failure(address) == f"Ray at {address}: Connection refused"


def test_a_python_without_ray_is_named(listening: str) -> None:
    assert f"{sys.executable} has no Ray" in failure(listening)


def test_a_python_that_is_not_there_is_named(listening: str) -> None:
    assert "/no/such/python" in failure(listening, "/no/such/python")


def test_a_token_that_cannot_be_had_is_said_before_anything_is_tried() -> None:
    def no_token() -> str:
        raise Unavailable("token_file /t: No such file or directory")

    bridge = Bridge(read_settings({"address": "127.0.0.1:1"}), "key", token=no_token)
    with pytest.raises(Unavailable, match="token_file /t"):
        bridge.about()
