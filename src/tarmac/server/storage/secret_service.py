"""Secrets for the routes: set, list, remove; check those of a new run; hide them in the output of runs.

A value comes in with a request and is sent only to a runner.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock

from tarmac.api.storage_operations import SecretBody
from tarmac.control.permissions import Action, check
from tarmac.dialects.names import reserved
from tarmac.model.actor import Actor
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Problem, Refused
from tarmac.model.ports import Store
from tarmac.model.run import Run
from tarmac.model.secret import SecretForm, SecretUse, SecretVersion, variables_of
from tarmac.model.spec import RunSpec
from tarmac.node.files.masking import NO_SECRETS, Mask
from tarmac.node.files.secrecy import LEAST_INLINE, keys_among
from tarmac.systems.registry import dialect_of
from tarmac.vault.vault import Vault

LOOK_AGAIN_S = 1.0
"""Maximum age of a mask: another server may have set a new value."""

_MOST_MASKS = 64

MaskKey = tuple[tuple[str, ...], tuple[str, ...]]


class SecretService:
    """Commands and queries about secrets. From any thread."""

    def __init__(self, vault: Vault, store: Store) -> None:
        self.vault = vault
        self._store = store
        self._masks: OrderedDict[MaskKey, tuple[float, Mask]] = OrderedDict()
        self._lock = Lock()

    def values(self, names: Sequence[str]) -> Mapping[str, str]:
        """The current values of secrets: `model.secret.SecretValues`."""
        return self.vault.values(names)

    def all(self, actor: Actor) -> list[SecretVersion]:
        """Every secret in its current version, by name."""
        check(actor, Action.READ)
        return self.vault.all()

    def set(self, actor: Actor, name: str, new: SecretBody) -> SecretVersion:
        """Store a value, in place of an earlier one; runs get it from their next attempt on."""
        self._check_change(actor, name, Action.SUBMIT)
        _check_form(new)
        version = self.vault.set(name, new, user=actor.user)
        self._forget_masks()
        return version

    def remove(self, actor: Actor, name: str, *, force: bool, purge: bool) -> SecretVersion | None:
        """Remove a secret from all later attempts; raises Refused while a run needs it, unless forced.

        `purge` also deletes its values, so logs no longer hide them. The result is None if the secret was
        removed before.
        """
        self._check_change(actor, name, Action.CONTROL)
        if not force:
            for run in self._store.live_runs():
                if any(use.name == name for use in run.spec.secrets):
                    raise Refused(
                        f"{run.name} ({run.id}, {run.state}) is given {name}",
                        hint="--force removes it all the same: the run fails when it is started again",
                    )
        known = {version.name: version for version in self.vault.all()}
        version = known.get(name) if purge else self.vault.find(name)
        if purge:
            self.vault.purge(name)
        else:
            version = self.vault.remove(name)
        self._forget_masks()
        return version

    def rotate(self, actor: Actor) -> int:
        """Encrypt every value with a new key; returns the number of values."""
        check(actor, Action.MANAGE)
        return self.vault.rotate()

    def resolved(self, spec: RunSpec) -> tuple[RunSpec, list[Problem]]:
        """The spec of a new run with the form of each of its secrets, and the problems with them."""
        every = dialect_of(spec.conventions.system).every_secret
        if not spec.secrets and not every:
            return spec, []
        uses, problems = self.vault.resolved(spec.secrets, every=every)
        uses, clashes = _without_clashes(spec, uses)
        return replace(spec, secrets=tuple(uses)), [*problems, *clashes]

    def unknown(self, names: Sequence[str]) -> list[Problem]:
        """The problems of references to missing secrets."""
        uses = [SecretUse(name=name, form=SecretForm.VARIABLE) for name in names]
        return self.vault.resolved(uses, every=False)[1]

    def mask(self, run: Run) -> Mask:
        """The mask that hides the secrets of a run: all their past values, and keys written in its file."""
        inline = [key.value for key in keys_among(run.spec.environment.variables)]
        names = tuple(sorted({use.name for use in run.spec.secrets}))
        key = (names, tuple(value for value in inline if len(value) >= LEAST_INLINE))
        if key == ((), ()):
            return NO_SECRETS
        now = time.monotonic()
        with self._lock:
            made_at, mask = self._masks.get(key, (0.0, NO_SECRETS))
            if mask is not NO_SECRETS and now - made_at < LOOK_AGAIN_S:
                return mask
        mask = Mask([*self.vault.past_values(names), *key[1]])
        with self._lock:
            self._masks[key] = (now, mask)
            while len(self._masks) > _MOST_MASKS:
                self._masks.popitem(last=False)
        return mask

    def _check_change(self, actor: Actor, name: str, action: Action) -> None:
        """Raise Forbidden if another user set the newest value of the secret (removed or not)."""
        check(actor, action, owner=self.vault.owner(name), what="secrets")

    def _forget_masks(self) -> None:
        with self._lock:
            self._masks.clear()


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
