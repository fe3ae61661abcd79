"""All dialects, and the choice among them by content. Called by the server for every submission and check."""

import dataclasses
import posixpath
import re
from collections.abc import Container, Mapping, Sequence

from tarmac.dialects.dialect import NO_EXTRAS, Certainty, Detection, Dialect, Extras, Reading
from tarmac.dialects.kinds import did_you_mean
from tarmac.dialects.located import Problems
from tarmac.dialects.native.reader import NATIVE, Changes, write
from tarmac.dialects.secrets import with_secrets
from tarmac.dialects.unsupported_formats import unsupported_problem
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import LocalDirectory, RunSpec
from tarmac.node.attempt.document import Launch
from tarmac.systems.clusterfudge.dialect import CLUSTERFUDGE
from tarmac.systems.determined.defaults import ClusterDefaults
from tarmac.systems.determined.dialect import determined_dialect
from tarmac.systems.isc.dialect import ISC
from tarmac.systems.mantik.dialect import MANTIK
from tarmac.systems.mcli.dialect import MCLI

DIALECTS: Sequence[Dialect] = (NATIVE, ISC, MCLI, MANTIK, CLUSTERFUDGE, determined_dialect())

_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}


def dialect_of(system: str) -> Dialect:
    """The dialect of a system in `RunSpec.conventions`; the native one for a name of no dialect."""
    return _BY_NAME.get(system, NATIVE)


