"""The settings of a server: `settings.toml` in the tarmac home, read once at start.

Called by `__main__`. Each table of the file is a record, each of its fields a setting; a test compares them
with docs/operating/settings.md. Tables of foreign systems are declared in `systems.settings`.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from tarmac.control.burst.market import BurstRules
from tarmac.dialects.site_names import NO_NAMES, Names
from tarmac.model.actor import ActorRole
from tarmac.model.cluster import LOCAL_CLUSTER, REHEARSAL_PREFIX, EqualNodes, NodeGroup, Pool
from tarmac.model.codec import inherited, replace
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.kinds.engines import NO_CONTAINER_SETTINGS, ContainerRules, ContainerSettings
from tarmac.node.container.drivers import AUTO, DRIVERS
from tarmac.node.container.reference import canonical_registry, is_registry, is_repository
from tarmac.node.files.gitrules import SAFE_TRANSPORTS, TRANSPORTS, GitRules
from tarmac.node.kernel.system_users import LEAST_UID
from tarmac.server.notifying.settings import NotificationSettings, NotificationTable
from tarmac.server.setting_reader import Days, Duration, SettingReader, Size
from tarmac.systems.settings import SYSTEM_TABLES, Systems

_Seconds = Annotated[float, Meta(ge=1)]


class DatabaseSettings(Struct, frozen=True, kw_only=True):
    """`[database]`."""

    url: str | None = None


class TlsAuthority(StrEnum):
    """The authorities that a server itself can be."""

    LAB = "lab"


class AddressSettings(Struct, frozen=True, kw_only=True):
    """`[server]`: the address besides the home's socket, its protection, and the server's own cluster."""

    listen: str | None = None
    tls: TlsAuthority | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_names: tuple[str, ...] = ()
    host_names: tuple[str, ...] = ()
    trusted_proxies: Annotated[int, Meta(ge=0)] = 0
    requests_per_minute: Annotated[int, Meta(ge=1)] = 30_000
    cluster: str = LOCAL_CLUSTER


class ArtifactSettings(Struct, frozen=True, kw_only=True, rename={"patience_s": "patience"}):
    """`[artifacts]`: their place (None: in the home), the maximum wait for the store, and the retention."""

    store: str | None = None
    patience_s: Duration = 120.0
    keep_versions: Annotated[int, Meta(ge=1)] = 3
    keep_days: Days | None = None


class SecretSettings(Struct, frozen=True, kw_only=True):
    """`[secrets]`: the file of the keys that seal them."""

    key_file: str | None = None


class SignOnSettings(Struct, frozen=True, kw_only=True):
    """`[sign_on]`: the identity provider of users, and the accounts and roles that it gives them."""

    issuer: str | None = None
    client_id: str | None = None
    client_secret_file: str | None = None
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    groups_claim: str = "groups"
    groups: Mapping[str, ActorRole] = field(default_factory=dict)
    create_accounts: bool = False


class RunSettings(Struct, frozen=True, kw_only=True):
    """`[runs]`: how long ended runs are kept (None: always), and the lowest uid of a system user for runs."""

    keep_days: Days | None = None
    least_uid: Annotated[int, Meta(ge=1)] = LEAST_UID


class ListSettings(Struct, frozen=True, kw_only=True):
    """`[list]`: how long ended runs are in a plain list."""

    ended_days: Days = 14.0


class LogSettings(Struct, frozen=True, kw_only=True, rename={"limit_bytes": "limit"}):
    """`[logs]`: the maximum size of an attempt's logs on a node, and their retention."""

    limit_bytes: Size = 16 << 30
    keep_days: Days = 365.0


class CodeSettings(Struct, frozen=True, kw_only=True, rename={"limit_bytes": "limit"}):
    """`[code]`: the maximum size of a run's code, the maximum time for its copy, and its retention."""

    limit_bytes: Size = 1 << 30
    timeout_s: _Seconds = 600.0
    keep_days: Days = 30.0
    work_days: Days = 30.0


_GIT = {
    "key": "git_private_ssh_key_file_path",
    "known": "git_known_hosts_file_path",
    "transports": "git_transports",
    "timeout_s": "git_timeout_s",
}
"""Their names in the file."""


class GitSettings(Struct, frozen=True, kw_only=True, rename=_GIT):
    """`[git]`: options of git for repositories, on the server and on nodes."""

    key: str | None = None
    known: str | None = None
    transports: tuple[str, ...] = SAFE_TRANSPORTS
    timeout_s: _Seconds = 1800.0

    @property
    def rules(self) -> GitRules:
        """The rules for each call of git."""
        return GitRules(self.transports, self.key, self.known)


class ContainerTable(ContainerRules, frozen=True, kw_only=True, rename={"cache_limit_bytes": "cache_limit"}):
    """`[containers]`: the rules of all clusters, other rules for some, and the cache of images on nodes."""

    cache_limit_bytes: Size | None = None
    cache_days: Days = 30.0
    clusters: Mapping[str, Any] = field(default_factory=dict)


