"""`Vault`: sets, lists and removes secrets, gives them to attempts, and hides them in the output of runs.

Created by `wiring`, over the records of the store and the key file. Safe to use from any thread.
"""

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock

from tarmac.api.storage_operations import SecretBody
from tarmac.model import secret as model
from tarmac.model.codec import common, replace
from tarmac.model.errors import InvalidInput, Problem, Refused, Unavailable, nearest
from tarmac.model.ports import Clock
from tarmac.vault.keys import CannotOpen, Key, KeyFile, place_of, seal, unseal

_TRIES = 20


class Vault:
    """Commands and queries about secrets."""

    def __init__(self, records: model.SecretRecords, keys: KeyFile, clock: Clock) -> None:
        self._records = records
        self._keys = keys
        self._clock = clock
        self._known: dict[str, Key] = {}
        self._lock = Lock()

    # --- queries

    def newest(self, names: Sequence[str] | None = None) -> list[model.SecretVersion]:
        """The newest version of each secret (with these names), of removed ones as well."""
        return list({_key(version): version for version in self._records.versions(names)}.values())

    def values(self, secrets: Sequence[model.SecretName]) -> Mapping[str, str]:
        """The current values of secrets: `model.secret.SecretValues`."""
        versions = self.newest([secret.name for secret in secrets])
        current = {_key(version): version for version in versions if version.retired_at is None}
        for secret in secrets:
            if _key(secret) not in current:
                raise InvalidInput(
                    f"there is no secret {secret.name!r} any more", hint=f"{_command(secret)} sets it"
                )
        return {secret.name: self._open(current[_key(secret)]) for secret in secrets}

    def past_values(self, secrets: Iterable[model.SecretName]) -> list[str]:
        """Every value that these secrets have had, for hiding them, without those that cannot be opened.

        No run of this server can print the latter: the server could not open them either.
        """
        keys = {_key(secret) for secret in secrets}
        found = []
        for version in self._records.versions([name for _, name in keys]) if keys else ():
            try:
                found += [self._open(version)] if _key(version) in keys else []
            except Unavailable:
                continue
        return found

    def usable(
        self, scopes: Sequence[str], names: Sequence[str] | None = None
    ) -> dict[str, model.SecretVersion]:
        """The secrets in these scopes (with these names), by name; the earlier scope counts for a name."""
        current = [version for version in self.newest(names) if version.retired_at is None]
        found: dict[str, model.SecretVersion] = {}
        for each in (each for scope in scopes for each in current if each.scope == scope):
            found.setdefault(each.name, each)
        return found

    def resolved(
        self, uses: Sequence[model.SecretUse], scopes: Sequence[str], *, every: bool = False
    ) -> tuple[list[model.SecretUse], list[Problem]]:
        """The uses of a new run, each with its form and scope, and their problems.

        With `every`, the run also gets all secrets in these scopes that have a form of their own. A secret in
        another scope does not differ from a missing one.
        """
        known = self.usable(scopes, None if every else [use.name for use in uses])
        problems, result = [], []
        for use in uses:
            if use.name not in known:
                hint = nearest_secret(use.name, known if every else self.usable(scopes))
                problems.append(Problem(message=f"there is no secret {use.name!r}", hint=hint))
            elif use.form is not None:
                result.append(replace(use, scope=known[use.name].scope))
            elif known[use.name].form is None:
                hint = f"write VARIABLE: {use.name}, or set it with --as"
                problems.append(Problem(message=f"secret {use.name!r} needs a variable", hint=hint))
            else:
                result.append(_own_use(known[use.name]))
        if every:
            named = {use.name for use in uses}
            own = [_own_use(version) for version in known.values() if version.form is not None]
            taken = {use.variable for use in result}
            result += [use for use in own if use.name not in named and use.variable not in taken]
        return result, problems

    # --- commands

    def set(self, name: str, new: SecretBody, *, user: str, scope: str) -> model.SecretVersion:
        """Store a value durably; it replaces an earlier one in its scope. The same value is stored once.

        If `form`, `variable` and `path` are None, they stay unchanged.
        """
        _check(name, new.value)
        key = self._sealing_key()
        for _ in range(_TRIES):
            last = next((each for each in self.newest([name]) if each.scope == scope), None)
            old = last if last is not None and last.retired_at is None else None
            kept = new if old is None or new.form is not None else old
            version = model.SecretVersion(
                name=name,
                scope=scope,
                number=1 if last is None else last.number + 1,
                sealed="",
                key_id="",
                user=user,
                created_at=self._clock.now(),
                form=kept.form,
                variable=kept.variable,
                path=kept.path,
            )
            same = old is not None and common(model.SecretUse, old) == common(model.SecretUse, version)
            if old is not None and same and self._opens_to(old, new.value):
                return old
            sealed = _sealed(version, new.value, key)
            if self._records.add(sealed):
                return self._under_a_lasting_key(sealed, new.value)
        raise Unavailable(f"secret {name} changes too quickly", hint="try again")

    def remove(self, secret: model.SecretName) -> None:
        """Stop giving the secret to runs. Its sealed values stay, to hide them in old logs."""
        self._records.retire(secret, at=self._clock.now())

    def purge(self, secret: model.SecretName) -> None:
        """Delete every value of a secret, including those kept to hide them."""
        self._records.purge(secret)

    def rotate(self) -> int:
        """Seal everything with a new key, and delete the old ones; return the number of values sealed again.

        Both keys are in the file until everything is sealed again, so a crash in between loses nothing.
        Raises Unavailable, before any change, if a value cannot be opened.
        """
        versions = self._records.versions()
        for version in versions:
            self._open(version)
        if not versions:
            return 0
        key = self._keys.add()
        self._seal_all_with(key)
        self._keys.keep_first()
        count = self._seal_all_with(key)  # values sealed meanwhile by another server
        with self._lock:
            self._known = {key.id: key}
        return count

    # --- keys

    def _sealing_key(self) -> Key:
        """The key for a new value. If sealed values exist, it must be theirs: no second key is created."""
        keys = self._keys.read()
        if not keys and (sealed := self._records.versions()):
            raise Refused(
                f"the secrets of this database were sealed with a key that is not here ({sealed[0].key_id})",
                hint=f"copy the key file of the server that set them to {self._keys.path}, "
                "or name it in the setting secrets.key_file",
            )
        return keys[0] if keys else self._keys.create()

    def _under_a_lasting_key(self, version: model.SecretVersion, value: str) -> model.SecretVersion:
        """The version to store: sealed again if its key was rotated away during the write."""
        keys = self._keys.read()
        if version.key_id in {key.id for key in keys} or not keys:
            return version
        sealed = _sealed(version, value, keys[0])
        self._records.reseal([sealed])
        return sealed

    def _seal_all_with(self, key: Key) -> int:
        """Seal every value that has another key with this key; return the number of values."""
        while True:
            versions = self._records.versions()
            stale = [version for version in versions if version.key_id != key.id]
            if not stale:
                return len(versions)
            self._records.reseal([_sealed(version, self._open(version), key) for version in stale])

    def _open(self, version: model.SecretVersion) -> str:
        """The value; raises Unavailable if its key is missing, or if it was tampered with."""
        with self._lock:
            if version.key_id not in self._known:
                self._known |= {key.id: key for key in self._keys.read()}
            key = self._known.get(version.key_id)
        if key is None:
            raise Unavailable(
                f"secret {version.name} was sealed with a key that is not here ({version.key_id})",
                hint=f"copy the key file of the server that set it to {self._keys.path}",
            )
        try:
            return unseal(version.sealed, key, place_of(version))
        except CannotOpen as error:
            raise Unavailable(
                f"secret {version.name} cannot be opened: {error}", hint=f"{_command(version)} sets it"
            ) from None

    def _opens_to(self, version: model.SecretVersion, value: str) -> bool:
        try:
            return self._open(version) == value
        except Unavailable:
            return False


