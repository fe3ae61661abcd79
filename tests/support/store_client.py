"""A process that writes to a store and says what was acknowledged: one JSON line each. Run by store tests.

python store_client.py accept URL NAME COUNT    accept runs NAME-0, NAME-1, ... under keys 0, 1, ...
python store_client.py fill DIRECTORY           meet a full disk, clear it, go on; needs a tiny disk there
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

from histories import new_run, placed
from tarmac.model.errors import StorageFull
from tarmac.store import SqlStore, open_store

BULK = "x" * 20_000  # a fat run file: the disk fills soon
FILLER_BYTES = 300_000


def say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def accept(url: str, name: str, how_many: str) -> None:
    with closing(open_store(url)) as store:
        say(ready=True)
        sys.stdin.readline()
        for number in range(int(how_many)):
            (run,) = store.create_runs([new_run(f"{name}-{number:06}", key=str(number))])
            if run.id.startswith(name):
                store.apply([placed(run)])
            say(number=number, id=run.id)


def fill(directory: str) -> None:
    filler = Path(directory) / "filler"
    with closing(open_store(f"sqlite:///{directory}/tarmac.db")) as store:
        filler.write_bytes(b"\0" * FILLER_BYTES)
        accepted = until_full(lambda number: store.create_runs([new_run(f"r{number:04}", source=BULK)]))
        runs = list(store.live_runs())
        taken = until_full(lambda number: store.apply([placed(runs[number])]))
        say(accepted=accepted, taken=taken, **stored(store))
        filler.unlink()
        store.create_runs([new_run("s1", source=BULK)])
        now = list(store.live_runs())[taken]
        say(accepted=accepted + 1, taken=taken + store.apply([placed(now)]).count(True), **stored(store))


def stored(store: SqlStore) -> dict[str, int]:
    return {
        "runs": len(list(store.live_runs())),
        "attempts": len(store.live_attempts()),
        "events": len(store.feed(after_id=0, limit=10_000)),
        "seqs": sum(run.seq for run in store.live_runs()),
    }


def until_full(write: Callable[[int], object]) -> int:
    """How many writes were acknowledged before the disk was full."""
    for number in count():
        try:
            write(number)
        except StorageFull:
            return number
    raise AssertionError


if __name__ == "__main__":
    {"accept": accept, "fill": fill}[sys.argv[1]](*sys.argv[2:])
