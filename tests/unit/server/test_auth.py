"""Small parts at the edge: loopback addresses, places in a stream, the lock of a home."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.model.errors import InvalidInput, Refused, TarmacError
from tarmac.model.home import Home
from tarmac.server.home_lock import AlreadyServed, HomeLock
from tarmac.server.http.listeners import loopback_address, token_of
from tarmac.server.logs.streams import format_places, parse


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("127.0.0.1:8400", ("127.0.0.1", 8400)),
        ("127.1.2.3:1", ("127.1.2.3", 1)),
        ("localhost:80", ("127.0.0.1", 80)),
        ("[::1]:8400", ("::1", 8400)),
    ],
)
def test_loopback_addresses(address: str, parts: tuple[str, int]) -> None:
    assert loopback_address(address) == parts


@pytest.mark.parametrize("address", ["0.0.0.0:1", "192.168.1.1:1", "[::]:1"])
def test_addresses_that_others_can_reach_are_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match="can be reached by others"):
        loopback_address(address)


@pytest.mark.parametrize(
    "address",
    [
        *("", "127.0.0.1", ":8400", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1:-1"),
        *("host:1", "127.0.0.1.example.org:1", "2130706433:1"),
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match="is not HOST:PORT"):
        loopback_address(address)


@given(
    st.dictionaries(
        st.from_regex(r"[1-9]\.[a-z-]{1,8}\.[0-9]\.[0-9]", fullmatch=True), st.integers(0, 2**53), max_size=5
    )
)
def test_places_survive_the_journey(places: dict[str, int]) -> None:
    assert parse(format_places(places)) == places


def test_a_home_is_held_by_one(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    first, second = HomeLock(home), HomeLock(home)
    first.take()
    assert home.lock.read_text() == f"{os.getpid()}\n"
    with pytest.raises(AlreadyServed, match=f"process {os.getpid()}"):
        second.take()
    first.release()
    second.take()
    second.release()


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    token = token_of(home)
    assert len(token) >= 40
    assert token_of(home) == token
    assert stat.S_IMODE(home.token.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o666, 0o640, 0o604])
def test_a_token_that_others_can_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    home = Home(tmp_path)
    token_of(home)
    home.token.chmod(mode)
    with pytest.raises(Refused, match=rf"others than you .*mode {mode:04o}") as refused:
        token_of(home)
    assert refused.value.hint == "remove it, and the next server makes a new one"


@pytest.mark.parametrize("weak", ["", "secret", "a" * 40, "too-short-by-one-ok"])
def test_a_token_that_can_be_guessed_is_refused(tmp_path: Path, weak: str) -> None:
    home = Home(tmp_path)
    home.token.touch(mode=0o600)
    home.token.write_text(f"{weak}\n")
    with pytest.raises(Refused, match="can be guessed"):
        token_of(home)


def test_what_is_no_file_is_no_token(tmp_path: Path) -> None:
    home = Home(tmp_path)
    os.mkfifo(home.token)
    with pytest.raises(Refused, match="is no file"):
        token_of(home)
    home.token.unlink()
    home.token.symlink_to("/etc/hostname")
    with pytest.raises(Refused, match="cannot be read"):
        token_of(home)


def test_a_lock_that_is_no_file_is_said_to_be_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.lock.mkdir()
    with pytest.raises(TarmacError, match=r"server.lock cannot be opened: Is a directory"):
        HomeLock(home).take()
