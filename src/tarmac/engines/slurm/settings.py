"""The settings of a Slurm cluster, checked without access to it; and its intervals.

Called by `kind`. Values in a job script are limited to plain characters here, so that none can become a
directive.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tarmac.model.cluster import DEFAULT_POOL, Cluster
from tarmac.model.errors import InvalidInput
from tarmac.model.kinds import setting_values as values
from tarmac.model.site import check_name, check_value

_NAME = re.compile(r"[A-Za-z0-9_.,@:+-]{1,200}")
_CONSTRAINT = re.compile(r"[A-Za-z0-9_.,@:+*&|()\[\]-]{1,200}")
_OF_USERS = "/home/{user}/.tarmac"
_USER_PATH = re.compile(r"/(?!.*\.\.)[A-Za-z0-9_./+@-]*\{user\}[A-Za-z0-9_./+@-]*")
_A_USER_PATH = "a path with the user's name in it, such as /home/{user}/tarmac"
_MOST_GPUS = 64
_POOL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")

TERMS = {"partition": _NAME, "account": _NAME, "qos": _NAME, "reservation": _NAME, "constraint": _CONSTRAINT}
"""The terms of every job of a pool, by the directive of the same name."""

OF_A_POOL = (*TERMS, "gpu_type", "extra", "wall_time")
FIELDS = ("directory", *OF_A_POOL, "pools", "python", "ssh", "user_directory")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """The settings of every job of a pool: `terms` by their directives, the partition first.

    `extra`: directives to add, or, with None, to drop. No job requests more than `wall_time_s`.
    `gpus_per_node` is only for a site that does not show the GPUs of its nodes.
    """

    name: str
    terms: Mapping[str, str]
    gpu_type: str | None = None
    gpus_per_node: int = 0
    extra: Mapping[str, str | None] = field(default_factory=dict)
    wall_time_s: float | None = None

    @property
    def partition(self) -> str:
        """The partition, or several, separated by commas."""
        return self.terms["partition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """The directory of runs, and the pools: the first is the default.

    `ssh`: the host of Slurm's commands, if not this machine. `user_directory`: the path above the
    directory for the runs of a system user, with `{user}` for the name.
    """

    directory: Path
    pools: tuple[PoolSettings, ...]
    python: str = "python3"
    ssh: str | None = None
    user_directory: str = _OF_USERS

    def pool(self, name: str) -> PoolSettings:
        """The pool of this name; raises InvalidInput if there is none, or no longer one."""
        found = next((pool for pool in self.pools if pool.name == name), None)
        if found is None:
            raise InvalidInput(
                f"there is no pool {name!r}", hint=f"pools: {', '.join(pool.name for pool in self.pools)}"
            )
        return found


def read_settings(settings: Mapping[str, Any]) -> SlurmSettings:
    """The settings of a description; raises InvalidInput with the first mistake."""
    values.refuse_unknown(settings, FIELDS, "the engine slurm")
    directory = values.path_of(settings, "directory")
    if directory is None:
        raise InvalidInput("the engine slurm needs the setting 'directory'", hint=_NEEDED["directory"])
    return SlurmSettings(
        directory=directory,
        user_directory=values.text_of(settings, "user_directory", _USER_PATH, _A_USER_PATH) or _OF_USERS,
        pools=pools_of(settings, "slurm"),
        python=values.text_of(settings, "python", values.PROGRAM, values.A_PROGRAM) or "python3",
        ssh=values.text_of(settings, "ssh", values.SSH, values.SSH_FORM),
    )


_NEEDED = {
    "directory": "one that all nodes see, and the machine with Slurm's commands, for this cluster alone",
    "partition": "sinfo lists those there are",
}


def pools_of(
    settings: Mapping[str, Any], engine: str, fields: Sequence[str] = OF_A_POOL
) -> tuple[PoolSettings, ...]:
    """The pools; without any, one named `default`. A pool's missing settings are the common ones."""
    shared = {name: settings[name] for name in fields if settings.get(name) is not None}
    described = settings.get("pools")
    if described is None:
        return (_pool(DEFAULT_POOL, shared, f"the engine {engine}"),)
    if not isinstance(described, Mapping) or not described:
        raise InvalidInput("'pools' is no mapping", hint="such as 'pools: {train: {partition: gpu}}'")
    return tuple(_described(name, given, shared, fields) for name, given in described.items())


def _described(name: Any, given: Any, shared: Mapping[str, Any], fields: Sequence[str]) -> PoolSettings:
    where = f"pool {name!r:.100}"
    if not isinstance(name, str) or not _POOL.fullmatch(name):
        raise InvalidInput(f"{where} cannot be called so", hint="letters, digits, '.', '_' and '-'")
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{where} is no mapping", hint=f"such as '{name}: {{partition: gpu}}'")
    values.refuse_unknown(given, fields, where)
    extra = {**_extra(shared.get("extra")), **_extra(given.get("extra"))}
    own = {key: value for key, value in given.items() if value is not None}
    return _pool(name, {**shared, **own, "extra": extra}, where)


def _pool(name: str, given: Mapping[str, Any], where: str) -> PoolSettings:
    if given.get("partition") is None:
        raise InvalidInput(f"{where} needs the setting 'partition'", hint=_NEEDED["partition"])
    known = "a name as Slurm has them"
    terms = {term: values.text_of(given, term, form, known) for term, form in TERMS.items()}
    return PoolSettings(
        name=name,
        terms={term: value for term, value in terms.items() if value is not None},
        gpu_type=values.text_of(given, "gpu_type", _NAME, known),
        gpus_per_node=values.count_of(given, "gpus_per_node", most=_MOST_GPUS),
        extra=_extra(given.get("extra")),
        wall_time_s=values.seconds_of(given, "wall_time", "in whole minutes: 90m, 4h or 1d", units="mhd"),
    )


def _extra(value: Any) -> dict[str, str | None]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput("'extra' is no mapping", hint="such as 'extra: {constraint: a100, mem: null}'")
    found: dict[str, str | None] = {}
    for name, given in value.items():
        try:
            found[check_name(name)] = check_value(given)
        except InvalidInput as error:
            raise InvalidInput(f"'extra' has {name!r:.100}: {error.message}", hint=error.hint) from None
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Tempo:
    """The intervals of queries to Slurm, and of checks for the runners' last events.

    `places_s`: the interval for reading the whole queue of the site, while a job of tarmac waits there.
    `report_lag_s`: the maximum time until reports are visible on the shared disk. `forgotten_s`: the time
    after its runners' last event until a job that Slurm considers running has ended. A controller that was
    down at the end of a job may learn of it late, or never.
    """

    query_s: float = 2.0
    idle_s: float = 30.0
    look_s: float = 2.0
    places_s: float = 60.0
    report_lag_s: float = 15.0
    forgotten_s: float = 120.0


DEFAULT_TEMPO = Tempo()


def refuse_pool_rules(cluster: Cluster) -> None:
    """Refuse rules of pools, which are for clusters where tarmac places."""
    if cluster.pools:
        raise InvalidInput(
            "the rules of pools are for clusters where tarmac places",
            hint="pools of this cluster are 'pools' in its settings: {train: {partition: gpu}}",
        )
