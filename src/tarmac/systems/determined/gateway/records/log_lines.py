"""Converts tarmac's log chunks into lines in Determined's form. Called by `routes.logs`.

A line has the latest possible time of its writing, the rank of its worker, and a level if its text contains
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tarmac.systems.determined.gateway.records.written import time_of

LONGEST = 8_191
"""Maximum characters of a line; the rest of a longer line becomes the next line."""

LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_RANK = re.compile(r" ?\[rank=(\d+)\] ?")
_LEVEL = re.compile(r" ?(TRACE|DEBUG|INFO|WARNING|ERROR|CRITICAL): ?")
_LINE_ENDS = re.compile(r"\r\n|\n|\r(?!\Z)")
"""A progress bar returns to the beginning of its line: each of its states counts as a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """Selects lines: empty or None is all. Times are seconds, levels like LOG_LEVEL_INFO, -1 is no rank."""

    levels: frozenset[str] = frozenset()
    ranks: frozenset[int] = frozenset()
    agents: frozenset[str] = frozenset()
    containers: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    stdtypes: frozenset[str] = frozenset()
    text: str | None = None
    after: float | None = None
    before: float | None = None

    def wants(self, line: Mapping[str, Any], at: float) -> bool:
        """Whether the filter selects a line."""
        return (
            (not self.levels or line["level"] in self.levels)
            and (not self.ranks or (-1 if line["rankId"] is None else line["rankId"]) in self.ranks)
            and (not self.agents or line["agentId"] in self.agents)
            and (not self.containers or line["containerId"] in self.containers)
            and (not self.sources or line["source"] in self.sources)
            and (not self.stdtypes or line["stdtype"] in self.stdtypes)
            and (self.text is None or self.text in line["log"])
            and (self.after is None or at > self.after)
            and (self.before is None or at < self.before)
        )


@dataclass(slots=True)
class LogLines:
    """Splits chunks into lines: the end of a chunk waits for the rest of its line, or the next attempt."""

    task: str
    trial: int
    chosen: LogFilter
    _rests: dict[tuple[Any, ...], tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    _attempt: int = 0
    _count: int = 0

    def take(self, chunk: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The lines that are complete with this chunk."""
        if chunk["attempt"] != self._attempt:
            yield from self.finish()
            self._attempt = chunk["attempt"]
        key = tuple(chunk[name] for name in ("role", "replica", "worker"))
        text = self._rests.pop(key, ("", chunk))[0] + chunk["text"]
        *whole, rest = _LINE_ENDS.split(text)
        for line in whole:
            yield from self._line(line, chunk)
        while len(rest) >= LONGEST:
            yield from self._line(rest[:LONGEST], chunk)
            rest = rest[LONGEST:]
        if rest:
            self._rests[key] = rest, chunk

    def finish(self) -> Iterator[dict[str, Any]]:
        """The unfinished last line of each log, without a newline."""
        for rest, chunk in self._rests.values():
            yield from self._line(rest.rstrip("\r"), chunk)
        self._rests.clear()

    def _line(self, text: str, chunk: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        self._count += 1
        rank, log = chunk["rank"], text
        if match := _RANK.match(text):
            rank, log = int(match[1]), text[match.end() :]
        level, shown = "INFO", log
        if match := _LEVEL.match(log):
            level, log = match[1], log[match.end() :]
            shown = f"{level}: {log}"
        stamp, at = time_of(chunk["at"]), chunk["at"]
        node = str(chunk["node"])
        label = f" [rank={rank}]" if rank is not None else ""
        found = {
            "id": str(self._count),
            "taskId": self.task,
            "trialId": self.trial,
            "timestamp": stamp,
            "level": f"LOG_LEVEL_{level}",
            "message": f"[{stamp}] {node[:8]}{label} || {shown}\n",
            "log": log,
            "rankId": rank,
            "agentId": node,
            "containerId": node,
            "source": "task",
            "stdtype": "stdout",
        }
        if self.chosen.wants(found, at):
            yield found
