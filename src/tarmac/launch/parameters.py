"""The parameters of a run in its commands, as `${parameters.lr}`, and as variables of a trial.

Used by `starting` and `environment`; `control` refuses unknown names.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from tarmac.launch import variables
from tarmac.launch.quoting import quote
from tarmac.model.run import Run
from tarmac.model.spec import Command, RunSpec

_NAMED = re.compile(r"\$\{parameters\.([A-Za-z0-9_.-]+)\}")


def filled(spec: RunSpec, command: Command) -> Command:
    """The command with parameter values in place of their names; names without a value stay."""
    if spec.parameters is None:
        return command
    known = _leaves(spec.parameters)
    if command.script is not None:
        return Command(script=_NAMED.sub(lambda found: _quoted(known, found), command.script))
    argv = tuple(_NAMED.sub(lambda found: known.get(found[1], found[0]), word) for word in command.argv or ())
    return Command(argv=argv)


def parameter_names(spec: RunSpec) -> list[str]:
    """The names that commands may use, such as `optimizer.lr`."""
    return list(_leaves(spec.parameters or {}))


def unknown_names(spec: RunSpec) -> list[str]:
    """The unknown parameter names in the commands of a run, its setup and its hooks."""
    known = _leaves(spec.parameters or {})
    commands = [
        *(process.command for role in spec.roles for process in role.processes),
        *(step for step in spec.setup if isinstance(step, Command)),
        *spec.hooks.before,
        *spec.hooks.after,
    ]
    words = [word for each in commands for word in ((each.script,) if each.script else each.argv or ())]
    return [name for word in words for name in _NAMED.findall(word) if name not in known]


def trial_variables(run: Run) -> dict[str, str]:
    """The variables of a trial: its parameters, its experiment, its number and its seed."""
    trial = run.spec.trial
    if trial is None:
        return {}
    values = {
        f"{variables.PARAMETER_PREFIX}{re.sub('[^A-Za-z0-9]', '_', name).upper()}": value
        for name, value in _leaves(run.spec.parameters or {}).items()
        if "\0" not in value
    }
    return {
        **values,
        variables.EXPERIMENT_ID: trial.experiment,
        variables.TRIAL: str(trial.number),
        variables.TRIAL_SEED: str(trial.seed),
    }


def _leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Every value as text, by its dotted path."""
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _leaves(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value if isinstance(value, str) else json.dumps(value)
    return found


def _quoted(known: Mapping[str, str], found: re.Match[str]) -> str:
    value = known.get(found[1])
    return found[0] if value is None else quote(value)
