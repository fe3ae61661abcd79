"""The text of a run: from a file, standard input, or a command line; and how to read it.

Used by `run`, `check` and others. The files beside a run file that a dialect may request are few and small:
they are always sent, because only the server knows the dialect.
"""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import click
from msgspec import Struct, field

from tarmac.cli.options import pairs_option, together
from tarmac.model.errors import InvalidInput, nearest

STDIN = "-"
_INTERPRETERS = re.compile(r"(python[\d.]*|pypy[\d.]*|bash|sh|torchrun|accelerate|deepspeed|uv|env)$")
_PROGRAMS = {".py": "python", ".sh": "bash"}
_ARCHIVES = {
    b"PK\x03\x04": "an archive or a checkpoint",
    b"\x80": "a pickled checkpoint",
    b"\x1f\x8b": "a compressed file",
    b"\x89HDF": "an HDF5 file",
}
"""First bytes of files that users mistake for run files."""
_OF_A_SYSTEM = re.compile(rb"clusterfudge|^#(SBATCH|PBS|BSUB)\s|^#\$ -[a-zA-Z]", re.MULTILINE)
_LIMIT_BYTES = 4 * 1024 * 1024
COMPANIONS = frozenset({"mlproject"})
"""Names of files beside a run file that its dialect may request, in lower case."""

COMPANION_VARIABLES = ("MANTIK_COMPUTE_BUDGET_ACCOUNT",)
"""Variables of the shell that the dialect of a run file may request."""

_LARGEST_BYTES = 256 * 1024


class RunText(Struct, frozen=True, kw_only=True):
    """A text to submit, its name in messages, and the directory for its relative paths."""

    text: str
    filename: str
    directory: str

    def request(self) -> dict[str, Any]:
        """The arguments of the client for this text."""
        return {"source": self.text, "filename": self.filename, "directory": self.directory}


def read_run_file(file: str) -> RunText:
    """The run file `file` ("-": standard input); raises InvalidInput if it cannot be read."""
    program = _PROGRAMS.get(os.path.splitext(file)[1])
    if program is not None and os.path.isfile(file) and not _known(file):
        raise InvalidInput(f"{file} is a program, not a run file", hint=f"tarmac run -- {program} {file}")
    return read_text(file, what="a run file")


def rehearsal_of(rehearsal: str) -> str | dict[str, str]:
    """The override of `--rehearse`: `2x1` unchanged, otherwise the file of a cluster."""
    if re.fullmatch(r"\d+x\d+", rehearsal, re.ASCII):
        return rehearsal
    if os.path.splitext(rehearsal)[1] or os.sep in rehearsal or os.path.exists(rehearsal):
        file = read_text(rehearsal, what="a cluster file")
        return {"source": file.text, "filename": file.filename}
    return rehearsal


def read_text(file: str, *, what: str) -> RunText:
    """The text of a file that should be `what`; raises InvalidInput if it cannot be read."""
    if file == STDIN:
        return RunText(
            text=_decoded(_bounded(sys.stdin.buffer, "standard input", what), "<stdin>"),
            filename="<stdin>",
            directory=os.getcwd(),
        )
    if not file:
        raise InvalidInput(f"the name of {what} is empty")
    try:
        if os.path.isdir(file):
            raise InvalidInput(f"{file} is a directory, not {what}", hint=_near(file))
        with open(file, "rb") as stream:
            content = _bounded(stream, file, what)
    except OSError as error:
        raise InvalidInput(f"{file}: {(error.strerror or str(error)).lower()}", hint=_near(file)) from error
    return RunText(text=_decoded(content, file), filename=file, directory=os.path.dirname(absolute(file)))


def absolute(path: str) -> str:
    """The absolute path; `..` remains, because it may lead out of a linked directory."""
    parts = os.path.join(os.getcwd(), path).split("/")
    return "/" + "/".join(part for part in parts if part not in ("", "."))


def from_command(argv: Sequence[str], *, directory: str, home: str) -> RunText:
    """A run file for `tarmac run -- COMMAND`: the command with the code of this directory.

    The home directory and the root are too large to be code, and are left out.
    """
    lines = [f"name: {json.dumps(name_of(argv))}"]
    if directory not in (absolute(home), "/"):
        lines.append("code: .")
    lines.append(f"command: {json.dumps(list(argv), ensure_ascii=False)}")
    return RunText(text="\n".join(lines) + "\n", filename="<command line>", directory=directory)