def _sealed(version: model.SecretVersion, value: str, key: Key) -> model.SecretVersion:
    return replace(version, sealed=seal(value, key, place_of(version)), key_id=key.id)


def _key(secret: model.SecretName) -> tuple[str, str]:
    return secret.scope, secret.name


def _command(secret: model.SecretName) -> str:
    """The command that sets a value of this secret."""
    project, common = model.project_of(secret.scope), {model.SHARED: " --shared", model.SERVER: " --server"}
    option = common.get(secret.scope, "" if project is None else f" --project {project}")
    return f"tarmac secret set {secret.name}{option}"


def _own_use(version: model.SecretVersion) -> model.SecretUse:
    return model.SecretUse(**common(model.SecretUse, version))


def _check(name: str, value: str) -> None:
    """Raise InvalidInput for an invalid name or value; the value is never repeated."""
    if not model.NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} cannot be the name of a secret", hint=model.NAME_RULE)
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidInput("the value is not text in UTF-8", hint="keep it as base64") from None
    if "\0" in value:
        raise InvalidInput("the value holds a NUL character", hint="keep it as base64")
    if len(value.strip().encode()) < model.LEAST_BYTES:
        raise InvalidInput(
            f"the value has fewer than {model.LEAST_BYTES} characters: it could not be hidden in logs",
            hint="what is so short is no secret",
        )
    if length > model.MOST_BYTES:
        raise InvalidInput(f"the value has {length} bytes; at most {model.MOST_BYTES} are allowed")


def nearest_secret(name: str, known: Iterable[str]) -> str:
    """A hint for a missing secret: the nearest of these names, and the command that sets it."""
    names = list(known)
    near = nearest(name, names)
    if near:
        return f"did you mean {near}? Or: tarmac secret set {name}"
    return f"tarmac secret set {name} sets it" + (f"; there are: {', '.join(names[:8])}" if names else "")
