"""One store, many threads: as a server uses it."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from histories import new_run, placed
from tarmac.model.ports import Store

THREADS = 6
RUNS = 15


def test_threads_agree_on_keys_steps_and_the_order_of_events(store: Store) -> None:
    """All threads accept under the same keys and try to place every run: each happens once."""
    together = Barrier(THREADS)

    def serve(thread: int) -> list[tuple[str, bool]]:
        together.wait()
        done = []
        for number in range(RUNS):
            (run,) = store.create_runs([new_run(f"r{number:03}-{thread}", key=str(number))])
            mine = run.attempt == 0 and store.apply([placed(run)]) == [True]
            done.append((run.id, mine))
            assert store.run(run.id) is not None, "whoever was answered can read it"
            assert store.feed(after_id=0)[-1].id <= store.last_event_id()
        return done

    with ThreadPoolExecutor(THREADS) as pool:
        answers = [answer for serving in pool.map(serve, range(THREADS)) for answer in serving]
    assert Counter(run_id for run_id, _ in answers) == {run.id: THREADS for run in store.live_runs()}
    assert Counter(run_id for run_id, mine in answers if mine) == {run.id: 1 for run in store.live_runs()}
    feed = store.feed(after_id=0)
    assert len(feed) == 3 * RUNS
    assert [event.id for event in feed] == sorted(event.id for event in feed)
