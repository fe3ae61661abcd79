"""What is counted in the torture of checkpoints: what scripts say of their saves, and what came of it.

Used by `checkpoint_torture.py`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

EVENTS = ("pause", "move", "kill", "lose")

IN_THE_MOMENT = "nobody could tell: kill"
WITH_RUNNER = "nobody could tell: lose"
WITH_NODE = "not synced by a lost node"
EXCUSES = (IN_THE_MOMENT, WITH_RUNNER, WITH_NODE)
"""Why a save that was lost is counted apart: see decision 0020."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The result. What must be zero is in `clean`."""

    events: Counter[str]
    ways: int
    resumed: int
    finished: int
    torn_in_time: int
    excused: Counter[str]
    lost: tuple[str, ...]
    torn: tuple[str, ...]
    silent: tuple[str, ...]
    dishonest: tuple[str, ...]
    stuck: tuple[str, ...]
    proven: int
    judged: int

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong."""
        return not (self.lost or self.torn or self.silent or self.dishonest or self.stuck)


class Ledger:
    """What a script says of its saves, outside of all that is kept; read a little further at every look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self.owed = 0
        self.found = 0
        self.finished = 0
        self.begun = False
        self.torn: list[str] = []
        self.lost: list[str] = []
        self.excused: Counter[str] = Counter()
        self._saved: list[tuple[int, float]] = []
        self._excused_from: float | None = None
        self._excuse = ""
        self._read = 0

    def excuse(self, since: float, why: str) -> None:
        """The next start may lack what was saved after that time, and it is counted apart, by its reason."""
        self._excused_from, self._excuse = since, why

    def look(self) -> int:
        """How often a script has said what it found, after taking in what was said since."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            added = file.read()
        added = added[: added.rfind(b"\n") + 1]
        self._read += len(added)
        for line in added.decode().splitlines():
            word, _, rest = line.partition(" ")
            if word == "torn":
                self.torn.append(rest)
            elif word == "begin":
                self.begun = True
            elif word == "saved":
                step, at = rest.split()
                self.owed, self.begun = int(step), False
                self._saved.append((self.owed, float(at)))
                self.finished += 1
            elif word == "found":
                self._take_found(int(rest))
        return self.found

    def _take_found(self, step: int) -> None:
        """What was written over by its own script is owed by nobody."""
        since = self._excused_from
        surely = max((saved for saved, at in self._saved if since is None or at < since), default=0)
        if step < surely and not self.begun:
            self.lost.append(f"step {self.owed}, found {step}")
        elif step < self.owed and not self.begun:
            self.excused[self._excuse] += 1
        self.owed, self.begun, self._excused_from = max(step, 0), False, None
        self._saved = [(self.owed, 0.0)]
        self.found += 1


def told(count: Count) -> str:
    """The count as a table."""
    lines = [
        ("ways of saving", count.ways),
        ("events", sum(count.events.values())),
        *((f"  {event}", count.events[event]) for event in EVENTS),
        ("finished saves", count.finished),
        ("starts that looked", count.resumed),
        ("set aside half-written", count.torn_in_time),
        ("finished saves lost", len(count.lost)),
        *((f"  {why}", count.excused[why]) for why in EXCUSES),
        ("torn checkpoints found", len(count.torn)),
        ("left out silently", len(count.silent)),
        ("cycle runs judged", f"{count.judged}, {count.proven} of them proven"),
        ("dishonest reports", len(count.dishonest)),
        ("stuck", len(count.stuck)),
    ]
    problems = (*count.lost, *count.torn, *count.silent, *count.dishonest, *count.stuck)
    return "\n".join(
        [f"{what + ':':<29}{number}" for what, number in lines] + [f"! {what}" for what in problems]
    )
