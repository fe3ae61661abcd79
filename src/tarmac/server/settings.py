"""The settings of a server: `settings.toml` in the tarmac home, read once at start.

Called by `__main__`; `setting_tables` lists all settings.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.model.cluster import (
    DEFAULT_POOL,
    LOCAL_CLUSTER,
    REHEARSAL_PREFIX,
    NodeGroup,
    Pool,
)
from tarmac.model.containers import NO_CONTAINER_SETTINGS, ContainerSettings
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.resources import CPU_ONLY
from tarmac.model.text import nearest
from tarmac.node.files.gitrules import TRANSPORTS, GitRules
from tarmac.server.container_settings import container_settings
from tarmac.server.setting_tables import (
    DEFAULT_CACHE_DAYS,
    DEFAULT_CODE_DAYS,
    DEFAULT_CODE_LIMIT,
    DEFAULT_CODE_LIMIT_BYTES,
    DEFAULT_CODE_TIMEOUT_S,
    DEFAULT_GIT_TIMEOUT_S,
    DEFAULT_LOG_DAYS,
    DEFAULT_LOG_LIMIT,
    DEFAULT_LOG_LIMIT_BYTES,
    DEFAULT_PATIENCE,
    DEFAULT_PATIENCE_S,
    DEFAULT_WORK_DAYS,
    LOCAL_NODES,
    OF_A_CLUSTER,
    TABLES,
    Setting,
)

if TYPE_CHECKING:
    from tarmac.server.notifying.settings import NotificationSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactSettings:
    """The place of artifacts (None: in the home), the maximum wait for the store, and the retention."""

    store: str | None = None
    patience_s: float = DEFAULT_PATIENCE_S
    keep_versions: int = 3
    keep_days: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSettings:
    """Options of git for repositories, on the server and on nodes."""

    rules: GitRules = field(default_factory=GitRules)
    timeout_s: float = DEFAULT_GIT_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSettings:
    """Maximum size of a run's code, maximum time for its copy, and its retention."""

    limit_bytes: int = DEFAULT_CODE_LIMIT_BYTES
    timeout_s: float = DEFAULT_CODE_TIMEOUT_S
    keep_days: float | None = DEFAULT_CODE_DAYS
    work_days: float = DEFAULT_WORK_DAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a server; `local` and `pools` make the local cluster.

    `determined` has the settings for runs of that dialect; its own command uses the address
    `determined_listen`.
    """

    database_url: str | None = None
    listen: str | None = None
    cluster: str = LOCAL_CLUSTER
    ended_days: float = 14.0
    keep_days: float | None = None
    secret_keys: str | None = None
    artifacts: ArtifactSettings = ArtifactSettings()
    code: CodeSettings = CodeSettings()
    logs_limit_bytes: int = DEFAULT_LOG_LIMIT_BYTES
    log_days: float = DEFAULT_LOG_DAYS
    git: GitSettings = GitSettings()
    allow_system_packages: bool = False
    containers: ContainerSettings = NO_CONTAINER_SETTINGS
    image_limit_bytes: int | None = None
    image_days: float = DEFAULT_CACHE_DAYS
    notifications: NotificationSettings | None = None
    determined: Mapping[str, Any] = field(default_factory=dict)
    determined_listen: str | None = None
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    local: tuple[NodeGroup, ...] = ()
    pools: tuple[Pool, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether users other than the owner of the home may use this server, or its database."""
        return self.listen is not None or self.database_url is not None

    @property
    def private_addresses(self) -> bool:
        """Whether users' URLs may refer to this machine."""
        given = self.notifications.private_addresses if self.notifications is not None else None
        return not self.shared if given is None else given


