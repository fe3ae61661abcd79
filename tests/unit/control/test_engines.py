"""One engine among several: when it is left alone, what is said of it, and who waits for its answers."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from sim_engine import SimEngine
from simulated import nodes
from tarmac.control.state.engines import MOST_QUESTIONS, SLOW_S, AttachedEngine, Rest
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.abilities import Pace
from tarmac.model.errors import Unavailable

DOWN = Unavailable("the controller is down")


def attached(key: str) -> AttachedEngine:
    return AttachedEngine(key, SimEngine(VirtualClock(), nodes(1, 1)), answer_s=0.0)


def test_an_engine_that_fails_again_and_again_is_left_alone_for_longer_each_time() -> None:
    rest, now = Rest(Pace(rest_s=2.0, longest_rest_s=10.0)), 100.0
    waits = []
    for _ in range(6):
        rest.note_call(now)
        rest.note_failure(DOWN, now)
        waits.append(next(wait for wait in range(100) if rest.over(now + wait)))
    assert waits == [0, 0, 2, 4, 8, 10], "one failure may be of one attempt alone"
    assert rest.trouble(now) == "the controller is down"
    rest.note_call(now)
    rest.note_answer()
    assert rest.over(now)
    assert rest.trouble(now) is None


def test_one_that_does_not_answer_is_said_to_after_a_while() -> None:
    rest = Rest(Pace())
    rest.note_call(100.0)
    assert rest.trouble(100.0 + SLOW_S) is None
    assert rest.trouble(135.0) == "no answer for 35 s"
    rest.note_failure(DOWN, 140.0)
    assert rest.trouble(140.0) == "the controller is down"


def test_questions_to_an_engine_that_hangs_hold_up_few_threads_and_none_that_ask_another() -> None:
    far, near = attached("far"), attached("near")
    with ExitStack() as waiting:
        for _ in range(MOST_QUESTIONS):
            waiting.enter_context(far.question())
        with pytest.raises(Unavailable, match="the engine of cluster far does not answer"), far.question():
            pass
        with near.question() as adapter:
            assert adapter is near.adapter
    with far.question() as adapter:
        assert adapter is far.adapter


def test_the_servers_own_engine_answers_everybody() -> None:
    own = attached("")
    with ExitStack() as waiting:
        for _ in range(10 * MOST_QUESTIONS):
            waiting.enter_context(own.question())
