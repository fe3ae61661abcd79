"""`Actor`: the source of a command or a question to the control plane; and the server that serves a cluster.

The edges make it (the server's authentication, the simulator), `control.permissions` checks it, and every
event records the actor that caused it.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

NO_PROJECTS: Mapping[str, "ActorRole | None"] = MappingProxyType({})


class ActorRole(StrEnum):
    """The role of an actor on its server, or in a project; each may do all that the later ones may.

    An admin manages nodes, clusters, accounts and the runs of all users, a member their own runs, a viewer
    reads.
    """

    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


class Action(StrEnum):
    """A kind of operation. `control.permissions` says which roles may do it; a token can be limited to some.

    OPEN: without an account. ACCOUNT: with one's own account and tokens. CONTROL: changes of runs and of what
    belongs to them.
    """

    OPEN = "open"
    READ = "read"
    ACCOUNT = "account"
    SUBMIT = "submit"
    CONTROL = "control"
    MANAGE = "manage"


class Sight(Struct, frozen=True, kw_only=True):
    """The runs and experiments that an actor may see: those of `user`, and all those of `projects`.

    Beside them, those of `users` (None: of all users) outside `closed`, the other projects with members.
    """

    user: str
    users: frozenset[str] | None = None
    projects: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()

    def covers(self, user: str, project: str) -> bool:
        """Whether it includes the runs of a user in a project."""
        if user == self.user or project in self.projects:
            return True
        return project not in self.closed and (self.users is None or user in self.users)


class Actor(Struct, frozen=True, kw_only=True):
    """A user of a server, with roles there.

    `scopes`: only these actions (None: all of the roles). `projects` has each project with members, and the
    actor's role there (None: no member). `sees`: the runs that the actor may see (None: all); `controls`
    names the users whose runs a member may change beside their own.
    """

    user: str
    roles: frozenset[ActorRole] = frozenset({ActorRole.MEMBER})
    scopes: frozenset[Action] | None = None
    projects: Mapping[str, ActorRole | None] = NO_PROJECTS
    sees: Sight | None = None
    controls: frozenset[str] = frozenset()


class HomeIdentity(Struct, frozen=True, kw_only=True):
    """A tarmac home and the machine that its server runs on.

    `id` is stored in the home and moves with it; `machine` identifies the machine; `hostname` and `path` are
    for people.
    """

    id: str
    machine: str
    hostname: str
    path: str

    def __str__(self) -> str:
        return f"the home {self.path} on {self.hostname}"


class Lease(Struct, frozen=True, kw_only=True):
    """The right of one server to act for a cluster: to place, start and end the runs submitted to it.

    It does not expire: another home has to take it on purpose. `token` grows whenever a server takes it, also
    one of the same home: requests of an older server are refused.
    """

    cluster: str
    home: str
    token: int


class ServerRecord(Struct, frozen=True, kw_only=True):
    """The home that serves a cluster, and the last sign of life of its server."""

    cluster: str
    home: HomeIdentity
    token: int
    seen_at: float
