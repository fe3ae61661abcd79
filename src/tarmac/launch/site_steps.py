"""The steps on the first node of a batch job, as lines of bash: the one place for the order of K6.

Used by `batch_script` and `unicore_job`, for a site, and by `compose`, for a rehearsal or a job of ours. All
steps run in one shell, so that a command before the application can change its environment:

    variables, modules, commands before, virtual environment, application, commands after

A failing step before the application ends the script with its exit code. The commands after it run in any
case; the script then exits with the application's code, or that of the first failed one of them.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress

from tarmac.launch.quoting import assignment, expandable, join, quote
from tarmac.model.codec import replace
from tarmac.model.site import Apptainer, SiteRequest
from tarmac.model.spec import Command, RunSpec
from tarmac.node.apptainer.options import parse
from tarmac.node.attempt.protocol import BATCH_VARIABLES

_STANDIN = 'python3 -E -S "${PYTHONPATH##*:}/../apptainer"'
"""The stand-in for Apptainer in a rehearsal: see `node/apptainer`.

It is beside the directory that makes `import tarmac` work, which is last on PYTHONPATH.
"""

OF_UNICORE = "UC_WORKING_DIRECTORY"
MODULE_FILES = (
    "/etc/profile.d/modules.sh",
    "/etc/profile.d/lmod.sh",
    "/usr/share/modules/init/bash",
    "/usr/share/lmod/lmod/init/bash",
)
"""Files that define the command `module`, for shells that are not login shells."""


def site_steps(spec: RunSpec) -> list[str]:
    """The lines of the script for the site."""
    return [
        *_directory_variable(spec),
        *(f"export {assignment(name, value)}" for name, value in spec.environment.variables.items()),
        *(f"module load {quote(name)} || exit" for name in spec.environment.modules),
        *(f"{shell(command)} || exit" for command in spec.hooks.before),
        *_activation(spec),
        *_around(_application(spec), spec.hooks.after),
    ]


def batch_steps(spec: RunSpec) -> list[str]:
    """The same for a job in which a runner starts the script, with the environment of a job's own script.

    A local image is part of the code. A bind needs its source.
    """
    site = _site(spec)
    if site.apptainer is not None:
        before = (*spec.hooks.before, *_source_checks(site.apptainer))
        spec = replace(spec, hooks=replace(spec.hooks, before=before))
    return [
        f'[ ! -r "${{{BATCH_VARIABLES}:-}}" ] || . "${BATCH_VARIABLES}"',
        *_unicore_variable(site),
        *([find_module_command()] if spec.environment.modules else []),
        *site_steps(spec),
    ]


def rehearsed_steps(spec: RunSpec) -> list[str]:
    """The same for a machine that is not the site: it reports missing modules and environments.

    The variables are the worker's already, except UNICORE's, which a site sets itself and commands before use
    to return to it. The application runs once, without srun; without Apptainer, tarmac starts its image.
    """
    return [
        *_directory_variable(spec),
        *_unicore_variable(_site(spec)),
        *load_modules(spec.environment.modules),
        *(f"{shell(command)} || exit" for command in spec.hooks.before),
        *_optional_activation(spec),
        *_around(_rehearsed_application(spec), spec.hooks.after),
    ]


def login_command(commands: Iterable[Command]) -> str | None:
    """Commands of the login node as one line, each after the success of the previous one; None for none."""
    lines = [shell(command) for command in commands]
    return " && ".join(lines) if lines else None


def shell(command: Command) -> str:
    """A command as one line of a script, which the script survives whatever the command contains.

    Simple commands are kept as written, others are passed to `eval` in quotes: an unclosed quote, or a
    comment, then breaks that one command only.
    """
    if command.script is None:
        return join(command.argv or ())
    return command.script if _simple(command.script) else f"eval {quote(command.script)}"


def find_module_command() -> str:
    """A line that makes `module` available, if this machine has it."""
    files = " ".join(MODULE_FILES)
    return (
        f"for tarmac_file in {files}; do type module &>/dev/null && break; "
        '[ ! -r "$tarmac_file" ] || . "$tarmac_file"; done'
    )


def load_modules(modules: tuple[str, ...]) -> list[str]:
    """Lines that load modules if there is a module system, and otherwise report that they are not loaded."""
    if not modules:
        return []
    message = quote(f"tarmac: there is no command 'module' here; not loaded: {', '.join(modules)}")
    return [
        find_module_command(),
        "if type module &>/dev/null; then",
        *(f"  module load {quote(name)} || exit" for name in modules),
        f"else echo {message} >&2; fi",
    ]


def _site(spec: RunSpec) -> SiteRequest:
    assert spec.site is not None, "only a run for a site has steps of one"
    return spec.site


def _directory_variable(spec: RunSpec) -> list[str]:
    name = _site(spec).directory_variable
    return [] if name is None else [f'export {name}="$PWD"']


def _unicore_variable(site: SiteRequest) -> list[str]:
    return [f'export {OF_UNICORE}="$PWD"'] if site.unicore_url else []


def _application(spec: RunSpec) -> str:
    image, command = _site(spec).apptainer, _command(spec)
    return shell(command) if image is None else f"srun {_in_image(image, image.path, command)}"


def _rehearsed_application(spec: RunSpec) -> str:
    image, command = _site(spec).apptainer, _command(spec)
    if image is None:
        return shell(command)
    started = _in_image(image, image.source or image.path, command)
    return f"if type apptainer &>/dev/null; then {started}; else {_STANDIN} {started.partition(' ')[2]}; fi"


def _command(spec: RunSpec) -> Command:
    """The entry point: the command of the run's only role."""
    return spec.roles[0].processes[0].command


