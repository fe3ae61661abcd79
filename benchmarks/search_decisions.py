"""What decisions of a search cost: 1,000 trials of a synthetic function, and the state that each writes.

Run with `python -m benchmarks.search_decisions [--trials N] [--check]`; with `--check` it ends with 1 where a
decision costs more than 2 ms. Measured in processor time, which other programs on the machine do not lengthen
much. A decision is an event with its operations, the state as JSON included; `restored` is a state read back.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
from dataclasses import dataclass, field
from time import process_time

from tarmac.model.codec import replace
from tarmac.model.search import ParameterRange, RangeKind, SearchMethod, SearchSpec
from tarmac.search.moves import (
    Create,
    Ended,
    Event,
    Finish,
    GoOn,
    Operation,
    Stop,
    TrialEnd,
    Validation,
    Wait,
)
from tarmac.search.searching import Search

BUDGET_MS = 2.0
TRIALS = 1000
LONGEST = 256
RATE = ParameterRange(path=("lr",), kind=RangeKind.LOG, low=-5.0, high=-1.0)
ASHA = SearchSpec(method=SearchMethod.ASHA, metric="loss", space=(RATE,), max_time=LONGEST)
SEARCHES = {
    "random": replace(ASHA, method=SearchMethod.RANDOM),
    "asha": ASHA,
    "asha with promotion": replace(ASHA, promotion=True),
    "adaptive_asha": replace(ASHA, method=SearchMethod.ADAPTIVE_ASHA),
}


@dataclass
class Measured:
    """Seconds of processor time of each decision, and the longest state."""

    spec: SearchSpec
    search: Search = field(init=False)
    costs_s: list[float] = field(default_factory=list)
    largest_bytes: int = 0
    restore_s: float = 0.0
    trials: dict[int, float] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    closing: set[int] = field(default_factory=set)
    queue: list[tuple[int, int]] = field(default_factory=list)

    def run(self) -> None:
        """Play all trials, the one that is least far first."""
        self.search = Search(self.spec)
        self._carry_out(self.search.begin())
        while self.queue:
            step, trial = heapq.heappop(self.queue)
            self._decide(Validation(trial, step, self.trials[trial] + 1.0 / step))
            if trial in self.closing:
                self._decide(Ended(trial, TrialEnd.STOPPED))
            elif step >= LONGEST and not self.spec.promotion:
                self._decide(Ended(trial, TrialEnd.COMPLETED))
            elif trial not in self.waiting:
                heapq.heappush(self.queue, (step * 2, trial))
        state = json.dumps(self.search.state)
        before = process_time()
        Search(self.spec, json.loads(state))
        self.restore_s = process_time() - before

    def _decide(self, event: Event) -> None:
        before = process_time()
        operations = self.search.handle(event)
        written = json.dumps(self.search.state, separators=(",", ":"))
        self.costs_s.append(process_time() - before)
        self.largest_bytes = max(self.largest_bytes, len(written))
        self._carry_out(operations, event)

    def _carry_out(self, operations: list[Operation], event: Event | None = None) -> None:
        for operation in operations:
            match operation:
                case Create(trial=trial, parameters=parameters):
                    self.trials[trial] = abs(math.log10(parameters["lr"]) + 3.0)
                    heapq.heappush(self.queue, (1, trial))
                case Wait(trial=trial):
                    self.waiting.add(trial)
                case GoOn(trial=trial, length=length):
                    if trial in self.waiting or event is None or event.trial != trial:
                        self.waiting.discard(trial)
                        heapq.heappush(self.queue, (length, trial))
                case Stop(trial=trial):
                    self.closing.add(trial)
                    if trial in self.waiting:
                        self.waiting.discard(trial)
                        self._decide(Ended(trial, TrialEnd.STOPPED))
                case Finish():
                    pass


def main() -> int:
    """Print a line for each method."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search_decisions", description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--check", action="store_true", help="end with 1 where a decision is too slow")
    options = parser.parse_args()
    print(
        f"{'method':<22}{'trials':>8}{'decisions':>11}{'p50 ms':>9}{'p99 ms':>9}{'state':>9}{'restored':>10}"
    )
    missed = False
    for name, spec in SEARCHES.items():
        measured = Measured(replace(spec, max_trials=options.trials))
        measured.run()
        costs = sorted(measured.costs_s)
        half, most = costs[len(costs) // 2] * 1e3, costs[int(len(costs) * 0.99)] * 1e3
        missed |= most > BUDGET_MS
        print(
            f"{name:<22}{len(measured.trials):>8,}{len(costs):>11,}{half:>9.3f}{most:>9.3f}"
            f"{measured.largest_bytes / 1024:>7.0f}KB{measured.restore_s * 1e3:>8.2f}ms",
            flush=True,
        )
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
