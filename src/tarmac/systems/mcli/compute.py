"""The resources of an MCLI file: `compute`, and the older top-level fields with the same meaning.

A value with one sensible choice may be omitted (M2): a file without accelerators, nodes or an instance needs
none. An incomplete request (a key without a value, a type without a number) is refused, unless the number
comes from elsewhere: tarmac never assumes that a training runs on processors.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tarmac.dialects import names, quantities
from tarmac.dialects.kinds import integer, lenient
from tarmac.dialects.located import Table
from tarmac.dialects.native.roles import MOST_NODES
from tarmac.dialects.schema import MISSING, Custom, Field, read_fields, record, tuple_of
from tarmac.dialects.section import Value
from tarmac.model.resources import ACCELERATOR, CPU_ONLY, Resources
from tarmac.model.spec import Command, Process, Role, Target
from tarmac.systems.mcli.fields import WORD, KnownSection, Vocabulary

USUAL_SLOTS_PER_NODE = 8
"""Slots per node of that platform, for an instance that does not specify them."""

_NO_SLOTS = frozenset({"none", "cpu", "cpus", "cpu_only", "null"})
_OLDER = {"cluster": "cluster", "gpu_type": "gpu_type", "gpu_num": "gpus", "cpus": "cpus"}
_COUNTS = ("gpus", "instance", "nodes")
_HOW_MANY = "write the number, such as gpus: 8, or 0 for a run on processors alone; --gpus gives it too"
_INSTANCE = re.compile(r"[._x-]([1-9][0-9]?)$", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """With `slots` 0 the run uses processors alone; a slot that is no GPU never counts as one.

    `nodes` None: as few as possible.
    """

    slots: int = 0
    slot_type: str | None = None
    cpus: int = 0
    nodes: int | None = None
    target: Target = field(default_factory=Target)

    def role(self, command: Command) -> Role:
        """The one role of the run: its command once on each node."""
        if self.slots:
            return Role(
                processes=(Process(command=command),),
                replicas=None,
                slots=self.slots,
                slot_type=self.slot_type,
                nodes=self.nodes,
            )
        resources = Resources(cpus=float(self.cpus))
        return Role(processes=(Process(command=command, resources=resources),), replicas=self.nodes or 1)


def read_compute(run: KnownSection, *, counted: bool = False) -> Compute:
    """The compute of a run, from `compute` or the top level; `counted`: the slots are given elsewhere."""
    section = _gathered(run)
    found = read_fields(section, COMPUTE.shape)
    slot_type, nodes, cpus = found.get("gpu_type"), found.get("nodes"), found.get("cpus", 0)
    if nodes is None and "nodes" in section:
        nodes = 1
    without = slot_type == CPU_ONLY or found.get("instance", "").lower().startswith("cpu")
    slots = _slots(section, found, nodes, without=without)
    if counted:
        slots = slots or 1
    elif not slots and not without and "gpus" not in section:
        _refuse_without_number(section)
    if slots and cpus:
        section["cpus"].warn("processors come with the slots of a node here; it has no effect")
    return Compute(
        slots=slots,
        slot_type=ACCELERATOR if slot_type in (None, CPU_ONLY) else slot_type,
        cpus=cpus,
        nodes=nodes,
        target=Target(cluster=found.get("cluster"), hostnames=found.get("node_names", ())),
    )


def _refuse_without_number(section: KnownSection) -> None:
    """Report a request for GPUs that lacks their number."""
    left = next((section.left_out[name] for name in _COUNTS if name in section.left_out), None)
    if left is not None:
        section.problems.add(left[0], f"how many GPUs? ({left[1]})", _HOW_MANY)
    elif "gpu_type" in section:
        section["gpu_type"].refuse("a GPU type without a number of GPUs", _HOW_MANY)


def _gathered(run: KnownSection) -> KnownSection:
    """The fields of compute by their current names; `compute` takes precedence."""
    given = COMPUTE.section(run["compute"]) if "compute" in run else None
    section = given or KnownSection(Table(entries=()), COMPUTE.shape, Value(run.node, "", run.problems))
    current = dict(run.old)
    for older, name in _OLDER.items():
        if older in run.left_out:
            section.left_out.setdefault(name, run.left_out[older])
        if older not in run:
            continue
        if given is not None and name in given:
            run[older].warn(f"it is passed over: compute.{name} says it as well")
            continue
        current[next((word for word, name in run.old.items() if name == older), older)] = f"compute.{name}"
        section[name] = run[older]
    if current:
        several = len(current) > 1
        what, hold, now = ("words", "hold", "they are") if several else ("a word", "holds", "it is")
        run.problems.warn(
            None,
            f"{', '.join(current)}: {what} of older versions of MCLI, "
            f"which {hold}; today {now} {', '.join(current.values())}",
        )
    return section


def _slots(section: KnownSection, found: Mapping[str, Any], nodes: int | None, *, without: bool) -> int:
    if "gpus" in section:
        count: int = found.get("gpus", 0)
        if count and without:
            section["gpus"].refuse(
                f"{count} GPUs are asked for, and an instance or type without any",
                "take out gpu_type or instance, or say 0",
            )
        elif nodes is not None and count % nodes:
            section["nodes"].refuse(
                f"{count} GPUs cannot be split equally over {nodes} nodes",
                f"write {nodes * (count // nodes + 1)} GPUs",
            )
        return count
    instance = found.get("instance")
    if without or (nodes is None and instance is None):
        return 0
    named = _INSTANCE.search(instance or "")
    each = int(named[1]) if named else USUAL_SLOTS_PER_NODE
    why = "as its name ends" if named else "as was usual there"
    source = section["instance" if instance is not None else "nodes"]
    source.warn(f"taken for {each} GPUs on each node, {why}; compute.gpus says it exactly")
    return min(each * (nodes or 1), quantities.MOST_SLOTS)


def _slot_type(value: Value) -> Any:
    """The slot type; `CPU_ONLY` for a word that asks for a run without accelerators."""
    written = value.read(WORD, None)
    if written is None:
        return MISSING
    return CPU_ONLY if written.lower() in _NO_SLOTS else value.read(quantities.TYPE_NAME, MISSING)


COMPUTE = Vocabulary(
    shape=record(
        {
            "cluster": names.NAME,
            "gpu_type": Custom(_slot_type),
            "instance": WORD,
            "nodes": Field(integer(1, MOST_NODES, of=lenient), words="num_nodes"),
            "gpus": Field(
                integer(0, quantities.MOST_SLOTS, of=lenient), words="gpu gpu_num num_gpus gpu_count"
            ),
            "cpus": integer(0, 100_000, of=lenient),
            "node_names": tuple_of(names.HOSTNAME, "a list of names of nodes", or_one=True),
        }
    )
)
