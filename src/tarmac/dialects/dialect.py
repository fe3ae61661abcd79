"""The parts of a dialect. Each package here defines one in its `dialect.py`, listed in `registry`.

The registry asks every dialect to detect a text; the surest dialect reads it. Here as well, for several
dialects: changes to a launch, and the refusal of extras that a dialect does not take.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from tarmac.dialects.located import Problems
from tarmac.dialects.priorities import Scale
from tarmac.model.changes import ApplyConventions
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.progress import Cause, CauseCode, Outcome
from tarmac.model.spec import RunSpec
from tarmac.model.summary import RunSummary
from tarmac.node.attempt.document import Launch, Mount, NodeLaunch, WorkerLaunch


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The result of reading a text. `warnings` are for the user and refuse nothing."""

    spec: RunSpec
    warnings: tuple[str, ...] = ()


class Certainty(IntEnum):
    """How sure a dialect is that a text is written in it."""

    POSSIBLE = 1
    CERTAIN = 2


Detection = Certainty | Problem
"""A dialect's certainty about a text, or what the text lacks to be in its syntax."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """Inputs that accompany a text: `files` beside it (name -> content) that its dialect requests by name, an
    entry point of its project, values for that entry point's parameters, and `variables` of the submitter's
    shell that its dialect reads. Hashable.

    `override_fields` names fields, as overrides call them, that the user gives elsewhere: the text may omit
    them. `changes` are values for paths of the text or, if it is not native, of the native file of the same
    run.
    """

    files: tuple[tuple[str, str], ...] = ()
    entry_point: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    override_fields: frozenset[str] = frozenset()
    changes: tuple[tuple[str, str], ...] = ()


NO_EXTRAS = Extras()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The facts about a run from which its status in its system's words is derived."""

    state: RunState
    outcome: Outcome | None = None
    cause: CauseCode | None = None
    mode: Mode = Mode.BATCH
    attempt: int = 0
    staged: bool = False


def report_in(kind: str) -> Report:
    """The report of the runs of a kind, as tables of runs filter by it (`model.summary.RunFilter`)."""
    state, outcome, cause, mode, attempt, staged = kind.split(" ")
    return Report(
        state=RunState(state),
        outcome=Outcome(outcome) if outcome else None,
        cause=CauseCode(cause) if cause else None,
        mode=Mode(mode),
        attempt=int(attempt),
        staged=staged == "1",
    )


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column of a system's own list of runs: its title, and its text for a run and the number of the run.

    The number is that of its experiment in the system's own command (None: it has none). `sort` is the field
    that the column shows, if runs have an order by it.
    """

    title: str
    text: Callable[[RunSummary, int | None], str]
    sort: str | None = None
    right: bool = False


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file that tarmac does not read: it has all of `keys`, and one of `further` if there are any.

    Both are words separated by blanks. `hint` says what the user can give instead.
    """

    what: str
    keys: str
    further: str = ""
    hint: str = "give the run file that starts the training"


class Read(Protocol):
    """Reads a text of the dialect."""

    def __call__(self, text: str, /, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:
        """The spec in the text. Raises InvalidInput with every problem in it, and nothing else.

        Relative paths of the submitter's machine are resolved against `directory`; the file system is not
        read.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """An input syntax and its system. All functions are pure: they read no file, clock or environment.

    `name` is the value of `RunSpec.dialect`. `detect(filename, text)` decides by content whether the text is
    in this syntax; the file name alone decides nothing. `apply_conventions(run, attempt, launch)` returns the
    launch with the variables, files and mounts that this system promises to its runs; it also decides where
    the user's own variables win. `status` is this system's own word for the state of a run, and `columns` are
    those of its list of runs, as its users know it.

    `explain(cause)` adds details to the cause of a failure that only these conventions provide. `scale` is
    that of priorities (None: tarmac's). `own_packages`: setup steps expect a disposable container, and
    `pip install` changes only that. `adds_setup`: the conventions install something in every run.
    `every_secret`: a run may read all secrets of its user that are for every run. `unread` are the system's
    other files, which a user may take for its run files. `credentials` are the variables of a shell that
    have the user's credentials, by the kind of engine and by use. `check_program(text, filename)` are the
    problems and warnings of a program that launches runs, which is no file to read; None: the text is none.
    """

    name: str
    detect: Callable[[str, str], Detection]
    read: Read
    apply_conventions: ApplyConventions
    status: Callable[[Report], str]
    columns: Sequence[ListColumn] = ()
    explain: Callable[[Cause], Cause] = lambda cause: cause
    scale: Scale | None = None
    own_packages: bool = False
    adds_setup: bool = False
    every_secret: bool = False
    unread: tuple[FileKind, ...] = ()
    credentials: Mapping[str, Mapping[str, str]] = field(default_factory=dict, hash=False)
    check_program: Callable[[str, str], Problems | None] = lambda _text, _filename: None


Family = Callable[[NodeLaunch, WorkerLaunch], Mapping[str, str]]
"""The variables of one worker."""


def with_variables(launch: Launch, family: Family) -> Launch:
    """The launch with these variables for each worker; they replace earlier values."""

    def worker(node: NodeLaunch, launched: WorkerLaunch) -> WorkerLaunch:
        return launched._replace(env={**launched.env, **family(node, launched)})

    return launch._replace(
        nodes=tuple(
            node._replace(workers=tuple(worker(node, launched) for launched in node.workers))
            for node in launch.nodes
        )
    )


def with_files(
    launch: Launch, files: Callable[[NodeLaunch], Mapping[str, str]], mounts: tuple[Mount, ...] = ()
) -> Launch:
    """The launch with these small files on each node, and these additional mounts."""
    return launch._replace(
        nodes=tuple(
            node._replace(files={**node.files, **files(node)}, mounts=(*node.mounts, *mounts))
            for node in launch.nodes
        )
    )


def refuse_extras(extras: Extras, *, filename: str, dialect: str) -> None:
    """Raise InvalidInput if an entry point or parameters are given for a dialect that has none."""
    given = {"an entry point": extras.entry_point, "parameters": extras.parameters}
    if extra_names := [name for name, value in given.items() if value]:
        message = f"{' and '.join(extra_names)} cannot be given for a run file of dialect {dialect!r}"
        raise InvalidInput([Problem(message=message, file=filename, hint="only MLflow projects take them")])
