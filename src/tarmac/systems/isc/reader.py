"""Reads an ISC launch file: a located tree to a `RunSpec`, every problem reported. Called by the dialect."""

import re
from enum import StrEnum
from typing import Any

from tarmac.dialects.conventions import refuse_extras
from tarmac.dialects.dialect import NO_EXTRAS, Extras, Reading
from tarmac.dialects.kinds import Kind, choice, integer, text
from tarmac.dialects.located import Items, Scalar
from tarmac.dialects.names import fit
from tarmac.dialects.native.fields import IDENTIFIER, MOST_RAPID_CYCLES
from tarmac.dialects.problems import Problems
from tarmac.dialects.section import Section, Value
from tarmac.dialects.slot_types import is_known
from tarmac.dialects.toml_tree import compose
from tarmac.dialects.topology import fixed_nodes
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.resources import ACCELERATOR, CPU_ONLY
from tarmac.model.spec import DEFAULT_RAPID_CYCLES, Command, Conventions, Process, Role, RunSpec
from tarmac.systems.isc.commands import command_of, doubts, joined
from tarmac.systems.isc.conventions import DATASET_AT_DATA
from tarmac.systems.isc.fields import Retired, line_of, only_credentials, split_keys, warn

NAME = "isc"
MOST_SLOTS = 1_000_000
MOST_BURST_SLOTS = 48
MOST_INPUTS = 3
MOST_NODES = 100_000
OLD_SLOTS_PER_NODE = 6
"""Slots per node in the years when files had `nnodes`."""

_CREDENTIALS = (
    "this file holds credentials and launches nothing (none of it is repeated here)",
    "name the launch file; tarmac needs no credentials of the ISC",
)


class ComputeMode(StrEnum):
    """The modes of the ISC."""

    CYCLE = Mode.CYCLE
    INTERRUPTIBLE = Mode.INTERRUPTIBLE
    BURST = Mode.BURST


