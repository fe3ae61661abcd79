"""Every setting, by its table. Read by `settings`, which checks a file against them.

docs/operating/settings.md contains the same list, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tarmac.model.cluster import LOCAL_CLUSTER
from tarmac.node.files.gitrules import SAFE_TRANSPORTS

DEFAULT_CODE_LIMIT, DEFAULT_CODE_LIMIT_BYTES = "1GiB", 1 << 30
DEFAULT_LOG_LIMIT, DEFAULT_LOG_LIMIT_BYTES = "16GiB", 16 << 30
DEFAULT_CODE_DAYS = 30.0
DEFAULT_WORK_DAYS = 30.0
DEFAULT_LOG_DAYS = 365.0
DEFAULT_CACHE_DAYS = 30.0
DEFAULT_CODE_TIMEOUT_S = 600.0
DEFAULT_GIT_TIMEOUT_S = 1800.0
DEFAULT_PATIENCE, DEFAULT_PATIENCE_S = "2m", 120.0
"""Maximum wait for an unreachable store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: its key in a table, its type, its default, and its minimum."""

    key: str
    kind: type[Any]
    default: Any = None
    least: float | None = None


OF_A_CLUSTER: Sequence[Setting] = (
    Setting(key="use", kind=str, default="auto"),
    Setting(key="without", kind=list, default=[]),
    Setting(key="driver", kind=str, default="auto"),
    Setting(key="shows", kind=list),
    Setting(key="mirrors", kind=dict, default={}),
)
"""Keys of `[containers]` that a cluster may override, in `[containers.clusters.NAME]`."""

TABLES: Mapping[str, Sequence[Setting]] = {
    "database": (Setting(key="url", kind=str),),
    "server": (
        Setting(key="listen", kind=str),
        Setting(key="cluster", kind=str, default=LOCAL_CLUSTER),
    ),
    "artifacts": (
        Setting(key="store", kind=str),
        Setting(key="patience", kind=str, default=DEFAULT_PATIENCE),
        Setting(key="keep_versions", kind=int, default=3, least=1),
        Setting(key="keep_days", kind=float, least=0),
    ),
    "secrets": (Setting(key="key_file", kind=str),),
    "runs": (Setting(key="keep_days", kind=float, least=0),),
    "list": (Setting(key="ended_days", kind=float, default=14.0, least=0),),
    "logs": (
        Setting(key="limit", kind=str, default=DEFAULT_LOG_LIMIT),
        Setting(key="keep_days", kind=float, default=DEFAULT_LOG_DAYS, least=0),
    ),
    "code": (
        Setting(key="limit", kind=str, default=DEFAULT_CODE_LIMIT),
        Setting(key="timeout_s", kind=float, default=DEFAULT_CODE_TIMEOUT_S, least=1),
        Setting(key="keep_days", kind=float, default=DEFAULT_CODE_DAYS, least=0),
        Setting(key="work_days", kind=float, default=DEFAULT_WORK_DAYS, least=0),
    ),
    "git": (
        Setting(key="git_private_ssh_key_file_path", kind=str),
        Setting(key="git_known_hosts_file_path", kind=str),
        Setting(key="git_transports", kind=list, default=list(SAFE_TRANSPORTS)),
        Setting(key="git_timeout_s", kind=float, default=DEFAULT_GIT_TIMEOUT_S, least=1),
    ),
    "containers": (
        *OF_A_CLUSTER,
        Setting(key="cache_limit", kind=str),
        Setting(key="cache_days", kind=float, default=DEFAULT_CACHE_DAYS, least=0),
        Setting(key="clusters", kind=dict, default={}),
    ),
    "setup": (Setting(key="allow_system_packages", kind=bool, default=False),),
    "names": (
        Setting(key="clusters", kind=dict, default={}),
        Setting(key="pools", kind=dict, default={}),
        Setting(key="slot_types", kind=dict, default={}),
    ),
    "notifications": (
        Setting(key="smtp", kind=str),
        Setting(key="smtp_security", kind=str, default="starttls"),
        Setting(key="smtp_user", kind=str),
        Setting(key="smtp_password_secret", kind=str),
        Setting(key="from", kind=str),
        Setting(key="every_run", kind=list, default=[]),
        Setting(key="every_run_on", kind=list, default=["failed"]),
        Setting(key="private_addresses", kind=bool),
    ),
    "determined": (
        Setting(key="listen", kind=str),
        Setting(key="task_container_defaults", kind=dict),
        Setting(key="checkpoint_storage", kind=dict),
        Setting(key="default_priority", kind=int, default=42, least=1),
        Setting(key="library", kind=str),
    ),
}
"""Tables that occur once in the file."""

LOCAL_NODES: Sequence[Setting] = (
    Setting(key="nodes", kind=int, default=1, least=1),
    Setting(key="slots", kind=int, least=0),
    Setting(key="slot_type", kind=str),
    Setting(key="pool", kind=str),
    Setting(key="shard", kind=str),
    Setting(key="cpus", kind=float, least=0),
    Setting(key="memory", kind=str),
    Setting(key="hostnames", kind=list, default=[]),
)
"""Keys of `[[local]]`, which may be repeated: the persistent cluster of the local engine."""