class SetupSettings(Struct, frozen=True, kw_only=True):
    """`[setup]`."""

    allow_system_packages: bool = False


class SubmissionSettings(Struct, frozen=True, kw_only=True):
    """`[submission]`: the site's hook, a program with its arguments, and the maximum time for its answer."""

    hook: tuple[str, ...] = ()
    hook_timeout_s: _Seconds = 5.0


class LocalNodes(EqualNodes, frozen=True, kw_only=True, rename={"memory_bytes": "memory"}):
    """`[[local]]`: a group of equal nodes of the local cluster; the engine checks them together."""

    nodes: Annotated[int, Meta(ge=1)] = 1
    slots: Annotated[int, Meta(ge=0)] = 0
    memory_bytes: Size | None = None


class Settings(Struct, frozen=True, kw_only=True, rename={"listing": "list"}):
    """The settings of a server by their tables; `local` and `pools` make the local cluster."""

    database: DatabaseSettings = DatabaseSettings()
    server: AddressSettings = AddressSettings()
    artifacts: ArtifactSettings = ArtifactSettings()
    secrets: SecretSettings = SecretSettings()
    sign_on: SignOnSettings = SignOnSettings()
    runs: RunSettings = RunSettings()
    listing: ListSettings = ListSettings()
    logs: LogSettings = LogSettings()
    code: CodeSettings = CodeSettings()
    git: GitSettings = GitSettings()
    images: ContainerTable = ContainerTable()
    containers: ContainerSettings = NO_CONTAINER_SETTINGS
    setup: SetupSettings = SetupSettings()
    submission: SubmissionSettings = SubmissionSettings()
    names: Names = NO_NAMES
    notifications: NotificationSettings = NotificationSettings()
    burst: BurstRules = BurstRules()
    systems: Systems = Systems()
    local: tuple[NodeGroup, ...] = ()
    pools: tuple[Pool, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether users other than the owner of the home may use this server, or its database."""
        return self.server.listen is not None or self.database.url is not None

    @property
    def private_addresses(self) -> bool:
        """Whether users' URLs may refer to this machine."""
        given = self.notifications.private_addresses
        return not self.shared if given is None else given


TABLES: Mapping[str, type[Struct]] = {
    "database": DatabaseSettings,
    "server": AddressSettings,
    "artifacts": ArtifactSettings,
    "secrets": SecretSettings,
    "sign_on": SignOnSettings,
    "runs": RunSettings,
    "list": ListSettings,
    "logs": LogSettings,
    "code": CodeSettings,
    "git": GitSettings,
    "containers": ContainerTable,
    "setup": SetupSettings,
    "submission": SubmissionSettings,
    "names": Names,
    "notifications": NotificationTable,
    "burst": BurstRules,
    **SYSTEM_TABLES,
}
"""Tables that occur once in the file."""


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
    reader = SettingReader(str(path))
    settings = _read(content, reader)
    if reader.problems:
        raise InvalidInput(reader.problems)
    return settings


def _read(content: Mapping[str, Any], reader: SettingReader) -> Settings:
    reader.refuse_unknown(content, [*TABLES, "local", "pools"], "")
    tables: dict[str, Any] = {
        name: reader.table(record, content.get(name, {}), name) for name, record in TABLES.items()
    }
    systems = Systems(**{name: tables.pop(name) for name in SYSTEM_TABLES})
    listing, images, messages = (tables.pop(name) for name in ("list", "containers", "notifications"))
    _check_places(tables, reader)
    tables["code"] = replace(tables["code"], keep_days=max(tables["code"].keep_days, listing.ended_days))
    tables["git"] = _git(tables["git"], reader)
    local = _local(content.get("local", []), reader)
    return Settings(
        **tables,
        listing=listing,
        images=images,
        containers=_containers(images, reader),
        notifications=(
            _notifications(messages, reader) if "notifications" in content else NotificationSettings()
        ),
        systems=systems,
        local=local,
        pools=_pools(content.get("pools"), local, reader),
    )


def _check_places(tables: Mapping[str, Any], reader: SettingReader) -> None:
    """Refuse paths, addresses and names that can be none."""
    issuer, login_secret = tables["sign_on"].issuer, tables["sign_on"].client_secret_file
    store, key_file, cluster = tables["artifacts"].store, tables["secrets"].key_file, tables["server"].cluster
    if store is not None and "://" not in store and not store.startswith("/"):
        reader.refuse(f"artifacts.store: an absolute path or a URL is expected, not {store!r}")
    for setting, path in (("secrets.key_file", key_file), ("sign_on.client_secret_file", login_secret)):
        if path is not None and not path.startswith("/"):
            reader.refuse(f"{setting}: an absolute path is expected, not {path!r}")
    if (issuer is None) is not (tables["sign_on"].client_id is None):
        reader.refuse("sign_on: issuer and client_id belong together: one of them is missing")
    if issuer is not None and not _ISSUER.fullmatch(issuer):
        reader.refuse(f"sign_on.issuer: {issuer!r:.200} is no address with https://")
    for key in ("tls_names", "host_names"):
        for name in getattr(tables["server"], key):
            if not _HOST_NAME.fullmatch(name):
                reader.refuse(f"server.{key}: a host name or an address is expected, not {name!r:.100}")
    if not _CLUSTER_NAME.fullmatch(cluster) or cluster.startswith(REHEARSAL_PREFIX):
        reader.refuse(f"server.cluster: {cluster!r} cannot be the name of a cluster", hint=_NAMES)
    hook = tables["submission"].hook[:1]
    if hook and not (hook[0].startswith("/") and os.access(hook[0], os.X_OK)):
        hint = 'such as ["/etc/tarmac/hook", "argument"]; a script needs chmod +x'
        reader.refuse(
            f"submission.hook: there is no program at the absolute path {hook[0]!r:.100}", hint=hint
        )


def _git(settings: GitSettings, reader: SettingReader) -> GitSettings:
    for transport in settings.transports:
        if transport not in TRANSPORTS:
            reader.refuse(f"git.git_transports: {transport!r} is none of {', '.join(TRANSPORTS)}")
    key = _file(settings.key, _GIT["key"], reader)
    return replace(settings, key=key, known=_file(settings.known, _GIT["known"], reader))


def _file(given: str | None, key: str, reader: SettingReader) -> str | None:
    """The absolute path of an existing file that a setting names."""
    if given is None:
        return None
    path = os.path.expanduser(given)  # noqa: PTH111 - stays a text
    if '"' in path or not path.startswith("/"):
        reader.refuse(f"git.{key}: an absolute path is expected, not {given!r}")
    elif not Path(path).is_file():
        reader.refuse(f"git.{key}: there is no file {path}")
    return path


def _containers(table: ContainerTable, reader: SettingReader) -> ContainerSettings:
    """The rules. A cluster's own table overrides the general keys, which apply to the rest."""
    default = ContainerRules(**_rules(inherited(ContainerRules, table), "containers.", reader))
    clusters = {}
    for name, own in table.clusters.items():
        path = f"containers.clusters.{name}"
        given = _rules(reader.given(ContainerRules, own, path), f"{path}.", reader)
        clusters[name] = replace(default, **given)
    return ContainerSettings(default=default, clusters=clusters)


def _rules(given: Mapping[str, Any], prefix: str, reader: SettingReader) -> dict[str, Any]:
    """The given rules, checked; registries have their usual names."""
    rules = ContainerRules(**given)
    for path in rules.shows or ():
        if not path.startswith("/") or ".." in path.split("/"):
            reader.refuse(f"{prefix}shows: an absolute path without '..' is expected, not {path!r:.100}")
    if rules.driver not in (AUTO, *DRIVERS):
        reader.refuse_choice(rules.driver, [AUTO, *DRIVERS], f"{prefix}driver")
    for registry, mirror in rules.mirrors.items():
        place, slash, repository = mirror.partition("/")
        if not (is_registry(registry) and is_registry(place) and (not slash or is_repository(repository))):
            reader.refuse(
                f"{prefix}mirrors: {registry!r:.100} = {mirror!r:.100} is no mirror of a registry",
                hint='such as { "docker.io" = "mirror.example.org:5000" }',
            )
    mirrors = {canonical_registry(registry): mirror for registry, mirror in rules.mirrors.items()}
    return {**given, "mirrors": mirrors} if "mirrors" in given else dict(given)


def _notifications(table: NotificationTable, reader: SettingReader) -> NotificationSettings:
    from tarmac.server.notifying.reading import read_notifications  # noqa: PLC0415 - as `local_cluster`

    settings, problems = read_notifications(table, file=reader.file)
    reader.problems += problems
    return settings


def _local(groups: Any, reader: SettingReader) -> tuple[NodeGroup, ...]:
    """The groups of equal nodes; the engine checks whether they make a cluster."""
    if not isinstance(groups, list):
        reader.refuse("local: write [[local]], with double brackets: it may stand several times")
        return ()
    found = []
    for at, group in enumerate(groups):
        nodes = reader.table(LocalNodes, group, f"local[{at}]")
        if isinstance(group, dict) and "slots" not in group:
            reader.refuse(f"local[{at}].slots is missing: how many slots has each of these nodes?")
        found.append(NodeGroup(**inherited(EqualNodes, replace(nodes, slot_type=nodes.slot_type.lower()))))
    return tuple(found)


def _pools(table: Any, groups: tuple[NodeGroup, ...], reader: SettingReader) -> tuple[Pool, ...]:
    if table is None:
        return ()
    from tarmac.server import local_cluster  # noqa: PLC0415 - see its docstring

    pools, problems = local_cluster.local_pools(table, groups, reader.file)
    reader.problems += problems
    return pools


_ISSUER = re.compile(r"https://[^\s?#]+|http://(127\.0\.0\.1|localhost)(:[0-9]+)?(/[^\s?#]*)?")
_CLUSTER_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_HOST_NAME = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_NAMES = f"1 to 63 letters, digits, '_' and '-', and not {REHEARSAL_PREFIX}..."
