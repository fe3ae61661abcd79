"""Backups: a directory with the database, the home, the key of the secrets, and a manifest of all three.

Called by the commands `tarmac server backup`, `restore` and `upgrade`, on the server's own machine. A backup
has its name, and a restored home its files, only once everything is on the disk.
"""

import hashlib
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

import tarmac
from tarmac.model.errors import InvalidInput, NotFound, Refused
from tarmac.model.home import Home
from tarmac.server.home_lock import HomeLock
from tarmac.server.settings import Settings, read_settings
from tarmac.store.copies import copy_database, file_of, restore_database, run_program
from tarmac.store.schema import BASE, HEAD

ARCHIVE, KEY, MANIFEST = "home.tar.gz", "secrets.key", "manifest.json"
"""The names of files of a backup beside the copy of the database."""


class Manifest(Struct, frozen=True, kw_only=True):
    """The description of a backup: the SHA-256 of its files, also of a key that was left out."""

    tarmac: str
    schema: str
    files: dict[str, str]
    key: str | None = None


def back_up(home: Home, directory: Path, *, with_key: bool) -> Manifest:
    """Write a backup into a new or empty directory. The server may work meanwhile."""
    settings = read_settings(home.settings)
    if directory.resolve().is_relative_to(home.root.resolve()):
        raise Refused(f"{directory} is in the home {home.root}, which is backed up", hint="use another place")
    if directory.exists() and any(directory.iterdir()):
        raise Refused(f"{directory} is not empty", hint="a backup needs a directory of its own")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=directory.parent, prefix=f"{directory.name}.unfinished-") as draft:
        made = _fill(Path(draft), home, settings, with_key=with_key)
        os.sync()
        Path(draft).rename(directory)
    return made


def restore(directory: Path, home: Home, *, key: Path | None, with_database: bool) -> None:
    """Restore a backup into a home without a server, which may have a settings.toml of its own already.

    `key`: the file with the key of the secrets; None: restore without it. Without its database, the home is
    for one that is restored already. The process keeps the home locked.
    """
    _check(directory, key)
    HomeLock(home).take()
    if found := {path.name for path in home.root.iterdir()} - {home.lock.name, home.settings.name}:
        hint = f"move it away first: mv {home.root} {home.root}.old"
        raise Refused(f"the home {home.root} is not empty: it has {min(found)}", hint=hint)
    with TemporaryDirectory(dir=home.root, prefix="restoring-") as room:
        _restore(directory, home, Home(Path(room)), key=key, with_database=with_database)


def _fill(draft: Path, home: Home, settings: Settings, *, with_key: bool) -> Manifest:
    """Write all files of a backup. The database comes first: the home then has every file that it names."""
    url = settings.database.url or f"sqlite:///{home.database}"
    key = Path(settings.secrets.key_file or home.secret_keys)
    schema = copy_database(url, draft)
    separate = [os.path.relpath(path, home.root) for path in (key, file_of(url)) if path is not None]
    run_program(
        *("tar", "--create", "--gzip", "--file", str(draft / ARCHIVE), "--directory", str(home.root)),
        *("--warning=no-file-changed", "--warning=no-file-removed", "--warning=no-file-ignored"),
        *(f"--exclude=./{name}*" for name in ("server.", "tarmac.db", *separate)),
        ".",
        allowed=1,  # a log grew while it was read; a checkpoint never changes once it counts
    )
    files = {path.name: _digest(path) for path in sorted(draft.iterdir())}
    key_digest = _digest(key) if key.exists() else None
    manifest = Manifest(tarmac=tarmac.__version__, schema=schema, files=files, key=key_digest)
    (draft / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    if with_key and key_digest is not None:
        shutil.copyfile(key, draft / KEY)
    for path in draft.iterdir():
        path.chmod(0o600)
    return manifest


def _check(directory: Path, key: Path | None) -> None:
    """Raise an error unless all files of a backup are as they were written."""
    path = directory / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError) as problem:
        raise NotFound(f"{directory} holds no backup: {path} cannot be read: {problem}") from None
    if not BASE <= manifest.schema <= HEAD:
        found = f"the schema of the backup is {manifest.schema}, and this tarmac reads {BASE} to {HEAD}"
        raise Refused(found, hint=f"install tarmac {manifest.tarmac}, which wrote it")
    expected = {directory / name: digest for name, digest in manifest.files.items()}
    if key is not None and manifest.key is not None:
        expected[key] = manifest.key
    if wrong := [path for path, digest in expected.items() if not path.exists() or _digest(path) != digest]:
        hint = "--key FILE names the key of the secrets, --without-key restores without it"
        names = ", ".join(map(str, wrong))
        raise InvalidInput(
            f"missing, or changed since the backup: {names}", hint=hint if key in wrong else None
        )


def _restore(directory: Path, home: Home, draft: Home, *, key: Path | None, with_database: bool) -> None:
    run_program("tar", "-xpf", str(directory / ARCHIVE), f"--directory={draft.root}")
    if home.settings.exists():
        shutil.copy(home.settings, draft.settings)
    settings = read_settings(draft.settings)
    place = Path(settings.secrets.key_file or draft.secret_keys)
    if key is not None and key.exists() and not place.exists():
        shutil.copy(key, place)
    if with_database:
        restore_database(settings.database.url or f"sqlite:///{home.database}", directory, room=draft.root)
    for path in draft.root.iterdir():
        path.rename(home.root / path.name)
    os.sync()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
