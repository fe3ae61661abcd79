"""Documents of registries and archives: manifests and image configurations. Pure; called by `images`."""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple, Optional, Sequence

from tarmac.node.container.failures import ARCHITECTURE, DAMAGED, ImageProblem

MOST_CONFIG_BYTES = 8 * 1024 * 1024
MANIFEST_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
"""The architectures for which images have another word than `uname -m`."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_OWN_VARIABLES = "TARMAC_"


class Piece(NamedTuple):
    """A compressed layer: the digest of its bytes, and their number (0: unknown)."""

    digest: str
    size_bytes: int


class Manifest(NamedTuple):
    """The parts of an image for one kind of machine."""

    config: Piece
    layers: tuple[Piece, ...]


def architecture(machine: str) -> str:
    """The images' word for an architecture, from the output of `uname -m`."""
    return _MACHINES.get(machine, machine)


def choose(index: Mapping[str, Any], machine: str, image: str) -> Optional[str]:
    """The digest of the manifest for this machine; None if `index` is no list of manifests.

    Raises ImageProblem if there is none for it.
    """
    if "manifests" not in index:
        return None
    runs_here, others = architecture(machine), []
    for entry in _list(index, "manifests"):
        given = entry.get("platform")
        platform = given if isinstance(given, dict) else {}
        found, system = platform.get("architecture"), platform.get("os", "linux")
        if found in (runs_here, None) and system in ("linux", ""):
            return _digest(entry)
        others.append(f"{system}/{found}")
    shown = ", ".join(sorted(set(others) - {"unknown/unknown"}))
    hint = f"it is there for {shown}" if shown else None
    raise ImageProblem(ARCHITECTURE, f"{image} is not for this node's architecture, linux/{runs_here}", hint)


def read_manifest(content: Mapping[str, Any]) -> Manifest:
    """The parts of an image; raises ImageProblem for an unknown form of manifest."""
    if content.get("schemaVersion") != 2 or not isinstance(content.get("config"), dict):
        raise ImageProblem(DAMAGED, "its manifest is of a kind that is not known", "push the image again")
    layers = tuple(_piece(entry) for entry in _list(content, "layers"))
    return Manifest(_piece(content["config"]), layers)


def read_config(content: Mapping[str, Any], machine: str, image: str) -> dict[str, str]:
    """The variables in the configuration of an image, except those of the platform.

    Raises ImageProblem if the image is for another architecture.
    """
    found = content.get("architecture")
    if found and found != architecture(machine):
        kind = f"{content.get('os', 'linux')}/{found}"[:80]
        message = f"{image} is for {kind}, this node is {architecture(machine)}"
        raise ImageProblem(ARCHITECTURE, message)
    inner = content.get("config")
    entries = inner.get("Env") if isinstance(inner, dict) else None
    texts = filter(lambda entry: isinstance(entry, str), entries if isinstance(entries, list) else ())
    pairs = [text.partition("=") for text in texts if "\0" not in text]
    return {
        name: value
        for name, _, value in pairs
        if _VARIABLE.fullmatch(name) and not name.startswith(_OWN_VARIABLES)
    }


def _piece(entry: Mapping[str, Any]) -> Piece:
    size_bytes = entry.get("size")
    return Piece(_digest(entry), size_bytes if isinstance(size_bytes, int) and size_bytes > 0 else 0)


def _digest(entry: Mapping[str, Any]) -> str:
    digest = entry.get("digest")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ImageProblem(DAMAGED, f"its manifest names the digest {str(digest)[:80]!r}")
    return digest


def _list(content: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    found = content.get(name)
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise ImageProblem(DAMAGED, f"its manifest has no list of {name}")
    return found
