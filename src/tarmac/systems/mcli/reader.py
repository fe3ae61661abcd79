"""Reads an MCLI run file: a located tree to a `RunSpec`, every problem reported. Called by the dialect."""

import re
from collections.abc import Iterator
from typing import Any

from tarmac.dialects import topology
from tarmac.dialects.conventions import refuse_extras
from tarmac.dialects.dialect import NO_EXTRAS, Extras, Reading
from tarmac.dialects.kinds import line, text
from tarmac.dialects.located import Scalar, Table
from tarmac.dialects.plain import to_plain
from tarmac.dialects.problems import Problems
from tarmac.dialects.section import Section, Value
from tarmac.dialects.yaml_tree import compose_table
from tarmac.model.spec import Command, Conventions, Environment, RunSpec
from tarmac.systems.mcli.compute import Compute, read_compute
from tarmac.systems.mcli.environment import read_env, read_metadata, read_trackers
from tarmac.systems.mcli.fields import RUN, WORKSPACE, KnownSection, read_known, read_word
from tarmac.systems.mcli.integrations import Integrations, read_integrations
from tarmac.systems.mcli.scheduling import Scheduling, read_scheduling

NAME = "mcli"
SHELL = ("bash", "-ec")
"""Runs the command: it ends at the first failing line; only a pipe's last command counts."""

_WORKSPACE = re.compile(rf"(?<![\w.-]){WORKSPACE}(?![\w.-])", re.ASCII)
_IMAGE = re.compile(
    r"([\w.-]+(:[0-9]{1,5})?/)?[a-z0-9][\w.-]*(/[\w.-]+)*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?",
    re.ASCII | re.IGNORECASE,
)


def read_mcli(source: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:  # noqa: ARG001 all paths in it are of the nodes
    """The spec in an MCLI run file; raises InvalidInput with every problem in it."""
    refuse_extras(extras, filename=filename, dialect=NAME)
    problems = Problems(filename)
    tree = compose_table(source, problems, "fields such as 'name: hello-world' are", lenient=True)
    run = read_known(Value(tree, "", problems), RUN, description="a mapping")
    assert run is not None, "the tree is a mapping"
    spec = _spec(run, source, elsewhere=extras.override_fields)
    problems.raise_any()
    return Reading(spec=spec, warnings=tuple(sorted(problems.warnings, key=_line)))


def _line(warning: str) -> int:
    """The line of a warning, for sorting; 0 for a warning about the whole text."""
    found = re.match(r"line ([0-9]+): ", warning)
    return int(found[1]) if found else 0


def _spec(run: KnownSection, source: str, *, elsewhere: frozenset[str]) -> RunSpec:
    name = read_name(run, elsewhere="name" in elsewhere)
    image = _image(run)
    compute = read_compute(run, counted="slots" in elsewhere)
    scheduling = read_scheduling(run)
    listed = run.get("env_variables")
    env = {} if listed is None else read_env(listed)
    integrations = read_integrations(run.get("integrations"), env)
    trackers = read_trackers(run)
    metadata, labels = ({}, {}) if (value := run.get("metadata")) is None else read_metadata(value)
    _refuse_deployment(run.get("dependent_deployment"))
    command = _command(run)
    if compute.slots and "slots" not in elsewhere and (value := run.get("command")) is not None:
        for doubt in _doubts(str(command), compute):
            value.warn(doubt)
    facts = _facts(scheduling, integrations, metadata)
    if _WORKSPACE.search(
        " ".join([str(command), *(str(record.get("path")) for record in integrations.records)])
    ):
        facts["workspace"] = True
    return RunSpec(
        name=name,
        unique_name=True,
        dialect=NAME,
        source=source,
        conventions=Conventions(system=NAME, facts=facts),
        roles=(compute.role(command),),
        target=compute.target,
        priority=scheduling.priority,
        retries=scheduling.retries,
        time_limit_s=scheduling.time_limit_s,
        setup=tuple(integrations.setup),
        environment=Environment(variables={**trackers, **integrations.variables, **env}, image=image),
        parameters=_parameters(run.get("parameters")),
        labels=labels,
    )


def _command(run: Section) -> Command:
    """The command that runs once on each node, without surrounding blanks."""
    value, entry = run.get("command"), run.get("entrypoint")
    if (
        value is not None
        and entry is not None
        and isinstance(entry.node, Scalar)
        and not entry.node.text.strip()
    ):
        entry = None
    if value is not None and entry is not None:
        entry.refuse("cannot stand beside 'command'", "an entrypoint is a script that composer starts")
    script = ""
    if value is not None:
        script = (value.read(text("a script, as one text,"), "") or "").strip()
        if not script and isinstance(value.node, Scalar):
            value.refuse("the command is empty")
    elif entry is not None:
        program = read_word(entry, "the path of a script")
        script = f'composer {program} -f "$PARAMETERS"' if program else ""
    else:
        run.missing("command", "add a line such as 'command: composer train.py'")
    return Command(argv=(*SHELL, script))


NAMES = topology.Names(
    nodes="$NUM_NODES", processes="$LOCAL_WORLD_SIZE", world="$WORLD_SIZE", slots="the number of GPUs"
)


def _doubts(command: str, compute: Compute) -> Iterator[str]:
    """Sentences about numbers of nodes and processes that the command fixes."""
    yield from topology.doubts(command, compute.slots, NAMES)
    count = topology.process_count(command)
    if count and compute.slots % count == 0 and compute.slots != count * (compute.nodes or 0):
        yield (
            f"it starts {count} processes on each node, which holds where the run gets {count} GPUs of each; "
            f"with {NAMES.processes} in its place, wherever it runs"
        )


def _image(run: Section) -> str | None:
    value = run.get("image")
    if value is None:
        if "image" not in run.suggestions:
            run.problems.warn(
                None, "'image' is missing, which MCLI asks for; commands run on the nodes as they are"
            )
        return None
    image = read_word(value, "the name of a container image")
    if image is None:
        return None
    if not _IMAGE.fullmatch(image):
        value.refuse(f"the image name {image[:60]!r} is not valid", "such as mosaicml/pytorch:latest")
        return None
    return image


def _parameters(value: Value | None) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value.node, Table):
        value.expected("a mapping")
        return None
    parameters: dict[str, Any] = to_plain(value.node)
    return parameters