def read_isc(source: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:  # noqa: ARG001 it names no path
    """The spec in a launch file; raises InvalidInput with every problem in it."""
    refuse_extras(extras, filename=filename, dialect=NAME)
    problems = Problems(filename)
    tree = compose(source, problems)
    if tree is None or not tree.entries:
        if not problems:
            problems.add_at(None, None, "the file is empty")
        problems.raise_any()
        raise AssertionError("a text without a tree has a problem")
    if only_credentials({key.text for key, _ in tree.entries}):
        problems.add(tree.entries[0][0], *_CREDENTIALS)
        problems.raise_any()
    run, retired = split_keys(tree, problems)
    facts: dict[str, Any] = {}
    slots = _slots(run, retired)
    _note_output(retired)
    mode = _mode(run, slots)
    spec = RunSpec(
        name=_name(run, facts),
        project=_project(run, retired, facts),
        dialect=NAME,
        source=source,
        roles=(_role(run, retired, slots, has_code="code" in extras.override_fields),),
        mode=mode,
        max_rapid_cycles=_turns(run, mode),
        datasets=_datasets(run, retired, facts),
        input_artifacts=_inputs(run),
    )
    _shapes(run, mode, facts)
    retired.warn()
    problems.raise_any()
    return Reading(
        spec=replace(spec, conventions=Conventions(system=NAME, facts=facts)),
        warnings=tuple(sorted(problems.warnings, key=line_of)),
    )


def _role(run: Section, retired: Retired, slots: int | None, *, has_code: bool) -> Role:
    """The command once on each node: on as many nodes as the command names, else on as few as possible."""
    command = _command(run, retired, slots, has_code=has_code)
    nodes = fixed_nodes(str(command), slots)
    if nodes is not None and nodes > 1 and (value := run.get("command")) is not None:
        warn(
            value,
            f"command: it says itself that there are {nodes} nodes: it waits for as many; "
            "with $NNODES and $N_PROC in their place, any that have the GPUs will do",
        )
    return Role(
        processes=(Process(command=command),),
        replicas=None,
        slots=slots or 1,
        slot_type=_slot_type(retired) or ACCELERATOR,
        nodes=nodes,
        uneven=nodes is None,
    )


# --- names


def _name(run: Section, facts: dict[str, Any]) -> str:
    value = run.get("experiment_name")
    if value is None:
        run.missing("experiment_name", 'as in experiment_name = "my-experiment"')
        return NAME
    written = _words(value)
    facts["experiment_name"] = written
    name = fit(written) or "experiment"
    if written and name != written:
        warn(value, f"the run is called {name!r} here; STRONG_EXPERIMENT_NAME is as it is written")
    return name


def _project(run: Section, retired: Retired, facts: dict[str, Any]) -> str:
    value = run.get("isc_project_id")
    if value is None and "nnodes" in retired and "gpus" not in run:
        retired.note(retired["nnodes"], "'isc_project_id' is missing (project 'default')")
        return "default"
    if value is None:
        run.missing("isc_project_id", "any name will do here: runs of one project are listed together")
        return "default"
    written = _stripped(value, _words(value))
    facts["isc_project_id"] = written
    project = fit(written) or "default"
    if re.fullmatch(r"<.*>", written):
        warn(value, f"{written[:60]!r} is a placeholder; the run belongs to project {project!r}")
    return project


def _words(value: Value) -> str:
    """A quoted text that is not empty."""
    if isinstance(value.node, Scalar) and not value.node.quoted:
        value.refuse(f"a text in quotes is expected, not {value.node.text[:60]!r}")
        return ""
    found = value.read(text("a text in quotes"), "")
    if isinstance(value.node, Scalar) and not value.node.text.strip():
        value.refuse("the text is empty")
    return found


def _stripped(value: Value, written: str) -> str:
    if written != written.strip():
        warn(value, f"{value.path}: blanks around {written.strip()[:60]!r} are left out")
    return written.strip()


# --- size and mode


def _slots(run: Section, retired: Retired) -> int | None:
    value, old = run.get("gpus"), retired.get("nnodes")
    if value is not None:
        if old is not None:
            retired.note(old, "'nnodes' is ignored ('gpus' says how many)")
        return value.read(integer(1, MOST_SLOTS), None)
    if old is None:
        run.missing("gpus", "how many GPUs in all, as in gpus = 8")
        return None
    nodes = old.read(integer(1, MOST_NODES), None)
    if nodes is None:
        return None
    slots = nodes * OLD_SLOTS_PER_NODE
    retired.note(old, f"'nnodes' is read as gpus = {slots} ({nodes} x {OLD_SLOTS_PER_NODE})")
    return slots


def _slot_type(retired: Retired) -> str | None:
    """The slot type, if its name is known; otherwise None, with a note that `gpu_type` is ignored."""
    value = retired.get("gpu_type")
    if value is None:
        return None
    kind = value.read(text("a text in quotes"), "").strip().lower()
    if is_known(kind) and kind != CPU_ONLY:
        retired.note(value, f"'gpu_type' asks for {kind!r}, as --gpu-type does")
        return kind
    retired.note(value, "'gpu_type' is ignored (--gpu-type asks for a type)")
    return None


def _mode(run: Section, slots: int | None) -> Mode:
    value = run.get("compute_mode")
    mode = Mode(run.read("compute_mode", choice(ComputeMode), ComputeMode.CYCLE))
    if value is not None and mode is Mode.BURST and (slots or 0) > MOST_BURST_SLOTS:
        (run.get("gpus") or value).refuse(
            f"a burst experiment has at most {MOST_BURST_SLOTS} GPUs, not {slots}",
            "other compute modes may have as many as the cluster",
        )
    return mode


def _turns(run: Section, mode: Mode) -> int:
    value = run.get("max_rapid_cycles")
    if value is None:
        return DEFAULT_RAPID_CYCLES
    turns = value.read(integer(1, MOST_RAPID_CYCLES), DEFAULT_RAPID_CYCLES)
    if mode is not Mode.CYCLE:
        warn(value, f"'max_rapid_cycles' has no effect: only cycle experiments cycle, this is {mode}")
        return DEFAULT_RAPID_CYCLES
    return turns


def _shapes(run: Section, mode: Mode, facts: dict[str, Any]) -> None:
    value = run.get("burst_shape_priority_list")
    if value is None:
        return
    shapes = [item.read(text("the id of a shape, in quotes,"), "") for item in value.items(_LIST_OF_IDS)]
    if mode is Mode.BURST:
        facts["burst_shapes"] = [shape.strip() for shape in shapes if shape.strip()]
    else:
        warn(value, f"'burst_shape_priority_list' has no effect: it is for burst, this is {mode}")


# --- command and inputs


def _command(run: Section, retired: Retired, slots: int | None, *, has_code: bool) -> Command:
    value = run.get("command")
    if value is None:
        run.missing("command", "what each node executes, as in command = '''source ... && torchrun ...'''")
        return Command(argv=("true",))
    written = _words(value)
    if joined(written).startswith("#"):
        value.refuse(
            "a comment begins it, and line breaks act as blanks in an ISC command: nothing of it would run",
            "take the comment out",
        )
    for doubt in doubts(written, slots, has_code=has_code):
        warn(value, f"command: {doubt}")
    return command_of(_activated(written, retired))


def _activated(command: str, retired: Retired) -> str:
    """The command, preceded by its activation script if the file has the retired `venv_path`.

    In those years the ISC itself called torchrun: the command could be only a program for it.
    """
    value = retired.get("venv_path")
    path = value.read(text("a path in quotes"), "").strip() if value is not None else ""
    if value is None or not path:
        return command
    if not re.fullmatch(r"(~|\.)?/[\w./@+-]+", path, re.ASCII):
        value.refuse(
            f"'venv_path' is retired, and {path[:60]!r} is not /SOMEWHERE/bin/activate",
            "take it out, and begin the command with: source /SOMEWHERE/bin/activate &&",
        )
        return command
    if not path.endswith("/activate"):  # the ISC also accepted the environment's directory
        path = f"{path.rstrip('/')}/bin/activate"
    retired.note(value, f"'venv_path' begins the command with source {path} &&")
    if re.match(r"\s*(-m\s|[\w./~-]+\.py(\s|$))", command, re.ASCII):
        retired.note(value, "torchrun starts the command, which names only a program")
        command = f"{TORCHRUN} {command}"
    return f"source {path} && {command}"


TORCHRUN = (
    "torchrun --nnodes=$NNODES --nproc-per-node=$N_PROC --node_rank=$RANK --master_addr=$MASTER_ADDR "
    "--master_port=$MASTER_PORT"
)
"""As in the ISC's documentation."""


def _note_output(retired: Retired) -> None:
    value = retired.get("output_path")
    if value is not None:
        retired.note(
            value,
            "'output_path' is ignored (the run saves to $OUTPUT_PATH)",
        )


def _datasets(run: Section, retired: Retired, facts: dict[str, Any]) -> tuple[str, ...]:
    """The dataset ids; the content of the one named by the retired key is also mounted at /data."""
    value, old = run.get("dataset_id_list"), retired.get("dataset_id")
    found = _ids(value)
    if old is None:
        return found
    if value is not None:
        retired.note(old, "'dataset_id' is ignored beside 'dataset_id_list'")
        return found
    if isinstance(old.node, Scalar) and not old.node.text.strip():
        retired.note(old, "'dataset_id' is ignored (it is empty)")
        return found
    written = _stripped(old, old.read(text("an id in quotes"), ""))
    advice = f"'dataset_id' is read as dataset_id_list = [{written[:60]!r}]"
    retired.note(old, f"{advice}, at /data/ID and at /data")
    identifier = _read_id(old, written)
    if identifier:
        facts[DATASET_AT_DATA] = identifier
    return (identifier,) if identifier else ()


def _inputs(run: Section) -> tuple[str, ...]:
    value = run.get("input_artifact_id_list")
    found = _ids(value)
    if value is not None and isinstance(value.node, Items) and len(value.node.items) > MOST_INPUTS:
        value.refuse(f"it has {len(value.node.items)} artifacts, and at most {MOST_INPUTS} are allowed")
    return found


_LIST_OF_IDS = 'a list of ids in quotes, as in ["id"],'


def _ids(value: Value | None) -> tuple[str, ...]:
    if value is None:
        return ()
    found: list[str] = []
    for item in value.items(_LIST_OF_IDS):
        written = _stripped(item, _words(item))
        identifier = _read_id(item, written) if written else None
        if identifier in found:
            warn(item, f"{item.path}: {identifier!r} is listed already")
        elif identifier is not None:
            found.append(identifier)
    return tuple(found)


def _read_id(value: Value, written: str) -> str | None:
    if re.fullmatch(r"<.*>", written):
        value.refuse(f"{written[:60]!r} is a placeholder", "put the id in its place, or take it out")
        return None
    kind: Kind[str] = IDENTIFIER
    at = value.node
    return Value(
        Scalar(text=written, quoted=True, line=at.line, column=at.column), value.path, value.problems
    ).read(kind, None)
