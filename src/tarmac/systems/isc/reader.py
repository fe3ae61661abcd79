"""Reads an ISC launch file: a located tree to a `RunSpec`, every problem reported. Called by the dialect."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from tarmac.dialects.dialect import NO_EXTRAS, Extras, Reading, refuse_extras
from tarmac.dialects.kinds import integer, text, words
from tarmac.dialects.located import Items, Node, Problems, Scalar, quote
from tarmac.dialects.names import fit
from tarmac.dialects.native.fields import IDENTIFIER, MOST_RAPID_CYCLES
from tarmac.dialects.schema import FREE, Custom, Field, read_fields, record, section_of
from tarmac.dialects.section import Section, Value
from tarmac.dialects.slot_types import is_known
from tarmac.dialects.toml_tree import compose
from tarmac.dialects.topology import fixed_nodes
from tarmac.model.burst.shapes import ID_PATTERN, BurstRequest
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.resources import ACCELERATOR, CPU_ONLY
from tarmac.model.spec import DEFAULT_RAPID_CYCLES, Conventions, Process, Role, RunSpec
from tarmac.systems.isc.commands import command_of, doubts, joined
from tarmac.systems.isc.conventions import DATASET_AT_DATA
from tarmac.systems.isc.fields import REQUIRED, excuse, only_credentials, warn

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


MODES = (Mode.CYCLE, Mode.INTERRUPTIBLE, Mode.BURST)
"""The modes of the ISC."""


def read_isc(source: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:  # noqa: ARG001 it names no path
    """The spec in a launch file; raises InvalidInput with every problem in it."""
    refuse_extras(extras, filename=filename, dialect=NAME)
    problems = Problems(filename)
    tree = compose(source, problems)
    if tree is None or not tree.entries:
        if not problems:
            problems.add(None, "the file is empty")
        problems.raise_any()
        raise AssertionError("a text without a tree has a problem")
    if only_credentials({key.text for key, _ in tree.entries}):
        problems.add(tree.entries[0][0], *_CREDENTIALS)
        problems.raise_any()
    run = section_of(Value(tree, "", problems), RUN)
    assert run is not None, "the tree is a mapping"
    spec = _LaunchFile(run).spec(source, has_code="code" in extras.override_fields)
    problems.raise_any()
    return Reading(spec=spec, warnings=problems.sorted_warnings)


class _LaunchFile:
    """The keys of a file with their values, the facts about them, and notes on retired keys."""

    def __init__(self, run: Section) -> None:
        self._run = run
        self._found = read_fields(run, RUN)
        self._facts: dict[str, Any] = {}
        self._notes: list[tuple[Value, str]] = []

    def spec(self, source: str, *, has_code: bool) -> RunSpec:
        """The spec; reports contradictions between keys, and warns of retired ones."""
        slots = self._slots()
        self._note("output_path", "is ignored (the run saves to $OUTPUT_PATH)")
        mode = self._mode(slots)
        spec = RunSpec(
            name=self._name(),
            project=self._project(),
            dialect=NAME,
            source=source,
            roles=(self._role(slots, has_code=has_code),),
            mode=mode,
            max_rapid_cycles=self._turns(mode),
            datasets=self._datasets(),
            input_artifacts=self._found.get("input_artifact_id_list", ()),
            burst=self._burst(mode),
        )
        notes = sorted(self._notes, key=lambda note: note[0].node.line or 0)
        if notes:
            warn(notes[0][0], f"retired keys: {'; '.join(text for _, text in notes)}")
        return replace(spec, conventions=Conventions(system=NAME, facts=self._facts))

    def _note(self, name: str, text: str, *, named: bool = True) -> None:
        """Add a sentence about a retired key, if it is given, to the one warning of all."""
        if name in self._run:
            self._notes.append((self._run[name], f"'{name}' {text}" if named else text))

    def _role(self, slots: int | None, *, has_code: bool) -> Role:
        """The command once on each node: on as many nodes as it names, else on as few as possible."""
        written, value = self._found.get("command", ""), self._run.get("command")
        if value is not None:
            if joined(written).startswith("#"):
                message = "a comment begins it, and line breaks act as blanks in an ISC command"
                value.refuse(f"{message}: nothing of it would run", "take the comment out")
            for doubt in doubts(written, slots, has_code=has_code):
                warn(value, f"command: {doubt}")
        command = command_of(self._activated(written))
        nodes = fixed_nodes(str(command), slots)
        if nodes is not None and nodes > 1 and value is not None:
            warn(
                value,
                f"command: it says itself that there are {nodes} nodes: it waits for as many; "
                "with $NNODES and $N_PROC in their place, any that have the GPUs will do",
            )
        return Role(
            processes=(Process(command=command),),
            replicas=None,
            slots=slots or 1,
            slot_type=self._slot_type() or ACCELERATOR,
            nodes=nodes,
            uneven=nodes is None,
        )

    def _name(self) -> str:
        if "experiment_name" not in self._run:
            return NAME
        written = self._facts["experiment_name"] = self._found["experiment_name"]
        name = fit(written) or "experiment"
        if written and name != written:
            text = f"the run is called {name!r} here; STRONG_EXPERIMENT_NAME is as it is written"
            warn(self._run["experiment_name"], text)
        return name

    def _project(self) -> str:
        if "isc_project_id" not in self._run:
            self._note("nnodes", "'isc_project_id' is missing (project 'default')", named=False)
            return "default"
        value = self._run["isc_project_id"]
        written = self._facts["isc_project_id"] = _stripped(value, self._found["isc_project_id"])
        project = fit(written) or "default"
        if _PLACEHOLDER.fullmatch(written):
            warn(value, f"{written[:60]!r} is a placeholder; the run belongs to project {project!r}")
        return project

    def _slots(self) -> int | None:
        if "gpus" in self._run:
            self._note("nnodes", "is ignored ('gpus' says how many)")
            return self._found.get("gpus")
        nodes: int | None = self._found.get("nnodes")
        if nodes is None:
            return None
        slots = nodes * OLD_SLOTS_PER_NODE
        self._note("nnodes", f"is read as gpus = {slots} ({nodes} x {OLD_SLOTS_PER_NODE})")
        return slots

    def _slot_type(self) -> str | None:
        """The slot type, if its name is known; otherwise None, with a note that `gpu_type` is ignored."""
        kind: str = self._found.get("gpu_type", "").strip().lower()
        if is_known(kind) and kind != CPU_ONLY:
            self._note("gpu_type", f"asks for {kind!r}, as --gpu-type does")
            return kind
        self._note("gpu_type", "is ignored (--gpu-type asks for a type)")
        return None

    def _mode(self, slots: int | None) -> Mode:
        mode: Mode = self._found.get("compute_mode", Mode.CYCLE)
        if mode is Mode.BURST and (slots or 0) > MOST_BURST_SLOTS:
            self._run["gpus" if "gpus" in self._run else "compute_mode"].refuse(
                f"a burst experiment has at most {MOST_BURST_SLOTS} GPUs, not {slots}",
                "other compute modes may have as many as the cluster",
            )
        return mode

    def _burst(self, mode: Mode) -> BurstRequest | None:
        """The shapes to be tried first (I9); warns of everything in the list that is no id of a shape."""
        value = self._run.get("burst_shape_priority_list")
        if value is None:
            return None
        if mode is not Mode.BURST:
            text = f"'burst_shape_priority_list' has no effect: it is for burst, this is {mode}"
            warn(value, text)
            return None
        listed = isinstance(value.node, Items)
        items = value.node.items if isinstance(value.node, Items) else (value.node,)
        valid = {item: _shape(item) if listed else "" for item in items}
        shapes = tuple(dict.fromkeys(filter(None, valid.values())))
        if others := ", ".join(quote(item) for item, shape in valid.items() if not shape):
            text = f"'burst_shape_priority_list' is a list of ids in quotes: {others[:200]} is ignored"
            warn(value, text if shapes else f"{text}, and all shapes are tried")
        return BurstRequest(shapes=shapes) if shapes else None

    def _turns(self, mode: Mode) -> int:
        turns: int = self._found.get("max_rapid_cycles", DEFAULT_RAPID_CYCLES)
        if "max_rapid_cycles" in self._run and mode is not Mode.CYCLE:
            text = f"'max_rapid_cycles' has no effect: only cycle experiments cycle, this is {mode}"
            warn(self._run["max_rapid_cycles"], text)
            return DEFAULT_RAPID_CYCLES
        return turns

    def _activated(self, command: str) -> str:
        """The command, preceded by its activation script if the file has the retired `venv_path`.

        In those years the ISC itself called torchrun: the command could be only a program for it.
        """
        path = self._found.get("venv_path", "").strip()
        if not path:
            return command
        if not re.fullmatch(r"(~|\.)?/[\w./@+-]+", path, re.ASCII):
            self._run["venv_path"].refuse(
                f"'venv_path' is retired, and {path[:60]!r} is not /SOMEWHERE/bin/activate",
                "take it out, and begin the command with: source /SOMEWHERE/bin/activate &&",
            )
            return command
        if not path.endswith("/activate"):  # the ISC also accepted the environment's directory
            path = f"{path.rstrip('/')}/bin/activate"
        self._note("venv_path", f"begins the command with source {path} &&")
        if re.match(r"\s*(-m\s|[\w./~-]+\.py(\s|$))", command, re.ASCII):
            text = "torchrun starts the command, which names only a program"
            self._note("venv_path", text, named=False)
            command = f"{TORCHRUN} {command}"
        return f"source {path} && {command}"

    def _datasets(self) -> tuple[str, ...]:
        """The dataset ids; the content of the one named by the retired key is also mounted at /data."""
        listed: tuple[str, ...] = self._found.get("dataset_id_list", ())
        old = self._run.get("dataset_id")
        if old is None:
            return listed
        if "dataset_id_list" in self._run:
            self._note("dataset_id", "is ignored beside 'dataset_id_list'")
            return listed
        if isinstance(old.node, Scalar) and not old.node.text.strip():
            self._note("dataset_id", "is ignored (it is empty)")
            return listed
        written = _stripped(old, old.read(text("an id in quotes"), ""))
        place = f"dataset_id_list = [{written[:60]!r}], at /data/ID and at /data"
        self._note("dataset_id", f"is read as {place}")
        identifier = _read_id(old, written)
        if not identifier:
            return ()
        self._facts[DATASET_AT_DATA] = identifier
        return (identifier,)


TORCHRUN = (
    "torchrun --nnodes=$NNODES --nproc-per-node=$N_PROC --node_rank=$RANK --master_addr=$MASTER_ADDR "
    "--master_port=$MASTER_PORT"
)
"""As in the ISC's documentation."""


