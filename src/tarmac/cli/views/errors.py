"""Errors for users: `error:` lines with the place, the line itself and a hint. Called by `main` and others.

Every function here turns an error into text, so that tests can compare every word.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tarmac.cli.views.terminal import Terminal, harmless
from tarmac.model.errors import InvalidInput, Problem, TarmacError, Unavailable

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as in shells."""

BROKEN_PIPE = 141
"""Exit code after the reader of the output has disconnected: 128 + SIGPIPE."""

INTERNAL = 70
"""Exit code of an internal error of tarmac (EX_SOFTWARE)."""

WIDEST = 300
"""Maximum width of a quoted line in an output that has no width."""

LineReader = Callable[[str, int], str | None]


def line_of_file(file: str, line: int) -> str | None:
    """Line `line` of a file, for quoting; None if it cannot be read."""
    try:
        with open(file, encoding="utf-8", errors="replace") as text:
            return next((content.rstrip("\n") for at, content in enumerate(text, 1) if at == line), None)
    except OSError:
        return None


def render_error(error: TarmacError, terminal: Terminal, read: LineReader = line_of_file) -> str:
    """All problems, one `error:` paragraph for each, with hints below."""
    lines: list[str] = []
    if isinstance(error, InvalidInput) and error.problems:
        for problem in error.problems:
            lines += _problem(problem, terminal, read)
    else:
        first, *rest = harmless(error.message).splitlines() or ["something went wrong"]
        lines += [f"{label('error', terminal)} {first}", *(f"  {line}" for line in rest)]
    if error.hint:
        lines += _hint(error.hint, terminal)
    return "\n".join(lines)


def render_warning(text: str, terminal: Terminal) -> str:
    """A `warning:` line."""
    return f"{label('warning', terminal)} {harmless(text)}"


def label(word: str, terminal: Terminal) -> str:
    """The first word of such a line, in its colour."""
    return terminal.paint(f"{word}:", {"error": "red", "warning": "yellow"}.get(word, "cyan"))


@contextmanager
def written(option: str, file: str, kind: type[TarmacError] = Unavailable) -> Iterator[None]:
    """Raise an error of this kind, with the option that names the file, if it cannot be written."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise kind(f"{option} {file!r}: it cannot be written: {reason}") from None


def _problem(problem: Problem, terminal: Terminal, read: LineReader) -> Iterator[str]:
    place = harmless(
        ":".join(str(part) for part in (problem.file, problem.line, problem.column) if part is not None)
    )
    opening = f"{label('error', terminal)} "
    first, *rest = harmless(problem.message).splitlines() or ["something is wrong"]
    yield opening + (f"{terminal.paint(place, 'bold')}: {first}" if place else first)
    yield from (f"  {line}" for line in rest)
    if problem.file and problem.line:
        yield from _quote(problem, terminal, read(problem.file, problem.line))
    if problem.hint:
        yield from _hint(problem.hint, terminal)


def _quote(problem: Problem, terminal: Terminal, text: str | None) -> Iterator[str]:
    """The line of the problem, with a mark under the column; a line that may hold a secret is left out."""
    from tarmac.node.files.secrecy import hidden  # errors are rare, and a command must start quickly

    if text is None or not text.strip() or hidden(text) != text:
        return
    gutter = f"{problem.line} | "
    shown = "".join(one if one.isprintable() else "�" for one in text.expandtabs(1))
    shown = shown[: max((terminal.width or WIDEST) - len(gutter) - 3, 20)]
    yield f"  {terminal.paint(gutter, 'dim')}{shown}"
    if problem.column is not None and problem.column <= len(shown) + 1:
        bar = " " * (len(gutter) - 2) + "| "
        yield f"  {terminal.paint(bar, 'dim')}{' ' * (problem.column - 1)}{terminal.paint('^', 'red')}"


def _hint(text: str, terminal: Terminal) -> list[str]:
    first, *rest = harmless(text).splitlines()
    return [f"  {label('hint', terminal)} {first}", *(f"        {line}" for line in rest)]
