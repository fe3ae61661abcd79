"""Reads an MCLI run file: a located tree to a `RunSpec`, every problem reported. Called by the dialect."""

import re
from collections.abc import Iterator
from typing import Any

from tarmac.dialects import topology
from tarmac.dialects.dialect import NO_EXTRAS, Extras, Reading, refuse_extras
from tarmac.dialects.kinds import line, text
from tarmac.dialects.located import Problems, Scalar, Table
from tarmac.dialects.schema import AS_IT_IS, MISSING, Custom, Field, mapping, read_fields, record
from tarmac.dialects.section import Section, Value
from tarmac.dialects.yaml_tree import compose_table
from tarmac.model.spec import Command, Conventions, Environment, RunSpec
from tarmac.systems.mcli.compute import COMPUTE, Compute, read_compute
from tarmac.systems.mcli.environment import TRACKER, read_env, read_metadata
from tarmac.systems.mcli.fields import WORKSPACE, KnownSection, Vocabulary
from tarmac.systems.mcli.integrations import read_integrations
from tarmac.systems.mcli.scheduling import PRIORITIES, SCHEDULING, WATCHDOG_RETRIES

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
    run = RUN.section(Value(tree, "", problems))
    assert run is not None, "the tree is a mapping"
    spec = _spec(run, source, elsewhere=extras.override_fields)
    problems.raise_any()
    return Reading(spec=spec, warnings=problems.sorted_warnings)


def _spec(run: KnownSection, source: str, *, elsewhere: frozenset[str]) -> RunSpec:
    if "name" not in run and "name" not in elsewhere:
        run.missing("name", "a run name must be provided using the keyword name, or by --name")
    if "image" not in run and "image" not in run.suggestions:
        run.problems.warn(
            None, "'image' is missing, which MCLI asks for; commands run on the nodes as they are"
        )
    compute = read_compute(run, counted="slots" in elsewhere)
    found = read_fields(run, RUN.shape)
    env, metadata_and_labels = found.get("env_variables", {}), found.get("metadata", ({}, {}))
    integrations = read_integrations(run.get("integrations"), env)
    scheduling = found.get("scheduling", {})
    retries = 0
    if scheduling.get("watchdog_enabled") or scheduling.get("retry_on_system_failure"):
        retries = WATCHDOG_RETRIES
    command = _command(run)
    if compute.slots and "slots" not in elsewhere and (value := run.get("command")) is not None:
        for doubt in _doubts(str(command), compute):
            value.warn(doubt)
    paths = (str(record.get("path")) for record in integrations.records)
    facts = {  # for the files and words of the run, beyond its spec: never a value of env_variables
        "priority": scheduling.get("priority"),
        "preemptible": scheduling.get("preemptible") or None,
        "integrations": integrations.records,
        "metadata": metadata_and_labels[0],
        "wandb": any(record["integration_type"] == "wandb" for record in integrations.records) or None,
        "workspace": _WORKSPACE.search(" ".join([str(command), *paths])) is not None or None,
    }
    variables = {**found.get("experiment_tracker", {}), **integrations.variables, **env}
    return RunSpec(
        name=found.get("name", "run"),
        unique_name=True,
        dialect=NAME,
        source=source,
        conventions=Conventions(
            system=NAME, facts={name: fact for name, fact in facts.items() if fact not in (None, [], {})}
        ),
        roles=(compute.role(command),),
        target=compute.target,
        priority=PRIORITIES[scheduling.get("priority", "default")],
        retries=scheduling.get("max_retries", retries),
        time_limit_s=scheduling.get("max_duration"),
        setup=tuple(integrations.setup),
        environment=Environment(variables=variables, image=found.get("image")),
        parameters=found.get("parameters"),
        labels=metadata_and_labels[1],
    )


def _command(run: Section) -> Command:
    """The command that runs once on each node, without surrounding blanks."""
    value, entry = run.get("command"), run.get("entrypoint")
    blank = entry is not None and isinstance(entry.node, Scalar) and not entry.node.text.strip()
    if entry is not None and value is not None and not blank:
        entry.refuse("cannot stand beside 'command'", "an entrypoint is a script that composer starts")
    script = ""
    if value is not None:
        script = (value.read(text("a script, as one text,"), "") or "").strip()
        if not script and isinstance(value.node, Scalar):
            value.refuse("the command is empty")
    elif entry is not None:
        program = entry.read(line("the path of a script"), None)
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


def _image(value: Value) -> Any:
    image = value.read(line("the name of a container image"), None)
    if image is not None and not _IMAGE.fullmatch(image):
        value.refuse(f"the image name {image[:60]!r} is not valid", "such as mosaicml/pytorch:latest")
    return MISSING if image is None else image


def _refuse_deployment(value: Value) -> Any:
    if not (isinstance(value.node, Table) and not value.node.entries):
        value.refuse(
            "a server in a container of its own beside each node is not started by tarmac",
            "start the server from the command, in the background, and take this out",
        )
    return MISSING


LONGEST = 56
"""Limit for the user's part: names have at most 63 characters, and the server adds a dash and six."""

_VALID = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)


def _name(value: Value) -> Any:
    """The name, made valid with a warning."""
    written = value.read(line("a name"), None)
    if written is None:
        return MISSING
    name = re.sub(r"[^a-z0-9]+", "-", written.lower(), flags=re.ASCII).strip("-")
    name = written if _VALID.fullmatch(written) else name
    if not name:
        value.refuse(
            f"{written!r} has no letter or digit", "a name has small letters, digits and '-', such as my-run"
        )
    elif len(name) > LONGEST:
        value.refuse(
            f"the name has {len(name)} characters and {LONGEST} are allowed, for the run's own end is added",
            f"{name[:LONGEST].rstrip('-')!r} would do",
        )
    elif name != written:
        value.warn(f"{written!r} becomes {name!r}: names have small letters, digits and '-' only")
    return name


_DEPLOYMENT = (
    "this is the file of an inference deployment, not of a run",
    "tarmac runs training: a run has name, image, command and compute",
)

RUN = Vocabulary(
    shape=record(
        {
            "name": Custom(_name),
            "image": Field(Custom(_image), words="docker_image container container_image"),
            "command": Field(AS_IT_IS, words="cmd script run"),
            **dict.fromkeys(("entrypoint", "compute", "integrations"), AS_IT_IS),
            **dict.fromkeys(("cluster", "gpu_type", "gpu_num", "cpus"), AS_IT_IS),
            "scheduling": SCHEDULING.part(),
            "env_variables": Field(Custom(read_env), words="env envs environment environment_variables"),
            "experiment_tracker": TRACKER.part("a mapping with mlflow or wandb"),
            "metadata": Custom(read_metadata),
            "dependent_deployment": Custom(_refuse_deployment),
            "parameters": Field(mapping("a mapping"), words="params config"),
        },
        synonyms={name: f"compute.{name}" for name in COMPUTE.shape.fields}
        | {name: f"scheduling.{name}" for name in SCHEDULING.shape.fields},
    ),
    renamed={"run_name": "name", "platform": "cluster"},
    old=frozenset({"run_name", "platform"}),
    ignored={
        "partitions": "tarmac chooses among the nodes of the cluster itself; --pool names one of its pools",
        "optimization_level": "nothing is optimised for you; algorithms are part of your own code",
        "parent_name": "the run does not end with another one",
    },
    refused=dict.fromkeys(("model", "default_model", "replicas", "rate_limits"), _DEPLOYMENT),
)
