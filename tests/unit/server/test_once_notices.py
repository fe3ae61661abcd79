"""The line about a machine's slots is told once, to the first who asks for slots."""

from __future__ import annotations

from pathlib import Path

from simulated import spec
from tarmac.model.spec import Rehearsal
from tarmac.server.routes.submitting import SlotsNotice


def test_it_is_told_to_the_first_run_with_slots_and_never_again(tmp_path: Path) -> None:
    note = SlotsNotice("8 virtual slots", tmp_path / "said")
    assert note.take(spec()) == ()
    assert note.take(spec(slots=2, rehearsal=Rehearsal(nodes=2, slots_per_node=1))) == ()
    assert note.take(spec(slots=2)) == ("8 virtual slots",)
    assert note.take(spec(slots=2)) == ()
    assert SlotsNotice("8 virtual slots", tmp_path / "said").take(spec(slots=1)) == ()


def test_where_there_is_nothing_to_tell_nothing_is_told(tmp_path: Path) -> None:
    assert SlotsNotice(None, tmp_path / "said").take(spec(slots=2)) == ()
    assert not (tmp_path / "said").exists()
