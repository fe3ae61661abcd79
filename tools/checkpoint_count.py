"""What is counted in the torture of checkpoints: what scripts note of their saves, and the cases.

Used by `checkpoint_torture.py` and `checkpoint_lineage.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ENDS = {
    "pause": "pause",
    "move": "move",
    "stop": "stop",
    "worker": "worker killed",
    "runner": "runner killed",
    "node": "node killed",
    "disk": "disk full",
}
"""The ways of ending, with their names in the table."""

LOST, TORN, REPORT, SILENT, STUCK = "lost", "torn", "wrong report", "silent", "stuck"

IN_THE_MOMENT = "nobody could tell: worker killed"
WITH_RUNNER = "nobody could tell: runner killed"
WITH_NODE = "not synced by a lost node"
EXCUSES = (IN_THE_MOMENT, WITH_RUNNER, WITH_NODE)
"""Why a save that was lost is counted apart: see decision 0020."""


@dataclass(slots=True, kw_only=True)
class Case:
    """One ending, and what was wrong with it: (one of the words above, a sentence)."""

    way: str
    end: str
    name: str
    cut: str = ""
    problems: list[tuple[str, str]] = field(default_factory=list)
    reported: bool = False


@dataclass(slots=True, kw_only=True)
class Count:
    """The result of all cases."""

    cases: list[Case] = field(default_factory=list)
    resumed: int = 0
    finished: int = 0
    versions: int = 0
    replaced: int = 0
    excused: Counter[str] = field(default_factory=Counter)
    judged: int = 0
    proven: int = 0
    skipped: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong."""
        return not any(case.problems for case in self.cases)

    def wrong(self, kind: str) -> int:
        """How many cases have a problem of that kind."""
        return sum(any(found == kind for found, _ in case.problems) for case in self.cases)


class Ledger:
    """What a script notes of its saves, outside of all that is kept; read a little further at every look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self.owed = 0
        self.found = 0
        self.found_step = 0
        self.found_written_at = 0.0
        """When the newest file that the last start found was written."""
        self.finished = 0
        self.begun = False
        self.cuts: list[str] = []
        self.torn: list[str] = []
        self.lost: list[str] = []
        self.excused: Counter[str] = Counter()
        self._saved: dict[int, float] = {}
        self._ever: dict[int, list[float]] = {}
        self._excused_from: float | None = None
        self._excuse = ""
        self._read = 0

    def excuse(self, since: float, why: str) -> None:
        """The next start may lack what was saved after that time, and it is counted apart, by its reason."""
        self._excused_from, self._excuse = since, why

    def forget(self) -> None:
        """The next start is of a run with nothing kept: nothing is owed to it."""
        self.look()
        self.owed, self.begun, self._saved = 0, False, {}

    def saved_at(self, step: int) -> float | None:
        """When the save of that step was finished; None for one that was cut before its script noted it."""
        return self._saved.get(step)

    def save_nearest(self, step: int, at: float) -> float | None:
        """When that step was saved: of several times, as after a lost node, the one nearest to `at`."""
        return min(self._ever.get(step, ()), key=lambda saved: abs(saved - at), default=None)

    def newest_before(self, step: int) -> float:
        """When the newest of the earlier saves was finished; 0 where there is none."""
        return max((at for saved, at in self._saved.items() if saved < step), default=0.0)

    def look(self) -> int:
        """How often a script has noted what it found, after taking in what was noted since."""
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
            elif word == "at":
                self.cuts.append(rest)
            elif word == "saved":
                step, at = rest.split()
                self.owed, self.begun = int(step), False
                self._saved[self.owed] = float(at)
                self._ever.setdefault(self.owed, []).append(float(at))
                self.finished += 1
            elif word == "found":
                step, at = rest.split()
                self.found_written_at = float(at)
                self._take_found(int(step))
        return self.found

    def _take_found(self, step: int) -> None:
        """What was written over by its own script is owed by nobody."""
        since = self._excused_from
        surely = max((saved for saved, at in self._saved.items() if since is None or at <= since), default=0)
        if step < surely and not self.begun:
            self.lost.append(f"step {self.owed}, found {step}")
        elif step < self.owed and not self.begun:
            self.excused[self._excuse] += 1
        self.owed, self.begun, self._excused_from = max(step, 0), False, None
        self._saved = {saved: at for saved, at in self._saved.items() if saved <= step}
        self.found_step = step
        self.found += 1


def table(count: Count) -> str:
    """The cases by way of saving and of ending, and the sums. `12 !1`: one of twelve went wrong."""
    ends = [end for end in ENDS if any(case.end == end for case in count.cases)]
    rows = [["way of saving", *(ENDS[end] for end in ends), "all"]]
    for way in sorted({case.way for case in count.cases}, key=str.lower):
        of_way = [case for case in count.cases if case.way == way]
        rows.append(
            [way, *(_cell(case for case in of_way if case.end == end) for end in ends), _cell(of_way)]
        )
    rows.append(
        ["all", *(_cell(case for case in count.cases if case.end == end) for end in ends), _cell(count.cases)]
    )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    sums = [
        ("cases", len(count.cases)),
        ("finished saves", count.finished),
        ("starts that looked", count.resumed),
        ("versions looked at", count.versions),
        ("  with a half, replaced at once", count.replaced),
        ("reports of loss compared", sum(case.reported for case in count.cases)),
        ("finished saves lost", count.wrong(LOST)),
        *((f"  {why}", count.excused[why]) for why in EXCUSES),
        ("torn ones resumed from", count.wrong(TORN)),
        ("wrong reports of loss", count.wrong(REPORT)),
        ("left out silently", count.wrong(SILENT)),
        ("stuck", count.wrong(STUCK)),
        ("cycle runs judged", f"{count.judged}, {count.proven} of them proven"),
    ]
    lines += ["", *(f"{what + ':':<36}{number}" for what, number in sums)]
    lines += [f"not played: {what}" for what in count.skipped]
    lines += [
        f"! {case.way}, {ENDS[case.end]}, {case.name}: {kind}: {text}"
        for case in count.cases
        for kind, text in case.problems
    ]
    return "\n".join(line.rstrip() for line in lines)


def _cell(cases: Iterable[Case]) -> str:
    found = list(cases)
    wrong = sum(bool(case.problems) for case in found)
    return f"{len(found) or '-'}{f' !{wrong}' if wrong else ''}"
