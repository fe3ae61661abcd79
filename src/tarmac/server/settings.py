"""The settings of a server: `settings.toml` in the tarmac home, read once at start, each declared once here.

Read by `__main__`; docs/settings.md explains every one of them, and a test holds the two to one another.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tarmac.model.cluster import DEFAULT_POOL, NodeGroup, Pool
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.resources import CPU_ONLY
from tarmac.node.gitrules import SAFE_TRANSPORTS, TRANSPORTS, GitRules

DEFAULT_CODE_LIMIT, DEFAULT_CODE_LIMIT_BYTES = "1GiB", 1 << 30
DEFAULT_CODE_DAYS = 30.0
DEFAULT_GIT_TIMEOUT_S = 1800.0
DEFAULT_PATIENCE, DEFAULT_PATIENCE_S = "2m", 120.0
"""How long a store that is down is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: its key in a table, its type, and what it means."""

    key: str
    kind: type[Any]
    meaning: str
    default: Any = None
    least: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactSettings:
    """Where artifacts are kept (None: in the home), for how long the store is waited for, and what stays."""

    store: str | None = None
    patience_s: float = DEFAULT_PATIENCE_S
    keep_versions: int = 3
    keep_days: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSettings:
    """How repositories are fetched, here and on nodes."""

    rules: GitRules = field(default_factory=GitRules)
    timeout_s: float = DEFAULT_GIT_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSettings:
    """How much code a run may bring, and how long it and the work directories are kept."""

    limit_bytes: int = DEFAULT_CODE_LIMIT_BYTES
    keep_days: float | None = DEFAULT_CODE_DAYS
    work_days: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a server is told; `local` and `pools` make the local cluster."""

    database_url: str | None = None
    listen: str | None = None
    ended_days: float = 14.0
    artifacts: ArtifactSettings = ArtifactSettings()
    code: CodeSettings = CodeSettings()
    git: GitSettings = GitSettings()
    allow_system_packages: bool = False
    determined: Mapping[str, Any] = field(default_factory=dict)
    local: tuple[NodeGroup, ...] = ()
    pools: tuple[Pool, ...] = ()


