"""Changes to a spec from flags and API calls: `--slots 8`, `--env K=V`, `--clone RUN --cluster X`.

Called by the server for every submission with overrides, for specs of any dialect. Values are checked by the
same kinds as in a run file.
"""

import dataclasses
import posixpath
from collections.abc import Mapping
from typing import Any

from tarmac.dialects import quantities
from tarmac.dialects.kinds import Kind, flag
from tarmac.dialects.located import Problems, Table, from_plain
from tarmac.dialects.native.commands import COMMAND
from tarmac.dialects.native.environment import IMAGE, LABELS, PATH, VARIABLES
from tarmac.dialects.native.fields import RUN, SLURM, TARGET, check_cycles, check_target, with_rehearsal
from tarmac.dialects.native.secrets import SECRETS
from tarmac.dialects.priorities import Scale, priority
from tarmac.dialects.schema import FREE, Field, attributes, fields_of, read_fields, record, with_values
from tarmac.dialects.secrets import with_references, without_variables
from tarmac.dialects.section import Section, Value
from tarmac.model.codec import replace
from tarmac.model.resources import Resources
from tarmac.model.secret import SecretUse, variables_of
from tarmac.model.spec import LocalDirectory, Process, Repository, Role, RunSpec

OVERRIDES = record(
    {
        **{
            name: row
            for name, row in RUN.fields.items()
            if row.sets is not None and isinstance(row.shape, Kind)
        },
        **TARGET,
        "after": RUN.fields["after"],
        "notify": RUN.fields["notify"],
        "paused": Field(flag(), sets="start_paused"),
        "image": Field(IMAGE, sets="environment.image"),
        "no_container": Field(flag(), sets="environment.without_container"),
        "labels": Field(LABELS, sets=None),
        "env": Field(VARIABLES, sets=None, words="environment"),
        "secrets": Field(SECRETS, sets=None),
        "slurm": Field(SLURM, sets=None),
        "rehearse": Field(RUN.fields["rehearse"].shape, sets=None),
        "code": Field(PATH, sets=None),
        "no_code": Field(flag(), sets=None),
        "slots": Field(quantities.slots(0), sets=None, words="gpus"),
        "slot_type": Field(quantities.TYPE_NAME, sets=None, words="gpu_type"),
        "nodes": Field(RUN.fields["nodes"].shape, sets=None),
        "uneven": Field(flag(), sets=None),
        "command": Field(COMMAND, sets=None),
        "priority": Field(FREE, sets=None),
    },
    check_target,
)


def override(spec: RunSpec, overrides: Mapping[str, Any], *, scale: Scale | None = None) -> RunSpec:
    """The spec with these values in place of its own; None means not given. Raises InvalidInput.

    A priority is on `scale`, by default tarmac's.
    """
    problems = Problems(None)
    tree = from_plain({key: value for key, value in overrides.items() if value is not None})
    assert isinstance(tree, Table)
    flags = Section(tree, fields_of(OVERRIDES), problems=problems)
    found = read_fields(flags, OVERRIDES)
    check_cycles(flags, found.get("mode", spec.mode))
    values = attributes(found, OVERRIDES)
    target = {path: values.pop(path) for path in list(values) if path.startswith("target.")}
    changed = with_values(spec, values)
    changed = replace(
        changed,
        roles=_roles(spec, flags, found),
        priority=(
            flags["priority"].read(_unquoted(priority(scale)), 0) if "priority" in flags else spec.priority
        ),
        code=_code(spec, flags, found),
        labels={**spec.labels, **found.get("labels", {})},
        slurm={**spec.slurm, **found.get("slurm", {})},
    )
    changed = with_rehearsal(_with_site_request(spec, changed, flags), found.get("rehearse"))
    changed = _placed(_with_secrets(changed, found.get("env", {}), found.get("secrets", ())), target)
    problems.raise_any()
    return with_references(changed)


def _with_secrets(spec: RunSpec, env: Mapping[str, str], uses: tuple[SecretUse, ...]) -> RunSpec:
    """The spec where these variables and secrets replace earlier ones of the same variable."""
    in_secrets = {variable for use in uses for variable in variables_of(use)}
    variables = {**spec.environment.variables, **env}
    variables = {name: text for name, text in variables.items() if name not in in_secrets}
    named = {use.name for use in uses if not variables_of(use)}
    kept = without_variables(spec, in_secrets | set(env)).secrets
    rest = [use for use in kept if use.name not in named]
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


def _placed(spec: RunSpec, target: Mapping[str, Any]) -> RunSpec:
    """The spec with another target, which replaces a rehearsal, or names parts of a described one."""
    if not target:
        return spec
    stays = spec.rehearsal is not None and spec.rehearsal.described is not None
    spec = replace(spec, rehearsal=spec.rehearsal if stays and "target.cluster" not in target else None)
    return with_values(spec, target)


def _roles(spec: RunSpec, flags: Section, found: Mapping[str, Any]) -> tuple[Role, ...]:
    role = spec.roles[0]
    if (slots := flags.get("slots")) is not None:
        role = _with_slots(spec, role, slots, found.get("slots", Resources(slots=1)))
    if (kind := flags.get("slot_type")) is not None:
        role = _of_type(spec, role, kind, found.get("slot_type"))
    if (nodes := flags.get("nodes")) is not None:
        role = _on_nodes(spec, role, nodes, found.get("nodes"))
    if (uneven := flags.get("uneven")) is not None:
        if role.slots is None or len(spec.roles) > 1:
            uneven.refuse("only a run with one role that asks for slots can be split unequally")
        role = replace(role, uneven=found.get("uneven", role.uneven))
    if (command := flags.get("command")) is not None:
        if len(spec.roles) > 1 or len(role.processes) > 1:
            command.refuse("the run has several commands", "change the run file instead")
        elif "command" in found:
            process = Process(command=found["command"], resources=role.processes[0].resources)
            role = replace(role, processes=(process,))
    return (role, *spec.roles[1:])


def _with_slots(spec: RunSpec, role: Role, value: Value, amount: Resources) -> Role:
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


def _on_nodes(spec: RunSpec, role: Role, value: Value, count: int | None) -> Role:
    if role.slots is None or len(spec.roles) > 1:
        value.refuse("only a run with one role that asks for slots is split over nodes")
    elif count is not None and role.slots % count:
        value.refuse(f"{role.slots} slots cannot be split equally over {count} nodes")
    return replace(role, nodes=count, uneven=False)


def _of_type(spec: RunSpec, role: Role, value: Value, kind: str | None) -> Role:
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


def _code(spec: RunSpec, flags: Section, found: Mapping[str, Any]) -> LocalDirectory | Repository | None:
    """The code: none, or another directory with the exclusion rules of the run."""
    value, without = flags.get("code"), found.get("no_code", False)
    if without and value is not None:
        value.refuse("code and no_code exclude each other")
    if without:
        return None
    if value is None:
        return spec.code
    path = posixpath.join("/", found.get("code", ""))
    rules = spec.code if isinstance(spec.code, LocalDirectory) else LocalDirectory(path=path)
    return replace(rules, path=path, digest=None)
