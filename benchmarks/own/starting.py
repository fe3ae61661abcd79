"""Starting: from before the submission to the clock that the worker prints, on an idle cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping

from benchmarks.figures import spread
from benchmarks.sandbox import sandbox

PRINT_CLOCK = "name: clock\nslots: 1\ncommand: [date, '+%s.%N']\n"
RUNS = 100
WARM_UP = 3


def starting() -> Mapping[str, float]:
    """One run after the other; the worker is `date`, so that what is measured is tarmac's share."""
    took_s = []
    with sandbox() as client:
        for _ in range(WARM_UP + RUNS):
            began = time.time()
            run_id = client.submit(PRINT_CLOCK)["id"]
            client.wait(run_id)
            printed = "".join(chunk["text"] for chunk in client.logs(run_id))
            took_s.append(float(printed) - began)
    return spread("start", took_s[WARM_UP:])
