"""Who may serve a cluster: the decision, fact by fact."""

from __future__ import annotations

import pytest

from scratch_store import ScratchStore
from tarmac.control.serving import Wish, objection, serve, whereabouts
from tarmac.model.actor import HomeIdentity, ServerRecord
from tarmac.model.codec import replace
from tarmac.model.errors import Refused

ONE = HomeIdentity(id="one", machine="m1", hostname="ada", path="/home/one")
TWO = HomeIdentity(id="two", machine="m2", hostname="bob", path="/srv/two")
BY_ONE = ServerRecord(cluster="local", home=ONE, token=3, seen_at=100.0)
WISH = Wish(cluster="local", home=ONE)


@pytest.mark.parametrize(
    ("wish", "at_work"),
    [
        (WISH, 5),
        (replace(WISH, home=replace(ONE, path="/moved")), 5),
        (replace(WISH, home=replace(ONE, machine="m9")), 0),
        (replace(WISH, home=replace(ONE, machine="m9"), take_over=True), 5),
        (replace(WISH, home=TWO, take_over=True), 5),
        (Wish(cluster="other", home=TWO), 5),
    ],
    ids=["again", "moved", "on another machine, idle", "after that machine", "after that home", "its own"],
)
def test_a_home_may_serve(wish: Wish, at_work: int) -> None:
    assert objection(wish, [BY_ONE], at_work=at_work) is None


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        (replace(WISH, home=TWO), "the home /home/one on ada serves the cluster local"),
        (
            replace(WISH, home=replace(ONE, machine="m9", hostname="eve")),
            "2 attempts .* at work on ada",
        ),
        (
            replace(WISH, home=replace(ONE, path="/copy"), copied=True),
            "/copy is a copy of the home /home",
        ),
        (
            replace(WISH, cluster="other"),
            "serves the cluster local of the database, and cannot serve other",
        ),
        (replace(WISH, cluster="other", take_over=True), "cannot serve other too"),
    ],
    ids=["another home", "another machine", "a copy", "a second cluster", "not even on purpose"],
)
def test_a_home_may_not_serve(wish: Wish, reason: str) -> None:
    found = objection(wish, [BY_ONE], at_work=2)
    assert isinstance(found, Refused)
    assert found.hint is not None
    with pytest.raises(Refused, match=reason):
        raise found


def test_serving_again_makes_what_an_older_server_tries_stale() -> None:
    store = ScratchStore()
    first, second = serve(store, WISH, now=1.0), serve(store, WISH, now=2.0)
    assert (first.token, second.token) == (1, 2)


def test_who_is_asked_elsewhere_hears_who_looks_after_a_run() -> None:
    store = ScratchStore()
    serve(store, WISH, now=1000.0)
    assert whereabouts(store, "local", now=1010.0) == "the home /home/one on ada"
    late = whereabouts(store, "local", now=1000.0 + 7 * 60)
    assert late == "the home /home/one on ada, whose server was last seen 7 min ago: its runs wait for it"
    assert whereabouts(store, "nobody", now=1.0) == "the server of cluster nobody"
