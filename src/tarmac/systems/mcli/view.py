"""A run in MCLI's current words: its run_config.yaml, and the submitted form of a changed run.

Used by `apply_conventions`, and by the display of that name.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.dialects.plain import to_yaml
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.resources import ACCELERATOR
from tarmac.model.spec import Command, RunSpec, Target
from tarmac.node.files.secrecy import hidden_tree
from tarmac.systems.mcli.reader import SHELL, read_mcli
from tarmac.systems.mcli.scheduling import PRIORITIES

_OF_A_REHEARSAL = frozenset({"cluster", "gpu_type"})
"""Parts of `compute` that a rehearsal ignores."""


def configuration(spec: RunSpec, *, name: str, slot_types: Sequence[str] = ()) -> dict[str, Any]:
    """The complete configuration; `slot_types` are those that the attempt got."""
    facts, slot_type = spec.conventions.facts, spec.roles[0].slot_type
    slot_type = slot_type if slot_type != ACCELERATOR else (slot_types[0] if len(slot_types) == 1 else None)
    compute = {"cluster": spec.target.cluster, "gpus": spec.slots, "gpu_type": slot_type}
    scheduling = {
        "priority": _priority(spec),
        "preemptible": facts.get("preemptible"),
        "max_retries": spec.retries or None,
        "max_duration": None if spec.time_limit_s is None else spec.time_limit_s / 3600,
    }
    config = {
        "name": name,
        "image": spec.environment.image,
        "command": script(spec),
        "compute": _stated(compute),
        "scheduling": _stated(scheduling),
        "integrations": facts.get("integrations"),
        "env_variables": dict(spec.environment.variables),
        "parameters": dict(spec.parameters or {}),
        "metadata": facts.get("metadata"),
    }
    return {name: value for name, value in config.items() if value not in (None, {}, [])}


def submitted(spec: RunSpec, *, name: str) -> str:
    """The text that the run was submitted with; if it was changed, the configuration that ran instead.

    The latter hides values that may be secrets.
    """
    try:
        plain = read_mcli(spec.source, filename="run.yaml", directory="/").spec
    except InvalidInput:  # the text lacked values that the command line gave
        plain = None
    if plain is not None and _compared(spec, spec) == _compared(plain, spec):
        return spec.source
    ran = replace(spec, target=Target()) if spec.rehearsal is not None else spec
    return to_yaml(hidden_tree(configuration(ran, name=name)))


def script(spec: RunSpec) -> str:
    """The command as the file has it."""
    command: Command = spec.roles[0].processes[0].command
    argv = command.argv or ()
    return argv[-1] if argv[:-1] == SHELL else str(command)


def _compared(spec: RunSpec, ran: RunSpec) -> dict[str, Any]:
    """The configuration to compare: without parts that a rehearsal ignores and the name's suffix."""
    name = spec.name if spec is not ran else spec.name.rpartition("-")[0]
    found = configuration(spec, name=name)
    if ran.rehearsal is not None:
        compute = found.get("compute", {})
        found["compute"] = {key: value for key, value in compute.items() if key not in _OF_A_REHEARSAL}
    return found


def _priority(spec: RunSpec) -> str | None:
    """The word in the file, or the one that the command line set instead."""
    word = spec.conventions.facts.get("priority")
    if PRIORITIES.get(str(word), 0) == spec.priority:
        return word
    return next((other for other, value in PRIORITIES.items() if value == spec.priority), None)


def _stated(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
