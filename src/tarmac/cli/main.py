"""The program `tarmac`: finds the command, runs it, turns its result or error into output and an exit code.

Called by the `tarmac` script and `python -m tarmac.cli`. Starts quickly: no part of a command is imported
before the command is called. The one broad `except` of the command line is here, so that no traceback reaches
a user.
"""

import atexit
import contextlib
import os
import sys
import threading

import click
from click.exceptions import Exit

from tarmac import __version__
from tarmac.cli.lazy import LazyGroup, text_option
from tarmac.cli.views import errors
from tarmac.cli.views.terminal import stderr_terminal, terminal_columns
from tarmac.model.errors import TarmacError, nearest

PROGRAM = "tarmac"

COMPLETE_VARIABLE = "_TARMAC_COMPLETE"
"""Set by the scripts of `tarmac completion`; the name is click's."""

WIDEST = 100
"""The maximum of columns of help texts."""

program = LazyGroup(
    name=PROGRAM,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
    help=(
        "Launch training on whatever cluster you have.\n\n"
        "Start with: tarmac run run.yaml, or tarmac run -- python train.py"
    ),
    epilog="A RUN is an id, the start of one, a name (the newest of it), or @last. "
    "tarmac COMMAND --help says more.",
)
program.params.append(
    text_option("--version", text=lambda _: f"{PROGRAM} {__version__}", help="Print the version and exit.")
)


def run_process() -> None:
    """The entry of the process: `main`, then the end of the process without Python's removal of all modules.

    That removal would take a fifth of the time of a short command.
    """
    try:
        main()
    except SystemExit as end:
        if threading.active_count() > 1 or not isinstance(end.code, int):
            raise
        atexit._run_exitfuncs()  # only Python's own end calls them otherwise
        os._exit(end.code)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line (by default that of the process); never returns."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # a stream was replaced by a simpler object
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    code = _guarded(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_flushed(code))


def _guarded(arguments: list[str]) -> int:
    """The exit code of the command line `arguments`; renders every error."""
    try:
        return _called(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except click.UsageError as error:
        _say(_usage(error))
        return error.exit_code
    except click.ClickException as error:
        _say(_labelled("error", error.format_message()))
        return error.exit_code
    except TarmacError as error:
        _say(errors.render_error(error, stderr_terminal()))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted")
        return errors.INTERRUPTED
    except BrokenPipeError:
        return _abandon_stdout()
    except OSError as error:
        _say(_refused_by_system(error))
        return 1
    except Exception as error:  # noqa: BLE001 the outermost level: a user sees one line, the details go to a file
        _say(_internal(error))
        return errors.INTERNAL


def _called(arguments: list[str]) -> int:
    """Run the command line, or complete it for a shell; raises errors."""
    if instruction := os.environ.get(COMPLETE_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(program, {}, PROGRAM, COMPLETE_VARIABLE, instruction)
    width = max(min(terminal_columns(80), WIDEST) - 2, 50)  # click's rule
    try:
        with program.make_context(PROGRAM, arguments, terminal_width=width) as context:
            program.invoke(context)
    except Exit as end:
        return end.exit_code
    return 0


def _usage(error: click.UsageError) -> str:
    text = _without_option(error) if isinstance(error, click.NoSuchOption) else error.format_message()
    text = text.rstrip(".")
    lines = [_labelled("error", f"{text[:1].lower()}{text[1:]}")]
    if error.ctx is not None:
        pieces = " ".join(error.ctx.command.collect_usage_pieces(error.ctx))
        lines.append(f"  usage: {error.ctx.command_path} {pieces}")
        lines.append(f"  {_labelled('hint', f'{error.ctx.command_path} --help')}")
    return "\n".join(lines)


def _without_option(error: click.NoSuchOption) -> str:
    """The message for an unknown option, with the nearest known one."""
    params = error.ctx.command.get_params(error.ctx) if error.ctx else []
    near = nearest(error.option_name, [name for param in params for name in param.opts])
    return f"there is no option {error.option_name}" + (f"; did you mean {near}?" if near else "")


def _refused_by_system(error: OSError) -> str:
    """The message for an error of the operating system, such as a full disk, with its file."""
    text = (error.strerror or str(error)).lower()
    of = f": {error.filename}" if error.filename else ""
    return _labelled("error", f"{text}{of}")


def _labelled(word: str, text: str) -> str:
    return f"{errors.label(word, stderr_terminal())} {text}"


def _internal(error: Exception) -> str:
    """One line about an internal error, whose traceback is written to a file."""
    import tempfile
    import traceback

    line = _labelled("error", f"internal error: {type(error).__name__}: {error}")
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="tarmac-error-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(f"tarmac {__version__}, Python {sys.version}\n{sys.argv}\n\n")
            traceback.print_exception(error, file=file)
    except OSError:
        return line
    return f"{line}\n  {_labelled('hint', f'please report it with {file.name}')}"


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # the reader has disconnected
        click.echo(text, err=True)


def _flushed(code: int) -> int:
    """`code`, after the last output is flushed; flushing may reveal that the reader has disconnected."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _abandon_stdout()
    except OSError as error:
        _abandon_stdout()
        if code == 0:
            _say(_refused_by_system(error))
        return code or 1
    return code


def _abandon_stdout() -> int:
    """Redirect stdout to the null device, so that the interpreter's flush at exit succeeds."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return errors.BROKEN_PIPE