def _require(run: Section, _found: Mapping[str, Any]) -> None:
    """Report the required keys that are missing; a file with `nnodes` alone is of the years without two."""
    old = frozenset({"gpus", "isc_project_id"}) if "nnodes" in run and "gpus" not in run else frozenset()
    for name, hint in REQUIRED.items():
        if name not in run and name not in old:
            run.missing(name, hint)


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


def _ids(value: Value) -> tuple[str, ...]:
    found: list[str] = []
    for item in value.items(_LIST_OF_IDS):
        written = _stripped(item, _words(item))
        identifier = _read_id(item, written) if written else None
        if identifier in found:
            warn(item, f"{item.path}: {identifier!r} is listed already")
        elif identifier is not None:
            found.append(identifier)
    return tuple(found)


def _inputs(value: Value) -> tuple[str, ...]:
    if isinstance(value.node, Items) and len(value.node.items) > MOST_INPUTS:
        value.refuse(f"it has {len(value.node.items)} artifacts, and at most {MOST_INPUTS} are allowed")
    return _ids(value)


def _shape(item: Node) -> str:
    """The id of a shape; "" if it is none."""
    written = item.text.strip() if isinstance(item, Scalar) and item.quoted else ""
    return written if re.fullmatch(ID_PATTERN, written) else ""