def credential_variables(engine: str, variables: Container[str]) -> Mapping[str, str]:
    """The variables with credentials for an engine, by use, of a system whose users have set all of them."""
    of_systems = (each.credentials.get(engine, {}) for each in DIALECTS)
    return next(
        (found for found in of_systems if found and all(name in variables for name in found.values())), {}
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
    """The spec in a run file, read by the named dialect, else by the one that its content shows.

    Raises InvalidInput with every problem in it.
    """
    chosen = (
        named(dialect, dialects=dialects)
        if dialect is not None
        else choose(text, filename=filename, directory=directory, extras=extras, dialects=dialects)
    )
    reading = chosen.read(text, filename=filename, directory=directory, extras=extras)
    if extras.changes and chosen.name != NATIVE.name:
        reading = dataclasses.replace(reading, spec=_changed(reading.spec, extras.changes))
    return with_secrets(reading, filename=filename)


def changed(spec: RunSpec, changes: Changes) -> RunSpec:
    """The spec with values at these paths of its native run file.

    Raises InvalidInput with every problem in it.
    """
    return with_secrets(Reading(spec=_changed(spec, changes)), filename=_as_file(spec)).spec


def _changed(spec: RunSpec, changes: Changes) -> RunSpec:
    """Like `changed`; parts of the spec without a form in run files stay."""
    extras = Extras(changes=tuple(changes))
    read_again = NATIVE.read(write(spec), filename=_as_file(spec), directory="/", extras=extras).spec
    code = read_again.code
    if isinstance(code, LocalDirectory) and isinstance(spec.code, LocalDirectory):
        same = code == replace(spec.code, digest=code.digest, extra_files={})
        code = spec.code if same else code
    environment = replace(read_again.environment, inherited=spec.environment.inherited)
    return replace(
        read_again,
        dialect=spec.dialect,
        source=spec.source,
        start_paused=spec.start_paused,
        hook_changes=spec.hook_changes,
        code=code,
        environment=environment,
    )


def _as_file(spec: RunSpec) -> str:
    return f"{spec.name} as a native file"


def named(name: str, *, dialects: Sequence[Dialect] = DIALECTS) -> Dialect:
    """The dialect of this name; raises InvalidInput with the nearest name if there is none."""
    known = {dialect.name: dialect for dialect in dialects}
    if name not in known:
        hint = did_you_mean(name, known) or f"known: {', '.join(sorted(known))}"
        raise InvalidInput([Problem(message=f"there is no dialect {name!r}", hint=hint)])
    return known[name]


def choose(
    text: str,
    *,
    filename: str,
    directory: str = "/",
    extras: Extras = NO_EXTRAS,
    dialects: Sequence[Dialect] = DIALECTS,
) -> Dialect:
    """The dialect that is surest that the text is its own.

    If the native one is certain, no other is asked: none is certain of native fields alone. Of several
    equally sure ones, the only one that can read it, or the one that finds the fewest problems. Raises
    InvalidInput if none or several remain.
    """
    if NATIVE.detect(filename, text) is Certainty.CERTAIN:
        return NATIVE
    detections = [(dialect, dialect.detect(filename, text)) for dialect in dialects]
    surest = max((found for _, found in detections if isinstance(found, Certainty)), default=None)
    if surest is None or (surest is Certainty.POSSIBLE and _binary(text)):
        raise InvalidInput(_nobodys(text, filename, detections))
    if (
        surest is Certainty.POSSIBLE
        and (unsupported := unsupported_problem(text, filename, DIALECTS)) is not None
    ):
        raise InvalidInput([unsupported])
    likely = [dialect for dialect, found in detections if found is surest]
    if len(likely) > 1:
        wrong = {dialect: _problems(dialect, text, filename, directory, extras) for dialect in likely}
        least = min(len(problems) for problems in wrong.values())
        likely = [dialect for dialect in likely if len(wrong[dialect]) == least]
        if len(likely) > 1:
            raise InvalidInput(_several(filename, [(dialect, wrong[dialect]) for dialect in likely]))
    return likely[0]


def check_program(text: str, *, filename: str, dialect: str | None) -> Problems | None:
    """The problems and warnings of a program of a system (the named one, or any); None for other texts."""
    asked = (each for each in DIALECTS if dialect in (None, each.name))
    found = (each.check_program(text, filename) for each in asked)
    return next((problems for problems in found if problems is not None), None)


def for_cluster(determined: ClusterDefaults) -> Sequence[Dialect]:
    """The dialects of a server, with its cluster's defaults for the runs of each."""
    configured = determined_dialect(determined)
    return tuple(configured if dialect.name == configured.name else dialect for dialect in DIALECTS)


def apply_conventions(run: Run, attempt: Attempt, launch: Launch) -> Launch:
    """The launch with the conventions of the run's system; see `Dialect.apply_conventions`."""
    dialect = dialect_of(run.spec.conventions.system)
    if dialect.own_packages:
        launch = launch._replace(own_packages=True)
    return dialect.apply_conventions(run, attempt, launch)


def _problems(
    dialect: Dialect, text: str, filename: str, directory: str, extras: Extras
) -> Sequence[Problem]:
    """The problems that this dialect finds in the text."""
    try:
        dialect.read(text, filename=filename, directory=directory, extras=extras)
    except InvalidInput as refusal:
        return refusal.problems
    return ()


def _several(filename: str, likely: Sequence[tuple[Dialect, Sequence[Problem]]]) -> list[Problem]:
    names = [dialect.name for dialect, _ in likely]
    choice = f"this may be a run file of {', '.join(names[:-1])} or {names[-1]}"
    first = Problem(
        file=filename, message=choice, hint=f"--dialect {names[0]}, or another of them, says which"
    )
    return [
        first,
        *(
            dataclasses.replace(problem, message=f"as {dialect.name}: {problem.message}")
            for dialect, problems in likely
            for problem in problems[:_LISTED_OF_EACH]
        ),
    ]


def _nobodys(text: str, filename: str, detections: Sequence[tuple[Dialect, Detection]]) -> list[Problem]:
    """The reasons of each dialect, beginning with the usual dialects of such a file name."""
    if _binary(text):
        what = "this is no text but binary data, such as a checkpoint or an archive; no run file is"
        return [Problem(file=filename, message=what)]
    if (unsupported := unsupported_problem(text, filename, DIALECTS)) is not None:
        return [unsupported]
    if not _COMMENTS.sub("", text).strip():
        what = "there is nothing but comments in the file" if text.strip() else "the file is empty"
        return [Problem(file=filename, message=what, hint=_SHORTEST)]
    usual = _USUAL.get(posixpath.splitext(filename)[1].lower(), ())
    missed: dict[Problem, list[str]] = {}
    for dialect, found in sorted(detections, key=lambda pair: pair[0].name not in usual):
        assert isinstance(found, Problem), "a text that is possible was not asked about"
        missed.setdefault(dataclasses.replace(found, file=filename), []).append(dialect.name)
    what = "this is no run file of any kind that tarmac reads"
    first = Problem(file=filename, message=what, hint=_SHORTEST)
    return [first, *(_missed(", ".join(names), problem) for problem, names in missed.items())]


def _binary(text: str) -> bool:
    return "\0" in text[:_LOOKED_AT]


def _missed(names: str, problem: Problem) -> Problem:
    """The problem with the names of the dialects that report it."""
    message = f"{problem.message} ({problem.hint})" if problem.hint else problem.message
    return dataclasses.replace(problem, message=f"as {names}: {message}", hint=None)


_COMMENTS = re.compile(r"^[^\S\n]*+#.*$", re.MULTILINE)
_SHORTEST = "the shortest run file is one line: 'command: echo hello'"
_LISTED_OF_EACH = 2
_LOOKED_AT = 4096
_USUAL = {".isc": ("isc",), ".toml": ("isc",), ".py": ("clusterfudge",), ".json": ("clusterfudge", "mantik")}
"""Usual dialects by file extension."""