def name_of(argv: Sequence[str]) -> str:
    """A name for a command: that of the script if an interpreter runs one, else of the program."""
    words = [word for word in argv if word]
    program = os.path.basename(words[0]) if words else ""
    if _INTERPRETERS.search(program):
        scripts = [word for word in words[1:] if re.search(r"\.(py|sh)$", word) and not word.startswith("-")]
        program = os.path.splitext(os.path.basename(scripts[0]))[0] if scripts else program
    name = re.sub(r"[^a-z0-9]+", "-", program.lower()).strip("-")
    return name[:40] or "run"


def _known(file: str) -> bool:
    """Whether the readers know this kind of program: a launch script, or one for a batch system."""
    try:
        with open(file, "rb") as stream:
            return _OF_A_SYSTEM.search(stream.read(_LIMIT_BYTES)) is not None
    except OSError:
        return False


def _bounded(stream: BinaryIO, name: str, what: str) -> bytes:
    """The content of a stream; raises InvalidInput beyond the size limit, because /dev/zero never ends."""
    content = stream.read(_LIMIT_BYTES + 1)
    if len(content) > _LIMIT_BYTES:
        raise InvalidInput(f"{name} is too large to be {what} (more than {_LIMIT_BYTES} bytes)")
    return content


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        kind = next((kind for mark, kind in _ARCHIVES.items() if content.startswith(mark)), None)
        but = f" but, as it begins, {kind}" if kind else ""
        raise InvalidInput(
            f"{name}:{line}: this is not UTF-8 text (byte {content[error.start]:#04x}){but}"
        ) from error


def _near(file: str) -> str | None:
    """A hint that names a run file in a directory, or a file with a similar name."""
    from pathlib import Path  # a run that is submitted needs none

    path = Path(file)
    try:
        if path.is_dir():
            patterns = ("run.yaml", "*.yaml", "*.yml")
            found = [each for pattern in patterns for each in sorted(path.glob(pattern))]
            return f"did you mean {found[0]}?" if found else None
        near = nearest(path.name, [entry.name for entry in path.parent.iterdir() if entry.is_file()])
    except OSError:
        return None
    return f"did you mean {path.parent / near}?" if near else None


class How(Struct, frozen=True, kw_only=True):
    """The options for reading a run file."""

    dialect: str | None = None
    entry_point: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, str] = field(default_factory=dict)

    def extras(self, directory: str) -> dict[str, Any]:
        """The `extras` of docs/using/api.md for a run file in this directory."""
        extras: dict[str, Any] = {"files": companions(directory), "changes": dict(self.changes)}
        extras["variables"] = shell_variables()
        if self.entry_point is not None:
            extras["entry_point"] = self.entry_point
        if self.parameters:
            extras["parameters"] = dict(self.parameters)
        return {name: value for name, value in extras.items() if value}


reading_options = together(
    click.option(
        "--dialect",
        metavar="NAME",
        help="Read it as native, isc, mcli, determined, clusterfudge or mantik; else its content says.",
    ),
    click.option(
        "--entry-point", metavar="NAME", help="The entry point of an MLflow project, 'main' if not given."
    ),
    pairs_option(
        "--parameter", "-P", "parameters", help="A parameter of the project's entry point; may be repeated."
    ),
    pairs_option(
        "--set",
        "changes",
        metavar="PATH=VALUE",
        help="Set a field of the run file, as resources.cpus=4; VALUE is YAML. May be repeated.",
    ),
)
"""--dialect, --entry-point, --parameter and --set, which `how_of` reads."""


def how_of(options: dict[str, Any]) -> How:
    """The reading options, removed from `options`."""
    return How(
        dialect=options.pop("dialect"),
        entry_point=options.pop("entry_point"),
        parameters=dict(options.pop("parameters")),
        changes=dict(options.pop("changes")),
    )


def shell_variables() -> dict[str, str]:
    """The variables of this shell that the dialect of a run file may request."""
    return {name: os.environ[name] for name in COMPANION_VARIABLES if os.environ.get(name)}


def companions(directory: str) -> dict[str, str]:
    """The files beside a run file that its dialect may request; files that are not text are left out."""
    found: dict[str, str] = {}
    try:
        for name in sorted(os.listdir(directory)):
            path = f"{directory}/{name}"
            if (
                name.lower() in COMPANIONS
                and os.path.isfile(path)
                and os.stat(path).st_size <= _LARGEST_BYTES
            ):
                with open(path, encoding="utf-8") as file:
                    found[name] = file.read()
    except (OSError, UnicodeDecodeError):
        return found
    return found