def read_settings(path: Path) -> Settings:
    """The settings in a file, or the defaults without one; raises InvalidInput with all problems."""
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
    """Reads the parsed file and collects problems."""

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
        names = {key: self._names(key, table) for key, table in values["names"].items()}
        containers = container_settings(
            values["containers"],
            lambda table, prefix: self._table(table, OF_A_CLUSTER, prefix),
            self._problem,
        )
        image_limit_bytes = self._memory_bytes(values["containers"]["cache_limit"], "containers.cache_limit")
        code = self._code(values["code"], ended_days=values["list"]["ended_days"])
        notifications = self._notifications(values["notifications"]) if "notifications" in content else None
        if self._problems:
            raise InvalidInput(self._problems)
        return Settings(
            database_url=values["database"]["url"],
            listen=values["server"]["listen"],
            cluster=self._cluster(values["server"]["cluster"]),
            ended_days=values["list"]["ended_days"],
            keep_days=values["runs"]["keep_days"],
            secret_keys=self._key_file(values["secrets"]["key_file"]),
            artifacts=artifacts,
            code=code,
            logs_limit_bytes=self._log_limit(values["logs"]["limit"]),
            log_days=values["logs"]["keep_days"],
            git=git,
            allow_system_packages=values["setup"]["allow_system_packages"],
            containers=containers,
            notifications=notifications,
            determined={
                name: value
                for name, value in values["determined"].items()
                if value is not None and name != "listen"
            },
            determined_listen=values["determined"]["listen"],
            image_limit_bytes=image_limit_bytes,
            image_days=values["containers"]["cache_days"],
            names=names,
            local=tuple(local),
            pools=pools,
        )

    def _group(self, table: Any, prefix: str) -> NodeGroup:
        """A group of equal nodes; the engine checks whether the groups make a cluster."""
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

    def _cluster(self, name: str) -> str:
        if not _CLUSTER_NAME.fullmatch(name) or name.startswith(REHEARSAL_PREFIX):
            self._problem(f"server.cluster: {name!r} cannot be the name of a cluster", hint=_NAMES)
        return name

    def _code(self, values: Mapping[str, Any], *, ended_days: float) -> CodeSettings:
        limit = None if values["limit"] == DEFAULT_CODE_LIMIT else values["limit"]
        limit_bytes = self._memory_bytes(limit, "code.limit")
        return CodeSettings(
            limit_bytes=DEFAULT_CODE_LIMIT_BYTES if limit_bytes is None else limit_bytes,
            timeout_s=values["timeout_s"],
            keep_days=max(values["keep_days"], ended_days),
            work_days=values["work_days"],
        )

    def _notifications(self, values: Mapping[str, Any]) -> NotificationSettings:
        from tarmac.server.notifying.settings import read_notifications  # noqa: PLC0415 - as `local_cluster`

        settings, problems = read_notifications(values, file=self._file)
        self._problems += problems
        return settings

    def _log_limit(self, text: str) -> int:
        if text == DEFAULT_LOG_LIMIT:
            return DEFAULT_LOG_LIMIT_BYTES
        return self._memory_bytes(text, "logs.limit") or DEFAULT_LOG_LIMIT_BYTES

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
            known=paths["git_known_hosts_file_path"],
        )
        return GitSettings(rules=rules, timeout_s=values["git_timeout_s"])

    def _names(self, key: str, table: Mapping[str, Any]) -> Mapping[str, str]:
        for name, here in table.items():
            if not isinstance(here, str):
                self._problem(f"names.{key}.{name}: a local name is expected, not {here!r:.60}")
        return table

    def _store(self, text: str | None) -> str | None:
        if text is not None and "://" not in text and not text.startswith("/"):
            self._problem(f"artifacts.store: an absolute path or a URL is expected, not {text!r}")
        return text

    def _key_file(self, text: str | None) -> str | None:
        if text is not None and not text.startswith("/"):
            self._problem(f"secrets.key_file: an absolute path is expected, not {text!r}")
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
                close = nearest(key, known)
                guess = f"did you mean {prefix}{close}?" if close else f"known here: {', '.join(known)}"
                self._problem(f"{prefix}{key} is no setting", hint=guess)

    def _problem(self, message: str, *, hint: str | None = None) -> None:
        self._problems.append(Problem(message=message, file=self._file, hint=hint))


_CLUSTER_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_NAMES = f"1 to 63 letters, digits, '_' and '-', and not {REHEARSAL_PREFIX}..."

_KINDS = {
    bool: "true or false",
    str: "text",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}
