"""All dialects, and the choice among them by content. Called by the server for every submission and check."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.launch import Launch
from tarmac.model.run import Attempt, Run
from tarmac.spec.clusterfudge.dialect import ClusterfudgeDialect
from tarmac.spec.determined.dialect import DeterminedDialect
from tarmac.spec.dialect import NO_EXTRAS, Certainty, Dialect, Extras, Reading
from tarmac.spec.isc.dialect import IscDialect
from tarmac.spec.mantik.dialect import MantikDialect
from tarmac.spec.mcli.dialect import McliDialect
from tarmac.spec.native.dialect import NativeDialect
from tarmac.spec.problems import nearest

DIALECTS: Sequence[Dialect] = (
    NativeDialect(),
    IscDialect(),
    McliDialect(),
    MantikDialect(),
    ClusterfudgeDialect(),
    DeterminedDialect(),
)


def read(
    text: str,
    *,
    filename: str,
    directory: str,
    dialect: str | None = None,
    extras: Extras = NO_EXTRAS,
    dialects: Sequence[Dialect] = DIALECTS,
) -> Reading:
    """The spec in a run file; of the dialect that is named, else of the one its content shows.

    Raises InvalidInput with every problem in it.
    """
    chosen = (
        named(dialect, dialects=dialects)
        if dialect is not None
        else choose(text, filename=filename, dialects=dialects)
    )
    return chosen.read(text, filename=filename, directory=directory, extras=extras)


def named(name: str, *, dialects: Sequence[Dialect] = DIALECTS) -> Dialect:
    """The dialect of this name; raises InvalidInput with the nearest where there is none."""
    known = {dialect.name: dialect for dialect in dialects}
    if name not in known:
        meant = nearest(name, frozenset(known), {})
        hint = f"did you mean '{meant}'?" if meant else f"known: {', '.join(sorted(known))}"
        raise InvalidInput([Problem(message=f"there is no dialect {name!r}", hint=hint)])
    return known[name]


def choose(text: str, *, filename: str, dialects: Sequence[Dialect] = DIALECTS) -> Dialect:
    """The dialect that is surest the text is its own, the first of equals; raises InvalidInput if none is."""
    detections = [(dialect, dialect.detect(filename, text)) for dialect in dialects]
    best, detection = max(detections, key=lambda pair: pair[1].certainty)
    if detection.certainty is not Certainty.NO:
        return best
    missed = "; ".join(f"{dialect.name}: {verdict.missed}" for dialect, verdict in detections)
    raise InvalidInput(
        [
            Problem(
                file=filename,
                message=f"this is no run file of any kind that tarmac reads; {missed}",
                hint="the shortest run file is one line: 'command: echo hello'",
            )
        ]
    )


def equip(run: Run, attempt: Attempt, launch: Launch) -> Launch:
    """The launch with what the conventions of the run's system promise; see `Dialect.equip`."""
    system = run.spec.conventions.system
    dialect = next((dialect for dialect in DIALECTS if dialect.name == system), None)
    return launch if dialect is None else dialect.equip(run, attempt, launch)
