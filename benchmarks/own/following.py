"""Following: how long a line is under way from the worker that wrote it to the follower that shows it."""

from __future__ import annotations

import time
from collections.abc import Mapping

from benchmarks.figures import spread
from benchmarks.sandbox import sandbox

LINES = 300
WRITER = f"""
name: writer
slots: 1
command: |
  for line in $(seq {LINES}); do date +%s.%N; sleep 0.02; done
"""


def following() -> Mapping[str, float]:
    """A worker prints its clock fifty times a second; a follower compares with its own."""
    lags_s: list[float] = []
    rest = ""
    with sandbox() as client:
        for message in client.follow(client.submit(WRITER).id):
            if message.event == "log":
                now = time.time()
                *lines, rest = (rest + message.data.text).split("\n")
                lags_s += [now - float(line) for line in lines]
    assert len(lags_s) == LINES, f"{len(lags_s)} lines came"
    return spread("lag", lags_s)
