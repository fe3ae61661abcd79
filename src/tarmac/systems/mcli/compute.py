"""The resources of an MCLI file: `compute`, and the older top-level fields with the same meaning.

A value with one sensible choice may be omitted (M2): a file without accelerators, nodes or an instance needs
none. An incomplete request (a key without a value, a type without a number) is refused, unless the number
comes from elsewhere: tarmac never assumes that a training runs on processors.
"""

import re
from dataclasses import dataclass, field

from tarmac.dialects import names, quantities
from tarmac.dialects.kinds import integer, lenient
from tarmac.dialects.section import Value
from tarmac.model.resources import ACCELERATOR, Resources
from tarmac.model.spec import Command, Process, Role, Target
from tarmac.systems.mcli.fields import COMPUTE, KnownSection, LeftOut, read_known, read_word, read_words

USUAL_SLOTS_PER_NODE = 8
"""Slots per node of that platform, for an instance that does not specify them."""

MOST_NODES = 10_000
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _ComputeFields:
    """The fields of compute by their current names, and the keys without a value."""

    values: dict[str, Value]
    left_out: dict[str, LeftOut]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def get(self, name: str) -> Value | None:
        return self.values.get(name)


def read_compute(run: KnownSection, *, counted: bool = False) -> Compute:
    """The compute of a run, from `compute` or the top level; `counted`: the slots are given elsewhere."""
    fields = _gathered(run)
    slot_type, without = _slot_type(fields)
    instance = _text(fields, "instance")
    without = without or (instance or "").lower().startswith("cpu")
    nodes = fields["nodes"].read(integer(1, MOST_NODES, of=lenient), 1) if "nodes" in fields else None
    slots = _slots(fields, nodes, instance=instance, without=without)
    if counted:
        slots = slots or 1
    elif not slots and not without and "gpus" not in fields:
        _refuse_without_number(run, fields)
    cpus = fields["cpus"].read(integer(0, 100_000, of=lenient), 0) if "cpus" in fields else 0
    if slots and cpus:
        fields["cpus"].warn("processors come with the slots of a node here; it has no effect")
    return Compute(
        slots=slots, slot_type=slot_type or ACCELERATOR, cpus=cpus, nodes=nodes, target=_target(fields)
    )


def _refuse_without_number(run: KnownSection, fields: _ComputeFields) -> None:
    """Report a request for GPUs that lacks their number."""
    left = next((fields.left_out[name] for name in _COUNTS if name in fields.left_out), None)
    if left is not None:
        Value(left.key, "", run.problems).refuse(f"how many GPUs? ({left.reason})", _HOW_MANY)
    elif (typed := fields.get("gpu_type")) is not None:
        typed.refuse("a GPU type without a number of GPUs", _HOW_MANY)


def _gathered(run: KnownSection) -> _ComputeFields:
    """The fields of compute by their current names; `compute` takes precedence."""
    values: dict[str, Value] = {}
    left_out = {name: run.left_out[old] for old, name in _OLDER.items() if old in run.left_out}
    value = run.get("compute")
    section = None
    if value is not None:
        description = f"a mapping with the fields {', '.join(sorted(COMPUTE.known))}"
        section = read_known(value, COMPUTE, description=description)
    today = dict(run.old)
    for older, name in _OLDER.items():
        if (found := run.get(older)) is None:
            continue
        if section is not None and name in section:
            found.warn(f"it is passed over: compute.{name} says it as well")
            continue
        today[next((word for word, name in run.old.items() if name == older), older)] = f"compute.{name}"
        values[name] = found
    if today:
        what, hold, now = ("a word", "holds", "it is") if len(today) == 1 else ("words", "hold", "they are")
        run.problems.warn(
            None,
            f"{', '.join(today)}: {what} of older versions of MCLI, "
            f"which {hold}; today {now} {', '.join(today.values())}",
        )
    if section is not None:
        values |= {name: found for name in COMPUTE.known if (found := section.get(name)) is not None}
        left_out |= section.left_out
    return _ComputeFields(values=values, left_out=left_out)


def _slot_type(fields: _ComputeFields) -> tuple[str | None, bool]:
    """The slot type, and whether it asks for a run without accelerators."""
    value = fields.get("gpu_type")
    written = _text(fields, "gpu_type")
    if value is None or written is None:
        return None, False
    if written.lower() in _NO_SLOTS:
        return None, True
    return value.read(quantities.type_name(), None), False


def _slots(fields: _ComputeFields, nodes: int | None, *, instance: str | None, without: bool) -> int:
    value = fields.get("gpus")
    if value is not None:
        count = value.read(integer(0, quantities.MOST_SLOTS, of=lenient), 0)
        if count and without:
            value.refuse(
                f"{count} GPUs are asked for, and an instance or type without any",
                "take out gpu_type or instance, or say 0",
            )
        elif nodes is not None and count % nodes:
            fields["nodes"].refuse(
                f"{count} GPUs cannot be split equally over {nodes} nodes",
                f"write {nodes * (count // nodes + 1)} GPUs",
            )
        return count
    if without or (nodes is None and instance is None):
        return 0
    named = _INSTANCE.search(instance or "")
    each = int(named[1]) if named else USUAL_SLOTS_PER_NODE
    source = fields["instance"] if instance is not None else fields["nodes"]
    why = "as its name ends" if named else "as was usual there"
    source.warn(f"taken for {each} GPUs on each node, {why}; compute.gpus says it exactly")
    return min(each * (nodes or 1), quantities.MOST_SLOTS)


def _target(fields: _ComputeFields) -> Target:
    cluster = None
    if _text(fields, "cluster") is not None:
        cluster = fields["cluster"].read(names.NAME, None)
    listed = fields.get("node_names")
    if listed is None:
        return Target(cluster=cluster)
    nodes = read_words(listed, "a list of names of nodes")
    fit = [names.HOSTNAME.description for name in nodes if not _is_hostname(name)]
    if fit:
        listed.refuse(f"each is {fit[0]}")
        return Target(cluster=cluster)
    return Target(cluster=cluster, hostnames=nodes)


def _is_hostname(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", name, re.ASCII) is not None


def _text(fields: _ComputeFields, name: str) -> str | None:
    return read_word(fields.get(name))