TABLES: Mapping[str, Sequence[Setting]] = {
    "database": (
        Setting(
            key="url",
            kind=str,
            meaning="the database: `sqlite:////absolute/path`, or `postgresql+psycopg://USER@HOST/NAME` for "
            "several servers on one database; without it, `tarmac.db` in the home",
        ),
    ),
    "server": (
        Setting(
            key="listen",
            kind=str,
            meaning="a loopback address and port to serve over TCP too, such as `127.0.0.1:8400`; "
            "the token is in the file `token` of the home",
        ),
    ),
    "artifacts": (
        Setting(
            key="store",
            kind=str,
            meaning="where artifacts are kept: the absolute path of a directory, or a URL such as "
            "`s3://bucket/path` (with the extra `tarmac[s3]`); without it, `artifacts` in the home",
        ),
        Setting(
            key="patience",
            kind=str,
            default=DEFAULT_PATIENCE,
            meaning="how long the start and the end of an attempt wait for a store that is down",
        ),
        Setting(
            key="keep_versions",
            kind=int,
            default=3,
            least=1,
            meaning="how many versions of each artifact of a run are kept",
        ),
        Setting(
            key="keep_days",
            kind=float,
            least=0,
            meaning="how long after its end the artifacts of a run are kept; without it, always",
        ),
    ),
    "list": (
        Setting(
            key="ended_days",
            kind=float,
            default=7.0,
            least=0,
            meaning="how many days an ended run stays in a plain list of runs; it is never deleted",
        ),
    ),
    "code": (
        Setting(
            key="limit",
            kind=str,
            default=DEFAULT_CODE_LIMIT,
            meaning="the most that the code of a run may hold, where its run file says nothing else",
        ),
        Setting(
            key="keep_days",
            kind=float,
            default=DEFAULT_CODE_DAYS,
            least=0,
            meaning="how long after its last use a snapshot of code is kept; never shorter than "
            "`list.ended_days`, and what a run that has not ended needs always is",
        ),
        Setting(
            key="work_days",
            kind=float,
            least=0,
            meaning="how long after its end the work directories of a run are kept; without it, always",
        ),
    ),
    "git": (
        Setting(
            key="git_private_ssh_key_file_path",
            kind=str,
            meaning="the deploy key for private repositories over SSH; without it, the keys "
            "of the account that the server runs as",
        ),
        Setting(
            key="git_known_hosts_file_path",
            kind=str,
            meaning="the only hosts that SSH may fetch from, as `~/.ssh/known_hosts` has them; without it, "
            "that file; an unknown host is always refused",
        ),
        Setting(
            key="git_transports",
            kind=list,
            default=list(SAFE_TRANSPORTS),
            meaning="what repositories may be fetched by: `https`, `ssh`, and where you trust the way there "
            "`http` and `file`; nothing else ever",
        ),
        Setting(
            key="git_timeout_s",
            kind=float,
            default=DEFAULT_GIT_TIMEOUT_S,
            least=1,
            meaning="how long fetching the code of one run may take, in seconds",
        ),
    ),
    "setup": (
        Setting(
            key="allow_system_packages",
            kind=bool,
            default=False,
            meaning="whether setup steps may install packages of the distribution, which change the nodes "
            "for everybody; else such a run is refused",
        ),
    ),
    "determined": (
        Setting(
            key="task_container_defaults",
            kind=dict,
            meaning="what every experiment configuration of Determined gets besides its own: `image`, "
            "`environment_variables`, `bind_mounts`, `preemption_timeout`, `log_policies`, and "
            "`startup_hook`, a script before every entry point",
        ),
        Setting(
            key="checkpoint_storage",
            kind=dict,
            meaning="the `checkpoint_storage` of experiments that name none; without it, the run's own "
            "checkpoints",
        ),
        Setting(
            key="default_priority",
            kind=int,
            default=42,
            least=1,
            meaning="the priority of experiments that name none, from 1 (first) to 99",
        ),
    ),
}
"""Tables that stand once in the file."""

LOCAL_NODES: Sequence[Setting] = (
    Setting(key="nodes", kind=int, default=1, least=1, meaning="how many nodes of this kind"),
    Setting(key="slots", kind=int, least=0, meaning="slots of each; must be given"),
    Setting(key="slot_type", kind=str, meaning="what the slots are called, such as `h100`; default `cpu`"),
    Setting(key="pool", kind=str, meaning="the pool of these nodes; default `default`"),
    Setting(key="shard", kind=str, meaning="the shard of these nodes; default none"),
    Setting(key="cpus", kind=float, least=0, meaning="processors of each; default those of this machine"),
    Setting(key="memory", kind=str, meaning="memory of each, such as `64GiB`; default this machine's"),
    Setting(
        key="hostnames", kind=list, default=[], meaning="a name for each of them; default `node1` and so on"
    ),
)
"""Keys of `[[local]]`, which may stand several times: the lasting cluster of the local engine."""

POOL_RULES: Sequence[Setting] = (
    Setting(
        key="policy",
        kind=str,
        default="priority",
        meaning="how batch runs are ordered: `priority`, `fair_share` or `least_attained`",
    ),
    Setting(
        key="preemption",
        kind=bool,
        default="false",
        meaning="whether batch runs may displace those ordered after them",
    ),
    Setting(
        key="packing",
        kind=str,
        default="pack",
        meaning="`pack`: the fullest nodes that still hold a run; `spread`: the emptiest",
    ),
    Setting(
        key="guaranteed",
        kind=str,
        default="5m",
        meaning="how long nobody is displaced after its start, except by a cycle run",
    ),
    Setting(
        key="patience",
        kind=str,
        default="1h",
        meaning="how long smaller runs may pass one whose start nobody knows; then nodes are kept for it",
    ),
    Setting(
        key="share_by",
        kind=str,
        default="user",
        meaning="between whom a fair share is fair: `user` or `project`",
    ),
    Setting(
        key="shares",
        kind=dict,
        default="{}",
        meaning="what each of them weighs, such as `{ ada = 2, bo = 1 }`; 1 where it is not named",
    ),
    Setting(key="half_life", kind=str, default="7d", meaning="when what somebody used counts half"),
    Setting(key="turn", kind=str, default="90s", meaning="how long a turn of a cycle run lasts"),
    Setting(key="period", kind=str, default="2h", meaning="what interruptible runs share in blocks"),
    Setting(key="floor", kind=str, default="5m", meaning="the shortest block of an interruptible run"),
)
"""Keys of `[pools.NAME]`: the rules of a pool of the local cluster, read as in a cluster description."""


