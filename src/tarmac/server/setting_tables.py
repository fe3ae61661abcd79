"""Every setting there is, by the table it stands in. Read by `settings`, which checks a file against them.

docs/settings.md lists the same, and a test holds the two to one another.
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
DEFAULT_CODE_TIMEOUT_S = 600.0
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
        Setting(
            key="cluster",
            kind=str,
            default=LOCAL_CLUSTER,
            meaning="what the server's own cluster is called; servers on one database need a name each",
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
    "secrets": (
        Setting(
            key="key_file",
            kind=str,
            meaning="the file with the keys that secrets are sealed with: an absolute path, the same for all "
            "servers on one database; without it, `secrets.key` in the home",
        ),
    ),
    "list": (
        Setting(
            key="ended_days",
            kind=float,
            default=14.0,
            least=0,
            meaning="how many days an ended run stays in a plain list of runs; it is never deleted",
        ),
    ),
    "logs": (
        Setting(
            key="limit",
            kind=str,
            default=DEFAULT_LOG_LIMIT,
            meaning="what the logs of one attempt may hold on a node: of longer ones the middle is left out",
        ),
        Setting(
            key="keep_days",
            kind=float,
            default=DEFAULT_LOG_DAYS,
            least=0,
            meaning="how many days after the end of a run its logs are kept; what it is, what happened to it "
            "and its metrics stay; `inf`: always",
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
            key="timeout_s",
            kind=float,
            default=DEFAULT_CODE_TIMEOUT_S,
            least=1,
            meaning="how long copying the code of one run may take, in seconds; after that the run fails",
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
            default=DEFAULT_WORK_DAYS,
            least=0,
            meaning="how many days after its end what a run worked in is kept: work directories, and the "
            "environment and files made for it; artifacts and logs stay; `inf`: always",
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
    "names": (
        Setting(
            key="clusters",
            kind=dict,
            default={},
            meaning="for the names of clusters in run files from elsewhere, what they are called here, such "
            'as `{ r1z1 = "local" }`; `""`: any cluster will do',
        ),
        Setting(key="pools", kind=dict, default={}, meaning="the same for pools and resource pools"),
        Setting(
            key="slot_types",
            kind=dict,
            default={},
            meaning='the same for types of GPU, such as `{ a100_40gb = "a100_80gb", h100 = "gpu" }`',
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
        meaning="whether batch runs may preempt those ordered after them",
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
        meaning="how long nobody is preempted after its start, except by a cycle run",
    ),
    Setting(
        key="patience",
        kind=str,
        default="1h",
        meaning="how long smaller runs may overtake a run without a predictable start",
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
    Setting(key="half_life", kind=str, default="7d", meaning="time after which past usage counts half"),
    Setting(key="turn", kind=str, default="90s", meaning="how long a turn of a cycle run lasts"),
    Setting(key="period", kind=str, default="2h", meaning="what interruptible runs share in blocks"),
    Setting(key="floor", kind=str, default="5m", meaning="the shortest block of an interruptible run"),
)
"""Keys of `[pools.NAME]`: the rules of a pool of the local cluster, read as in a cluster description."""
