"""`tarmac server say`: an announcement for all users, on every server of a database."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from served import Served
from tarmac.cli.main import program
from tarmac.client import Client
from tarmac.model.errors import InvalidInput, NotFound
from tarmac.server.announcing import Announcements

TEXT = "maintenance at 18:00: save your work – ø"


@pytest.fixture
def said() -> list[str]:
    """What clients show."""
    return []


@pytest.fixture
def client(plane: Served, said: list[str]) -> Client:
    return plane.client(on_notice=said.append)


def test_every_client_shows_it_once(plane: Served, client: Client, said: list[str]) -> None:
    client.announce(TEXT)
    client.runs()
    client.runs()
    assert said == [f"announcement: {TEXT}"]
    client.announce("another")
    client.runs()
    assert said[1:] == ["announcement: another"]


def test_without_one_nothing_is_sent(plane: Served, client: Client, said: list[str]) -> None:
    assert "tarmac-announcement" not in plane.transport().request("GET", "/runs").headers
    client.announce(TEXT)
    assert "tarmac-announcement" in plane.transport().request("GET", "/runs").headers
    assert client.announce("").announcement is None
    assert "tarmac-announcement" not in plane.transport().request("GET", "/runs").headers


def test_it_is_over_at_its_time(plane: Served, client: Client) -> None:
    announced = client.announce(TEXT, until_at=plane.clock.now() + 60.0).announcement
    assert announced is not None
    assert (announced.text, announced.user, announced.until_at) == (TEXT, "ada", plane.clock.now() + 60.0)
    plane.advance(59.0)
    assert client.version().announcement == announced
    plane.advance(1.0)
    assert client.version().announcement is None


def test_it_is_shown_beside_an_error(plane: Served, client: Client, said: list[str]) -> None:
    client.announce(TEXT)
    other: list[str] = []
    with pytest.raises(NotFound):
        plane.client(on_notice=other.append).run("nothing")
    assert other == [f"announcement: {TEXT}"]


def test_another_server_on_the_database_learns_of_it(plane: Served, client: Client) -> None:
    """It is stored, so a restart keeps it, and a server elsewhere reads it again."""
    elsewhere = Announcements(plane.store.announcements, plane.clock)
    assert elsewhere.current() is None
    client.announce(TEXT)
    elsewhere.read_again()
    current = elsewhere.current()
    assert current is not None
    assert current.text == TEXT
    assert Announcements(plane.store.announcements, plane.clock).current() == current


@pytest.mark.parametrize(
    ("text", "until_at", "problem"),
    [
        ("x" * 501, None, "at most 500 printable characters"),
        ("\x1b[31mred", None, "printable characters"),
        ("late", 10.0, "would be over already"),
    ],
)
def test_a_wrong_one_is_refused(client: Client, text: str, until_at: float | None, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        client.announce(text, until_at=until_at)
    assert client.version().announcement is None


def run(plane: Served, *arguments: str) -> Result:
    return CliRunner(env={"TARMAC_HOME": str(plane.home.root)}).invoke(program, arguments)


def test_the_command_says_and_clears(plane: Served) -> None:
    assert "ends in 2 h: back soon" in (run(plane, "server", "say", "back soon", "--for", "2h").output)
    assert run(plane, "ls").stderr.count("tarmac: announcement: back soon\n") == 1
    as_json = run(plane, "ls", "--json")
    assert "back soon" not in as_json.stdout
    status = run(plane, "server", "status")
    assert status.stdout.splitlines()[1].startswith("announcement by ada")
    assert status.stderr == ""
    assert "there is no announcement any more" in run(plane, "server", "say", "--clear").output
    assert "back soon" not in run(plane, "ls").stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "give either a text, or --clear alone"),
        (("text", "--clear"), "give either a text, or --clear alone"),
        (("--clear", "--for", "2h"), "give either a text, or --clear alone"),
        (("text", "--for", "2h", "--until", "2099-01-01"), "give either --until or --for, not both"),
        (("text", "--until", "soon"), "'soon' is no time; write 2026-11-01 or 2026-11-01T08:00"),
    ],
)
def test_a_wrong_command_is_refused(plane: Served, arguments: tuple[str, ...], problem: str) -> None:
    refused = run(plane, "server", "say", *arguments)
    assert (refused.exit_code, problem in refused.stderr) == (2, True)