def _read_id(value: Value, written: str) -> str | None:
    if _PLACEHOLDER.fullmatch(written):
        value.refuse(f"{written[:60]!r} is a placeholder", "put the id in its place, or take it out")
        return None
    assert isinstance(value.node, Scalar), "a text was read"
    stripped: str | None = dataclasses.replace(
        value, node=dataclasses.replace(value.node, text=written, quoted=True)
    ).read(IDENTIFIER, None)
    return stripped


_LIST_OF_IDS = 'a list of ids in quotes, as in ["id"],'
_PLACEHOLDER = re.compile(r"<.*>")
RUN = record(
    {
        "experiment_name": Field(Custom(_words), words="name"),
        "isc_project_id": Field(Custom(_words), words="project_id project"),
        "gpus": Field(integer(1, MOST_SLOTS), words="num_gpus n_gpus ngpus"),
        "command": Field(Custom(_words), words="cmd"),
        "compute_mode": Field(words({str(mode): mode for mode in MODES}), words="mode"),
        "max_rapid_cycles": Field(integer(1, MOST_RAPID_CYCLES), words="cycles"),
        "dataset_id_list": Field(Custom(_ids), words="dataset_ids"),
        "input_artifact_id_list": Custom(_inputs),
        **dict.fromkeys(("burst_shape_priority_list", "output_path", "dataset_id"), FREE),
        "nnodes": integer(1, MOST_NODES),
        "gpu_type": text("a text in quotes"),
        "venv_path": text("a path in quotes"),
    },
    _require,
    excuse=excuse,
)
"""The keys of a launch file, current and retired ones."""