def _refuse_deployment(value: Value | None) -> None:
    if value is not None and not (isinstance(value.node, Table) and not value.node.entries):
        value.refuse(
            "a server in a container of its own beside each node is not started by tarmac",
            "start the server from the command, in the background, and take this out",
        )


def _facts(scheduling: Scheduling, integrations: Integrations, metadata: dict[str, Any]) -> dict[str, Any]:
    """Facts for the files and words of the run, beyond its spec. Never a value of env_variables."""
    facts: dict[str, Any] = {
        "priority": scheduling.word,
        "preemptible": scheduling.preemptible or None,
        "integrations": integrations.records,
        "metadata": metadata,
        "wandb": integrations.wandb or None,
    }
    return {name: fact for name, fact in facts.items() if fact not in (None, [], {})}


LONGEST = 56
"""Limit for the user's part: names have at most 63 characters, and the server adds a dash and six."""

_VALID = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)


def read_name(run: Section, *, elsewhere: bool = False) -> str:
    """The name, made valid with a warning; `elsewhere`: the user gives the name outside the file."""
    value = run.get("name")
    if value is None and elsewhere:
        return "run"
    if value is None:
        run.missing("name", "a run name must be provided using the keyword name, or by --name")
        return "run"
    written = value.read(line("a name"), None)
    if written is None:
        return "run"
    name = re.sub(r"[^a-z0-9]+", "-", written.lower(), flags=re.ASCII).strip("-")
    name = written if _VALID.fullmatch(written) else name
    if not name:
        value.refuse(
            f"{written!r} has no letter or digit", "a name has small letters, digits and '-', such as my-run"
        )
        return "run"
    if len(name) > LONGEST:
        value.refuse(
            f"the name has {len(name)} characters and {LONGEST} are allowed, for the run's own end is added",
            f"{name[:LONGEST].rstrip('-')!r} would do",
        )
        return "run"
    if name != written:
        value.warn(f"{written!r} becomes {name!r}: names have small letters, digits and '-' only")
    return name
