"""Secrets for the routes: set, list, remove; check those of a new run; hide them in the output of runs.

A value comes in with a request and is sent only to a runner.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from tarmac.api.storage_operations import SecretBody
from tarmac.control.permissions import Action, check, may_use_project
from tarmac.dialects.names import reserved
from tarmac.model.actor import Actor, ActorRole
from tarmac.model.cluster import Cluster
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, NotFound, Problem, Refused
from tarmac.model.notification import Receiver, Subscription
from tarmac.model.ports import Store
from tarmac.model.run import Run
from tarmac.model.secret import (
    NAME,
    SERVER,
    SHARED,
    SecretForm,
    SecretName,
    SecretUse,
    SecretVersion,
    owner_text,
    project_of,
    project_scope,
    user_scope,
    variables_of,
)
from tarmac.model.spec import RunSpec
from tarmac.node.files.masking import NO_SECRETS, Mask
from tarmac.node.files.secrecy import LEAST_INLINE, keys_among
from tarmac.systems.registry import dialect_of
from tarmac.vault.vault import Vault, nearest_secret

LOOK_AGAIN_S = 1.0
"""Maximum age of a mask: another server may have set a new value."""

_MOST_MASKS = 64

NO_NAMES: Mapping[str, str] = {}

MaskKey = tuple[tuple[tuple[str, str], ...], tuple[str, ...]]


MayUseProject = Callable[[Actor, str], bool]
"""Whether an actor may use the secrets of a project: in runs, in lists, and to set others."""


class SecretService:
    """Commands and queries about secrets. From any thread.

    `owner_names` are other names that the owner of the server has as an administrator, each with the usual
    one: the owner's secrets are the same under all.
    """

    def __init__(
        self,
        vault: Vault,
        store: Store,
        may_use_project: MayUseProject = may_use_project,
        *,
        owner_names: Callable[[], Mapping[str, str]] = lambda: NO_NAMES,
    ) -> None:
        self.vault = vault
        self._store = store
        self._may_use_project = may_use_project
        self._owner_names = owner_names
        self._masks: OrderedDict[MaskKey, tuple[float, Mask]] = OrderedDict()
        self._lock = Lock()

    def values(self, secrets: Sequence[SecretName]) -> Mapping[str, str]:
        """The current values of secrets: `model.secret.SecretValues`."""
        return self.vault.values(secrets)

    def all(self, actor: Actor) -> list[SecretVersion]:
        """The secrets that the actor may see, in their current versions: an administrator sees all."""
        check(actor, Action.READ)
        return [each for each in self.vault.newest() if each.retired_at is None and self._sees(actor, each)]

    def set(self, actor: Actor, name: str, new: SecretBody, *, scope: str | None = None) -> SecretVersion:
        """Store a value, in place of an earlier one; runs get it from their next attempt on.

        Without a scope, the secret is the actor's own.
        """
        own = self._own(actor)
        scope = own if scope is None else scope
        if scope not in (own, SHARED, SERVER):
            project = project_of(scope) or ""
            if not NAME.fullmatch(project) or not self._may_use_project(actor, project):
                raise InvalidInput(
                    f"you cannot set a secret with the scope {scope!r}",
                    hint=f"{own} (without an option), project:NAME for a project of yours (--project NAME); "
                    "for administrators '' (--shared) and server (--server)",
                )
        setter = {each.scope: each.user for each in self.vault.newest([name])}.get(scope)
        _check_change(actor, Action.SUBMIT, scope=scope, setter=setter)
        _check_form(new)
        version = self.vault.set(name, new, user=actor.user, scope=scope)
        self._forget_masks()
        return version

    def remove(
        self, actor: Actor, name: str, *, scope: str | None = None, force: bool = False, purge: bool = False
    ) -> SecretVersion | None:
        """Remove a secret from all later attempts; raises Refused while a run needs it, unless forced.

        Without a scope, it is the actor's own secret, else the only one of that name. `purge` also deletes
        its values, so logs no longer hide them. The result is None if the secret was removed before.
        """
        check(actor, Action.CONTROL)
        secret = self._chosen(actor, name, scope, removed=purge)
        _check_change(actor, Action.CONTROL, scope=secret.scope, setter=secret.user)
        if not force:
            for run in self._store.live_runs():
                if any((use.scope, use.name) == (secret.scope, name) for use in run.spec.secrets):
                    raise Refused(
                        f"{run.name} ({run.id}, {run.state}) is given {name}",
                        hint="--force removes it all the same: the run fails when it is started again",
                    )
        if purge:
            self.vault.purge(secret)
        else:
            self.vault.remove(secret)
        self._forget_masks()
        return secret if secret.retired_at is None else None

    def rotate(self, actor: Actor) -> int:
        """Encrypt every value with a new key; returns the number of values."""
        check(actor, Action.MANAGE)
        return self.vault.rotate()

    def resolved(self, spec: RunSpec, actor: Actor) -> tuple[RunSpec, list[Problem]]:
        """The spec of a new run with the form and the owner of each of its secrets, and their problems.

        A name means the actor's own secret, else that of the project, else the one for everyone.
        """
        every = dialect_of(spec.conventions.system).every_secret
        named = [each.receiver.address for each in spec.notify if each.receiver.secret]
        if not (spec.secrets or every or named):
            return spec, []
        member = self._may_use_project(actor, spec.project)
        scopes = [self._own(actor), *([project_scope(spec.project)] if member else []), SHARED]
        uses, problems = self.vault.resolved(spec.secrets, scopes, every=every)
        uses, clashes = _without_clashes(spec, uses)
        found, unknown = self.vault.resolved(
            [SecretUse(name=name, form=SecretForm.VARIABLE) for name in named], scopes
        )
        notify = _with_scopes(spec.notify, {use.name: use.scope for use in found})
        return replace(spec, secrets=tuple(uses), notify=notify), [*problems, *clashes, *unknown]

    def credentials(self, cluster: Cluster, login: str | None = None) -> Mapping[str, str]:
        """The present credentials of a cluster, by use: `model.secret.CredentialValues`."""
        scope = self.login_of(cluster, cluster.added_by) if login is None else login
        uses = {name: SecretUse(name=name, scope=scope or SHARED) for name in cluster.credentials.values()}
        values = self.vault.values(list(uses.values()))
        return {use: values[name] for use, name in cluster.credentials.items()}

    def login_of(self, cluster: Cluster, user: str) -> str | None:
        """The login of a user at a cluster: the scope of the secrets with its credentials.

        None: the cluster has no credentials. The user's own come first, then those for everyone, then the
        server's. Raises InvalidInput if none of these scopes has all of them.
        """
        needed = dict.fromkeys(cluster.credentials.values())
        if not needed:
            return None
        scopes = (user_scope(self._owner_names().get(user, user)), SHARED, SERVER)
        known = {scope: self.vault.usable([scope], list(needed)).keys() for scope in scopes}
        for scope, names in known.items():
            if names == needed.keys():
                return scope
        missing = next(name for name in needed if name not in known[scopes[0]])
        raise InvalidInput(
            f"cluster {cluster.name} needs the secret {missing!r}, and {user} has none of that name",
            hint=f"tarmac secret set {missing}",
        )

    def scoped(self, receiver: Receiver, actor: Actor) -> Receiver:
        """The receiver with the owner of the secret that it names: the actor, else everyone."""
        use = SecretUse(name=receiver.address, form=SecretForm.VARIABLE)
        found, unknown = self.vault.resolved([use] if receiver.secret else [], [self._own(actor), SHARED])
        if unknown:
            raise InvalidInput(unknown)
        return replace(receiver, scope=found[0].scope) if found else receiver

    def mask(self, run: Run) -> Mask:
        """The mask that hides the secrets of a run: all their past values, and keys written in its file."""
        inline = [key.value for key in keys_among(run.spec.environment.variables)]
        uses = {(use.scope, use.name): use for use in run.spec.secrets}
        key = (tuple(sorted(uses)), tuple(value for value in inline if len(value) >= LEAST_INLINE))
        if key == ((), ()):
            return NO_SECRETS
        now = time.monotonic()
        with self._lock:
            made_at, mask = self._masks.get(key, (0.0, NO_SECRETS))
            if mask is not NO_SECRETS and now - made_at < LOOK_AGAIN_S:
                return mask
        mask = Mask([*self.vault.past_values(uses.values()), *key[1]])
        with self._lock:
            self._masks[key] = (now, mask)
            while len(self._masks) > _MOST_MASKS:
                self._masks.popitem(last=False)
        return mask

    def _own(self, actor: Actor) -> str:
        """The scope of the secrets of an actor."""
        names = self._owner_names() if ActorRole.ADMIN in actor.roles else NO_NAMES
        return user_scope(names.get(actor.user, actor.user))

    def _sees(self, actor: Actor, secret: SecretName) -> bool:
        """Whether the secret is in lists for the actor. For a user it is missing otherwise."""
        if ActorRole.ADMIN in actor.roles or secret.scope in (SHARED, self._own(actor)):
            return True
        project = project_of(secret.scope)
        return project is not None and self._may_use_project(actor, project)

    def _chosen(self, actor: Actor, name: str, scope: str | None, *, removed: bool) -> SecretVersion:
        """The secret that the actor means, a `removed` one as well; raises NotFound, Refused for several."""
        found = {
            each.scope: each
            for each in self.vault.newest([name])
            if self._sees(actor, each) and (removed or each.retired_at is None)
        }
        own = self._own(actor)
        others = [each for each in found if each not in (own, SHARED) and project_of(each) is None]
        if scope is None and own not in found and (others or len(found) > 1):
            owners = " and of ".join(map(owner_text, found))
            raise Refused(
                f"you have no secret {name!r}; there is one of {owners}",
                hint="choose: --project NAME, --shared, --server or --user NAME",
            )
        default = own if own in found else next(iter(found), own)
        secret = found.get(default if scope is None else scope)
        if secret is None:
            known = {each.name for each in self.all(actor)} - {name}
            raise NotFound(f"there is no secret {name!r}", hint=nearest_secret(name, sorted(known)))
        return secret

    def _forget_masks(self) -> None:
        with self._lock:
            self._masks.clear()


def _check_change(actor: Actor, action: Action, *, scope: str, setter: str | None) -> None:
    """Raise Forbidden if another user set the secret, or if it takes an administrator."""
    check(actor, Action.MANAGE if scope in (SHARED, SERVER) else action, owner=setter, what="secrets")


def _with_scopes(notify: Sequence[Subscription], scopes: Mapping[str, str]) -> tuple[Subscription, ...]:
    """The subscriptions, with the owners of the secrets that receivers name."""
    return tuple(
        replace(each, receiver=replace(each.receiver, scope=scopes.get(each.receiver.address, SHARED)))
        if each.receiver.secret
        else each
        for each in notify
    )


def _check_form(new: SecretBody) -> None:
    """Raise InvalidInput for a form that runs cannot use."""
    if new.form is SecretForm.VARIABLE and new.variable is None:
        raise InvalidInput("a secret given as a variable needs its name", hint="--variable WANDB_API_KEY")
    if new.form is not SecretForm.FILE and new.path is not None:
        raise InvalidInput("a path is for a secret that is given as a file", hint="--as file")
    if new.form not in (SecretForm.VARIABLE, SecretForm.FILE) and new.variable is not None:
        raise InvalidInput("a variable is for a secret given as a variable or a file", hint="--as variable")
    if new.variable is not None and (not _is_variable(new.variable) or reserved(new.variable)):
        raise InvalidInput(f"{new.variable!r} cannot be the variable of a secret")
    if new.path is not None and not _is_plain_path(new.path):
        raise InvalidInput(f"{new.path!r} is no plain absolute path")


def _is_variable(name: str) -> bool:
    return name.isascii() and name.isidentifier() and len(name) < 256


def _is_plain_path(path: str) -> bool:
    parts = path.split("/")
    plain = path.isprintable() and len(path) < 4096
    return plain and path.startswith("/") and not {"", ".", ".."} & set(parts[1:])


def _without_clashes(spec: RunSpec, uses: list[SecretUse]) -> tuple[list[SecretUse], list[Problem]]:
    """Refuse a second secret for a variable; skip it if the system provides it to every run."""
    taken: dict[str, str] = {}
    accepted, problems = [], []
    own_names = {use.name for use in spec.secrets}
    for use in uses:
        names = variables_of(use)
        clash = next((name for name in names if name in taken), None)
        own = next((name for name in names if name in spec.environment.variables), None)
        if clash is not None and use.name in own_names:
            problems.append(Problem(message=f"secrets {taken[clash]} and {use.name} would share {clash}"))
        elif own is not None and use.name in own_names:
            problems.append(Problem(message=f"{own} is set both by env and by secret {use.name}"))
        elif clash is None and own is None:
            accepted.append(use)
            taken |= dict.fromkeys(names, use.name)
    return accepted, problems
