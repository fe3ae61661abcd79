"""Writes a spec as a native run file, for `tarmac convert`. The inverse of `reader`.

Only differences from the defaults are written, so that a short file stays short. Reading the text returns the
same spec, without the text itself and its original dialect.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from tarmac.dialects.names import reserved
from tarmac.dialects.native.search import written_parameters, written_search
from tarmac.dialects.plain import to_yaml
from tarmac.model.cluster import Cluster, NodeGroup, Pool
from tarmac.model.codec import encode
from tarmac.model.mode import Mode
from tarmac.model.notification import DEFAULT_WAIT_S, ENDED, Channel, Subscription
from tarmac.model.resources import DEFAULT_ROLE, Resources
from tarmac.model.secret import SecretForm, SecretUse
from tarmac.model.spec import (
    DEFAULT_RAPID_CYCLES,
    ArtifactRules,
    Bind,
    Checkout,
    Command,
    Conventions,
    Environment,
    FailureBehaviour,
    Hooks,
    LocalDirectory,
    PausePolicy,
    Process,
    PythonPackages,
    Queueing,
    Rehearsal,
    Repository,
    Role,
    RunSpec,
    SetupStep,
    SystemPackages,
)


def write(spec: RunSpec, *, directory: str | None = None) -> str:
    """The native run file for a spec; paths below `directory` are written relative to it."""
    fields = without_empty(_fields(spec, directory))
    if spec.search is not None:
        fields["parameters"] = _plain(written_parameters(spec.search))
        fields["search"] = _plain(written_search(spec.search))
    elif spec.parameters is not None:  # without entries, the run still gets a file of them
        fields["parameters"] = _plain(spec.parameters)
    return to_yaml(fields)


def _fields(spec: RunSpec, directory: str | None) -> Fields:
    target, environment = spec.target, spec.environment
    return {
        "name": spec.name,
        "unique_name": spec.unique_name or None,
        "project": spec.project if spec.project != "default" else None,
        "labels": dict(spec.labels),
        "code": _code(spec.code, directory),
        "setup": [_step(step) for step in spec.setup],
        "hooks": _hooks(spec.hooks),
        **_roles(spec.roles),
        "rehearse": _rehearsal(spec.rehearsal),
        "cluster": target.cluster,
        "pool": target.pool,
        "shard": target.shard,
        "hostnames": list(target.hostnames),
        "exclude_hostnames": list(target.excluded),
        "mode": spec.mode.value if spec.mode is not Mode.BATCH else None,
        "max_rapid_cycles": spec.max_rapid_cycles if spec.max_rapid_cycles != DEFAULT_RAPID_CYCLES else None,
        "priority": spec.priority or None,
        "weight": spec.weight if spec.weight != 1.0 else None,
        "queueing": spec.queueing.value if spec.queueing is not Queueing.WAIT else None,
        "array": str(spec.array) if spec.array is not None else None,
        "after": [str(dependency) for dependency in spec.after],
        "retries": spec.retries or None,
        "stop_on_nan": spec.stop_on_nan or None,
        "time_limit": written_duration(spec.time_limit_s),
        "pause": _pause(spec.pause),
        "environment": _environment(environment, directory),
        "binds": [_bind(bind) for bind in spec.binds],
        "datasets": list(spec.datasets),
        "input_artifacts": list(spec.input_artifacts),
        "artifacts": _artifacts(spec.artifacts),
        "parameters": _plain(spec.parameters) if spec.parameters else None,
        "secrets": _secrets(spec.secrets),
        "site": encode(spec.site) if spec.site is not None else None,
        "log_policies": [without_empty(encode(policy)) for policy in spec.log_policies],
        "notify": [_subscription(each) for each in spec.notify],
        "slurm": {name: True if value == "" else value for name, value in spec.slurm.items()},
        "conventions": _conventions(spec.conventions),
    }


def _code(code: LocalDirectory | Repository | None, directory: str | None) -> str | Fields | None:
    if isinstance(code, Repository):
        return without_empty(
            {"git": code.url, "branch": code.branch, "commit": code.commit} | _submodules(code)
        )
    if code is None:
        return None
    path = _relative(code.path, directory)
    more = without_empty(
        {
            "ignore_file": code.ignore_file,
            "exclude": list(code.exclude),
            "whole": code.whole or None,
            "limit": written_size(code.limit_bytes) if code.limit_bytes is not None else None,
        }
    )
    return {"path": path, **more} if more else path


def _subscription(each: Subscription) -> Fields:
    receiver = each.receiver
    url = receiver.channel is not Channel.EMAIL
    return without_empty(
        {
            "to": f"${{{{ secrets.{receiver.address} }}}}" if receiver.secret else receiver.address,
            "as": receiver.channel.value if url else None,
            "on": [occasion.value for occasion in each.on] if each.on != ENDED else None,
            "after": written_duration(each.waiting_s) if each.waiting_s != DEFAULT_WAIT_S else None,
        }
    )


def _submodules(repository: Repository) -> Fields:
    return {"submodules": True} if repository.submodules else {}


def _step(step: SetupStep) -> Any:
    match step:
        case Command():
            return _command(step)
        case Checkout():
            repository = step.repository
            return {
                "git": without_empty(
                    {
                        "url": repository.url,
                        "branch": repository.branch,
                        "commit": repository.commit,
                        **_submodules(repository),
                        "path": step.path,
                        "install": step.install,
                    }
                )
            }
        case PythonPackages():
            return without_empty({"pip": list(step.requirements), "upgrade": step.upgrade or None})
        case SystemPackages():
            return {"apt": list(step.packages)}


def _hooks(hooks: Hooks) -> Fields:
    return without_empty(
        {
            name: [_command(command) for command in getattr(hooks, name)]
            for name in ("before_login", "before", "after", "after_login")
        }
    )


def _roles(roles: tuple[Role, ...]) -> Fields:
    if len(roles) == 1 and roles[0].name == DEFAULT_ROLE:
        return _role(roles[0])
    return {"roles": {role.name: without_empty(_role(role)) for role in roles}}


def _role(role: Role) -> Fields:
    fields: Fields = {
        "slots": _slots(role.slots, role.slot_type) if role.slots is not None else None,
        "nodes": role.nodes,
        "uneven": role.uneven or None,
        "replicas": role.replicas if role.replicas not in (None, 1) else None,
        "launcher": role.launcher.value if role.launcher is not None else None,
        "on_failure": role.on_failure.value if role.on_failure is not FailureBehaviour.STOP else None,
    }
    if len(role.processes) == 1:
        return fields | _process(role.processes[0])
    return fields | {"processes": [without_empty(_process(process)) for process in role.processes]}


def _process(process: Process) -> Fields:
    return {"resources": _resources(process.resources), "command": _command(process.command)}


def _resources(resources: Resources) -> Any:
    if resources == Resources():
        return None
    if resources == Resources(slots=resources.slots, slot_type=resources.slot_type) and resources.slots:
        return _slots(resources.slots, resources.slot_type)
    return without_empty(
        {
            "slots": resources.slots or None,
            "type": resources.slot_type,
            "cpus": written_number(resources.cpus) if resources.cpus else None,
            "memory": written_size(resources.memory_bytes) if resources.memory_bytes else None,
        }
    )


def _slots(count: int, slot_type: str | None) -> int | str:
    return count if slot_type is None else f"{slot_type}:{count}"


def _command(command: Command) -> str | list[str]:
    return command.script if command.script is not None else list(command.argv or ())


def _rehearsal(rehearsal: Rehearsal | None) -> Any:
    if rehearsal is None:
        return None
    if rehearsal.described is None:
        return f"{rehearsal.nodes}x{rehearsal.slots_per_node}"
    return cluster_fields(rehearsal.described)


def _pause(pause: PausePolicy) -> Fields:
    usual = PausePolicy()
    return without_empty(
        {
            "signal": (pause.signal or "none") if pause.signal != usual.signal else None,
            "grace": written_duration(pause.grace_s) if pause.grace_s != usual.grace_s else None,
        }
    )


def _environment(environment: Environment, directory: str | None) -> Fields:
    return without_empty(
        {
            "image": environment.image,
            "pull": "always" if environment.pull_always else None,
            "shared_memory": written_size(environment.shared_memory_bytes)
            if environment.shared_memory_bytes
            else None,
            "modules": list(environment.modules),
            "venv": _relative(environment.venv, directory) if environment.venv is not None else None,
            # Variables that tarmac sets would override these, and a run file that sets them is refused.
            "variables": {name: value for name, value in environment.variables.items() if not reserved(name)},
        }
    )


def _bind(bind: Bind) -> Fields:
    return {"source": bind.source, "target": bind.target} | ({"read_only": True} if bind.read_only else {})


def _secrets(uses: Sequence[SecretUse]) -> dict[str, Any] | list[Any]:
    """A mapping from variables if every secret has one, else a list."""
    if all(use.variable is not None and use.form in (SecretForm.VARIABLE, SecretForm.FILE) for use in uses):
        return {str(use.variable): _secret(use) for use in uses}
    return [
        use.name
        if use.form is None
        else without_empty(
            {"name": use.name, "as": use.form.value, "variable": use.variable, "path": use.path}
        )
        for use in uses
    ]


def _secret(use: SecretUse) -> str | Fields:
    if use.form is SecretForm.VARIABLE:
        return use.name
    return without_empty({"name": use.name, "as": "file", "path": use.path})


def _artifacts(rules: ArtifactRules) -> Fields:
    usual = ArtifactRules()
    return without_empty(
        {
            name: written_duration(getattr(rules, f"{name}_s"))
            if getattr(rules, f"{name}_s") != getattr(usual, f"{name}_s")
            else None
            for name in ("checkpoint_every", "crud_every", "lossy_every", "log_every")
        }
    )


def _conventions(conventions: Conventions) -> Fields:
    if conventions == Conventions():
        return {}
    return without_empty({"system": conventions.system, "facts": _plain(conventions.facts)})


def _relative(path: str, directory: str | None) -> str:
    """A path of the submitter's machine, relative to the run file's directory if it is below it."""
    if directory is None:
        return path
    below = posixpath.relpath(path, directory)
    return path if below.startswith("..") else below


def _plain(value: Any) -> Any:
    """JSON values in plain containers, which the YAML library knows."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


