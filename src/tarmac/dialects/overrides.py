"""Changes to a spec from flags and API calls: `--slots 8`, `--env K=V`, `--clone RUN --cluster X`.

Called by the server for every submission with overrides, for specs of any dialect. Values are checked by the
same kinds as in a run file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tarmac.dialects import names, quantities
from tarmac.dialects.kinds import Kind, choice, flag, integer
from tarmac.dialects.located import Table, from_plain
from tarmac.dialects.native.after import ARRAY, read_after
from tarmac.dialects.native.commands import read_command
from tarmac.dialects.native.environment import IMAGE, path_from, read_labels, read_variables
from tarmac.dialects.native.fields import read_mode, read_rapid_cycles
from tarmac.dialects.native.notify import read_notify
from tarmac.dialects.native.reader import RETRIES, WEIGHT, read_target
from tarmac.dialects.native.roles import MOST_NODES
from tarmac.dialects.native.secrets import read_secrets
from tarmac.dialects.native.slurm import read_slurm
from tarmac.dialects.priorities import Scale, priority
from tarmac.dialects.problems import Problems
from tarmac.dialects.rehearsals import TARGET_FIELDS, read_rehearsal, with_rehearsal
from tarmac.dialects.secrets import with_references, without_variables
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.model.record import replace
from tarmac.model.resources import Resources
from tarmac.model.secret import variables_of
from tarmac.model.spec import Environment, LocalDirectory, Process, Queueing, Repository, Role, RunSpec

OVERRIDES = Fields(
    known=frozenset(
        {"name", "slots", "nodes", "uneven", "cluster", "pool", "shard", "hostnames", "exclude_hostnames"}
        | {"mode", "max_rapid_cycles", "priority", "weight", "env", "secrets", "labels"}
        | {"rehearse", "time_limit", "retries", "queueing", "command", "slot_type", "image", "code", "paused"}
        | {"stop_on_nan", "slurm", "no_code", "no_container", "after", "array", "notify"}
    ),
    synonyms=words_for(slots="gpus", slot_type="gpu_type", env="environment", time_limit="timeout"),
)


def override(spec: RunSpec, overrides: Mapping[str, Any], *, scale: Scale | None = None) -> RunSpec:
    """The spec with these values in place of its own; None means not given. Raises InvalidInput.

    A priority is on `scale`, by default tarmac's.
    """
    problems = Problems(None)
    tree = from_plain({key: value for key, value in overrides.items() if value is not None})
    assert isinstance(tree, Table)
    flags = Section(tree, OVERRIDES, problems=problems)
    mode = read_mode(flags, spec.mode)
    changed = replace(
        spec,
        name=flags.read("name", names.NAME, spec.name),
        roles=_roles(spec, flags),
        mode=mode,
        max_rapid_cycles=read_rapid_cycles(flags, mode, spec.max_rapid_cycles),
        priority=flags.read("priority", _unquoted(priority(scale)), spec.priority),
        weight=flags.read("weight", WEIGHT, spec.weight),
        queueing=flags.read("queueing", choice(Queueing), spec.queueing),
        after=read_after(flags, spec.after),
        array=flags.read("array", ARRAY, spec.array),
        notify=read_notify(flags, spec.notify),
        start_paused=flags.read("paused", flag(), spec.start_paused),
        retries=flags.read("retries", RETRIES, spec.retries),
        stop_on_nan=flags.read("stop_on_nan", flag(), spec.stop_on_nan),
        time_limit_s=flags.read("time_limit", quantities.duration_s(), spec.time_limit_s),
        code=_code(spec, flags),
        environment=_environment(spec.environment, flags),
        labels=_labels(spec.labels, flags.get("labels")),
        slurm={**spec.slurm, **read_slurm(flags.get("slurm"))},
    )
    changed = _placed(_with_site_request(spec, changed, flags), flags)
    changed = _with_secrets(changed, flags)
    problems.raise_any()
    return with_references(changed)


def _with_secrets(spec: RunSpec, flags: Section) -> RunSpec:
    """The spec where overridden variables and secrets replace earlier ones of the same variable."""
    if (value := flags.get("env")) is not None and isinstance(value.node, Table):
        spec = without_variables(spec, {key.text for key, _ in value.node.entries})
    uses = read_secrets(flags.get("secrets"))
    if not uses:
        return spec
    in_secrets = {variable for use in uses for variable in variables_of(use)}
    variables = {name: text for name, text in spec.environment.variables.items() if name not in in_secrets}
    named = {use.name for use in uses if not variables_of(use)}
    rest = [use for use in without_variables(spec, in_secrets).secrets if use.name not in named]
    environment = replace(spec.environment, variables=variables)
    return replace(spec, environment=environment, secrets=(*rest, *uses))


def _unquoted(kind: Kind[int]) -> Kind[int]:
    """The same kind for a number that comes as a text."""
    return Kind(kind.description, lambda scalar: kind.read(dataclasses.replace(scalar, quoted=False)))


def _with_site_request(before: RunSpec, spec: RunSpec, flags: Section) -> RunSpec:
    """The spec whose site request follows the slots and nodes of its role; its nodes stay unless given."""
    site, role, flag_value = spec.site, spec.roles[0], flags.get("slots") or flags.get("nodes")
    if site is None or flag_value is None or role.slots is None:
        return spec
    nodes = role.nodes or before.roles[0].nodes or 1
    if role.slots % nodes:
        flag_value.refuse(
            f"{role.slots} slots cannot be split equally over {nodes} nodes", "change nodes, too"
        )
        return spec
    each = role.slots // nodes
    request = replace(site, nodes=nodes, slots_per_node=each if each > 1 else site.slots_per_node and 1)
    return replace(spec, roles=(replace(role, nodes=nodes), *spec.roles[1:]), site=request)


def _placed(spec: RunSpec, flags: Section) -> RunSpec:
    """The spec with another target, or as a rehearsal; either replaces the one in the spec.

    The user can also name parts of a described rehearsal.
    """
    rehearsal = read_rehearsal(flags)
    spec = with_rehearsal(spec, rehearsal)
    target = read_target(flags)
    parts = {part: getattr(target, part) for name, part in TARGET_FIELDS.items() if name in flags}
    if not parts:
        return spec
    stays = spec.rehearsal is not None and spec.rehearsal.described is not None and "cluster" not in parts
    return replace(spec, target=replace(spec.target, **parts), rehearsal=spec.rehearsal if stays else None)


def _roles(spec: RunSpec, flags: Section) -> tuple[Role, ...]:
    role = spec.roles[0]
    if (slots := flags.get("slots")) is not None:
        role = _with_slots(spec, role, slots)
    if (kind := flags.get("slot_type")) is not None:
        role = _of_type(spec, role, kind)
    if (nodes := flags.get("nodes")) is not None:
        role = _on_nodes(spec, role, nodes)
    if (uneven := flags.get("uneven")) is not None:
        if role.slots is None or len(spec.roles) > 1:
            uneven.refuse("only a run with one role that asks for slots can be split unequally")
        role = replace(role, uneven=uneven.read(flag(), role.uneven))
    if (command := flags.get("command")) is not None:
        role = _with_command(spec, role, command)
    return (role, *spec.roles[1:])


def _with_slots(spec: RunSpec, role: Role, value: Value) -> Role:
    amount = value.read(quantities.slots(0), Resources(slots=1))
    if len(spec.roles) > 1:
        value.refuse(f"the run has {len(spec.roles)} roles", "change their slots in the run file")
    elif role.slots is None and not _bare(role):
        value.refuse(
            f"the run asks for {role.replicas} fixed replicas, not for slots", "change the run file instead"
        )
    if amount.slots == 0:  # no slots requested: one copy, on any node
        return replace(role, replicas=1, slots=None, slot_type=None, nodes=None, uneven=False)
    return replace(
        role, replicas=None, nodes=None, slots=amount.slots, slot_type=amount.slot_type or role.slot_type
    )


def _bare(role: Role) -> bool:
    """Whether a role has no resource request, so that a request for slots contradicts nothing."""
    return role.replicas == 1 and len(role.processes) == 1 and role.replica_resources.empty


def _with_command(spec: RunSpec, role: Role, value: Value) -> Role:
    command = read_command(value)
    if len(spec.roles) > 1 or len(role.processes) > 1:
        value.refuse("the run has several commands", "change the run file instead")
    if command is None:
        return role
    return replace(role, processes=(Process(command=command, resources=role.processes[0].resources),))


def _on_nodes(spec: RunSpec, role: Role, value: Value) -> Role:
    count = value.read(integer(1, MOST_NODES), None)
    if role.slots is None or len(spec.roles) > 1:
        value.refuse("only a run with one role that asks for slots is split over nodes")
    elif count is not None and role.slots % count:
        value.refuse(f"{role.slots} slots cannot be split equally over {count} nodes")
    return replace(role, nodes=count, uneven=False)


def _of_type(spec: RunSpec, role: Role, value: Value) -> Role:
    kind = value.read(quantities.type_name(), None)
    if len(spec.roles) > 1:
        value.refuse(
            f"the run has {len(spec.roles)} roles", "change the types of their slots in the run file"
        )
    if role.slots is not None:
        return replace(role, slot_type=kind)
    if not any(process.resources.slots for process in role.processes):
        value.refuse("the run asks for no slots whose type could be another", "give --slots as well")
    processes = tuple(
        replace(process, resources=replace(process.resources, slot_type=kind))
        if process.resources.slots
        else process
        for process in role.processes
    )
    return replace(role, processes=processes)


def _code(spec: RunSpec, flags: Section) -> LocalDirectory | Repository | None:
    """The code: none, or another directory with the exclusion rules of the run."""
    value, without = flags.get("code"), flags.read("no_code", flag(), False)
    if without and value is not None:
        value.refuse("code and no_code exclude each other")
    if without:
        return None
    if value is None:
        return spec.code
    path = value.read(path_from("/"), "/")
    rules = spec.code if isinstance(spec.code, LocalDirectory) else LocalDirectory(path=path)
    return replace(rules, path=path, digest=None)


def _environment(environment: Environment, flags: Section) -> Environment:
    image = flags.read("image", IMAGE, environment.image)
    without = flags.read("no_container", flag(), environment.without_container)
    value = flags.get("env")
    variables = environment.variables
    if value is not None:
        variables = {**variables, **read_variables(value)}
    return replace(environment, image=image, variables=variables, without_container=without)


def _labels(labels: Mapping[str, str], value: Value | None) -> Mapping[str, str]:
    return {**labels, **read_labels(value)}