def _in_image(image: Apptainer, path: str, command: Command) -> str:
    """`apptainer run OPTIONS IMAGE COMMAND`; anything but plain words runs in a shell inside the image."""
    words = ["apptainer", "run", *map(expandable, image.options)]
    words.append(expandable(path) if image.remote else quote(path))
    if command.script is None or (_simple(command.script) and not re.search(r"[$~*?\[]", command.script)):
        return " ".join([*words, shell(command)])
    return " ".join([*words, "sh", "-c", quote(command.script)])


def _source_checks(image: Apptainer) -> Iterator[Command]:
    """Commands that fail if the source of a bind in the options is missing."""
    with suppress(ValueError):  # options that Apptainer refuses
        for bind in parse([*image.options, image.path]).binds:
            problem = quote(f"tarmac: cannot bind {bind.source} to {bind.target} on")
            report = f'echo {problem} "$HOSTNAME: no such file or directory" >&2'
            yield Command(script=f"[ -e {expandable(bind.source)} ] || {{ {report}; false; }}")


def _activation(spec: RunSpec) -> list[str]:
    venv = _site(spec).venv
    return [] if venv is None else [f"source {expandable(f'{venv}/bin/activate')} || exit"]


def _optional_activation(spec: RunSpec) -> Iterator[str]:
    """An environment in the project must exist; one of the site may be missing here, with a message."""
    venv = _site(spec).venv
    if venv is None:
        return
    if not venv.startswith(("/", "$")):
        yield from _activation(spec)
        return
    path = expandable(f"{venv}/bin/activate")
    message = quote(
        f"tarmac: the virtual environment {venv} is not on this machine; the usual python is used"
    )
    yield f"if [ -e {path} ]; then source {path} || exit; else echo {message} >&2; fi"


def _around(application: str, after: tuple[Command, ...]) -> list[str]:
    """The application, in a shell of its own if commands must run after it in any case."""
    if not after:
        return [application]
    return [
        f"( {application} )",
        "tarmac_code=$?",
        *(f"( {shell(command)} ) || tarmac_code=$((tarmac_code ? tarmac_code : $?))" for command in after),
        'exit "$tarmac_code"',
    ]


def _simple(script: str) -> bool:
    """Whether a line of shell is one command of plain words: without operators, all quotes closed."""
    if not script.isprintable() or _KEYWORD.match(script):
        return False
    bare = _QUOTED.sub(lambda found: "`" if re.search(r"[`\\]|\$\(", found[2] or "") else "", script)
    if re.search(r"[`\\!#;&|<>(){}'\"]", bare):
        return False
    try:
        return bool(shlex.split(script))
    except ValueError:
        return False


_QUOTED = re.compile(r"('[^']*')|\"([^\"]*)\"|\$\{\w+\}", re.ASCII)
_KEYWORD = re.compile(r"\s*(if|for|while|until|case|select|function|time|coproc|\[\[)\b", re.ASCII)