_NAMES = {"nodes": "count", "memory_bytes": "memory"}
"""Attributes with another name in a description; durations lose their unit."""


def cluster_fields(cluster: Cluster) -> Fields:
    """The fields `nodes` and `pools` that describe the cluster."""
    usual_group, usual_pool = NodeGroup(nodes=0, slots=0), Pool(cluster="")
    nodes = [_stated(group, usual_group, always=("nodes", "slots")) for group in cluster.groups]
    pools = {pool.name: _stated(pool, usual_pool, leave_out=("name", "cluster")) for pool in cluster.pools}
    return {"nodes": nodes} | ({"pools": pools} if pools else {})


def _stated(
    record: NodeGroup | Pool,
    usual: NodeGroup | Pool,
    *,
    always: tuple[str, ...] = (),
    leave_out: tuple[str, ...] = (),
) -> Fields:
    """The attributes of a record that differ from the usual ones."""
    found: Fields = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if name not in leave_out and (name in always or value != getattr(usual, name)):
            found[_NAMES.get(name, name.removesuffix("_s"))] = _written(name, value)
    return found


def _written(name: str, value: Any) -> Any:
    if name.endswith("_s"):
        return written_duration(value)
    if name.endswith("_bytes"):
        return written_size(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return {key: written_number(item) for key, item in value.items()}
    return written_number(value) if isinstance(value, float) else value


Fields = dict[str, Any]
"""A mapping of a run file, in the order of its lines."""


def without_empty(fields: Fields) -> Fields:
    """The fields without None and empty values."""
    return {name: value for name, value in fields.items() if value is not None and value not in ([], {})}


def written_duration(seconds: float | None) -> str | None:
    """The duration in the largest unit that divides it."""
    if seconds is None:
        return None
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size:.0f}{unit}"
    return f"{written_number(seconds)}s"


def written_size(size_bytes: int) -> str:
    """The size in the largest unit that divides it."""
    for unit, power in (("TiB", 4), ("GiB", 3), ("MiB", 2), ("KiB", 1)):
        if size_bytes and size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power}{unit}"
    return f"{size_bytes}B"


def written_number(value: float) -> int | float:
    """The number without a fraction if it is whole."""
    return int(value) if float(value).is_integer() else value