def read_settings(path: Path) -> Settings:
    """The settings in a file, defaults where there is none; raises InvalidInput with all that is wrong."""
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidInput([Problem(message=f"it cannot be read: {problem}", file=str(path))]) from problem
    except tomllib.TOMLDecodeError as problem:
        raise InvalidInput([Problem(message=f"it is not TOML: {problem}", file=str(path))]) from problem
    return _Reader(str(path)).settings(content)


class _Reader:
    """Reads the parsed file, collecting problems."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._problems: list[Problem] = []

    def settings(self, content: Mapping[str, Any]) -> Settings:
        self._refuse_unknown(content, [*TABLES, "local", "pools"], "")
        values = {name: self._table(content.get(name, {}), TABLES[name], f"{name}.") for name in TABLES}
        groups = content.get("local", [])
        if not isinstance(groups, list):
            self._problem("local: write [[local]], with double brackets: it may stand several times")
            groups = []
        local = [self._group(group, f"local[{at}].") for at, group in enumerate(groups)]
        pools = self._pools(content.get("pools"), local)
        artifacts = ArtifactSettings(
            store=self._store(values["artifacts"]["store"]),
            patience_s=self._seconds(values["artifacts"]["patience"], "artifacts.patience"),
            keep_versions=values["artifacts"]["keep_versions"],
            keep_days=values["artifacts"]["keep_days"],
        )
        git = self._git(values["git"])
        code = self._code(values["code"], ended_days=values["list"]["ended_days"])
        if self._problems:
            raise InvalidInput(self._problems)
        return Settings(
            database_url=values["database"]["url"],
            listen=values["server"]["listen"],
            ended_days=values["list"]["ended_days"],
            artifacts=artifacts,
            code=code,
            git=git,
            allow_system_packages=values["setup"]["allow_system_packages"],
            determined={name: value for name, value in values["determined"].items() if value is not None},
            local=tuple(local),
            pools=pools,
        )

    def _group(self, table: Any, prefix: str) -> NodeGroup:
        """A group of like nodes; whether the groups make a cluster is for the engine to say."""
        values = self._table(table, LOCAL_NODES, prefix)
        if values["slots"] is None:
            self._problem(f"{prefix}slots is missing: how many slots has each of these nodes?")
        return NodeGroup(
            nodes=values["nodes"],
            slots=values["slots"] or 0,
            slot_type=(values["slot_type"] or CPU_ONLY).lower(),
            cpus=values["cpus"],
            memory_bytes=self._memory_bytes(values["memory"], f"{prefix}memory"),
            pool=values["pool"] or DEFAULT_POOL,
            shard=values["shard"],
            hostnames=tuple(values["hostnames"]),
        )

    def _code(self, values: Mapping[str, Any], *, ended_days: float) -> CodeSettings:
        given = None if values["limit"] == DEFAULT_CODE_LIMIT else values["limit"]
        limit_bytes = self._memory_bytes(given, "code.limit")
        return CodeSettings(
            limit_bytes=DEFAULT_CODE_LIMIT_BYTES if limit_bytes is None else limit_bytes,
            keep_days=max(values["keep_days"], ended_days),
            work_days=values["work_days"],
        )

    def _git(self, values: Mapping[str, Any]) -> GitSettings:
        transports = tuple(values["git_transports"])
        for transport in transports:
            if transport not in TRANSPORTS:
                self._problem(f"git.git_transports: {transport!r} is none of {', '.join(TRANSPORTS)}")
        paths = {}
        for key in ("git_private_ssh_key_file_path", "git_known_hosts_file_path"):
            paths[key] = values[key] and os.path.expanduser(values[key])  # noqa: PTH111 - stays a text
            if paths[key] and ('"' in paths[key] or not paths[key].startswith("/")):
                self._problem(f"git.{key}: an absolute path is expected, not {values[key]!r}")
            elif paths[key] and not Path(paths[key]).is_file():
                self._problem(f"git.{key}: there is no file {paths[key]}")
        rules = GitRules(
            transports=transports,
            key=paths["git_private_ssh_key_file_path"],
            known_hosts=paths["git_known_hosts_file_path"],
        )
        return GitSettings(rules=rules, timeout_s=values["git_timeout_s"])

    def _store(self, text: str | None) -> str | None:
        if text is not None and "://" not in text and not text.startswith("/"):
            self._problem(f"artifacts.store: an absolute path or a URL is expected, not {text!r}")
        return text

    def _seconds(self, text: str, path: str) -> float:
        if text == DEFAULT_PATIENCE:
            return DEFAULT_PATIENCE_S
        from tarmac.server import local_cluster  # noqa: PLC0415 - see its docstring

        seconds, problems = local_cluster.seconds(text, path, self._file)
        self._problems += problems
        return seconds or 0.0

    def _memory_bytes(self, text: str | None, path: str) -> int | None:
        if text is None:
            return None
        from tarmac.server import local_cluster  # noqa: PLC0415 - see its docstring

        size, problems = local_cluster.memory_bytes(text, path, self._file)
        self._problems += problems
        return size

    def _pools(self, table: Any, groups: Sequence[NodeGroup]) -> tuple[Pool, ...]:
        if table is None:
            return ()
        from tarmac.server import local_cluster  # noqa: PLC0415 - see its docstring

        pools, problems = local_cluster.local_pools(table, groups, self._file)
        self._problems += problems
        return pools

    def _table(self, table: Any, settings: Sequence[Setting], prefix: str) -> dict[str, Any]:
        if not isinstance(table, dict):
            self._problem(f"{prefix[:-1]}: a table is expected, not {table!r:.60}")
            table = {}
        self._refuse_unknown(table, [setting.key for setting in settings], prefix)
        return {setting.key: self._value(table, setting, prefix) for setting in settings}

    def _value(self, table: Mapping[str, Any], setting: Setting, prefix: str) -> Any:
        value: Any = table.get(setting.key, setting.default)
        if value is None:
            return None
        if setting.kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, setting.kind) or isinstance(value, bool) is not (setting.kind is bool):
            self._problem(f"{prefix}{setting.key}: {_KINDS[setting.kind]} is expected, not {value!r:.60}")
            return setting.default
        if setting.least is not None and value < setting.least:
            self._problem(f"{prefix}{setting.key}: at least {setting.least} is expected, not {value!r}")
        if setting.kind is list and not all(isinstance(item, str) for item in value):
            self._problem(f"{prefix}{setting.key}: a list of names is expected, not {value!r:.60}")
        return value

    def _refuse_unknown(self, table: Mapping[str, Any], known: Sequence[str], prefix: str) -> None:
        for key in table:
            if key not in known:
                close = get_close_matches(key, known, n=1)
                meant = f"did you mean {prefix}{close[0]}?" if close else f"known here: {', '.join(known)}"
                self._problem(f"{prefix}{key} is no setting", hint=meant)

    def _problem(self, message: str, *, hint: str | None = None) -> None:
        self._problems.append(Problem(message=message, file=self._file, hint=hint))


_KINDS = {
    bool: "true or false",
    str: "text",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}
