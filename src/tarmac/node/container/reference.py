"""Names of images, as `docker pull` takes them, and paths of images on the node. Called by `images`."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional

from tarmac.node.container.failures import UNKNOWN_IMAGE, ImageProblem
from tarmac.node.files import untrusted

DOCKER_HUB = "docker.io"
_NAMES_OF_DOCKER_HUB = ("index.docker.io", "registry-1.docker.io")
ALWAYS = "always"
"""The pull mode that asks the registry even if the node has an image of that name."""

_OFFICIAL = "library"
_DEFAULT_TAG = "latest"

_REPOSITORY = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REGISTRY = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?|\[[0-9a-fA-F:.]+\](:[0-9]{1,5})?"
)

_ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}(:[0-9]{1,5})?")

_SCHEMES = ("docker://", "oci://")
_ARCHIVES = ("oci-archive:", "docker-archive:", "oci:")
_FILES = (".sif", ".tar", ".tar.gz", ".tgz", ".sqsh")
_OF_APPTAINER = ("library://", "shub://", "oras://")
_SIF_MAGIC, _SIF_START, _SIF_END = b"SIF_MAGIC", 32, 41
_EXAMPLE = "such as pytorch/pytorch:2.4.0 or registry.example.org/team/image@sha256:..."


class Reference(NamedTuple):
    """An image of a registry; `digest` takes precedence over `tag`."""

    registry: str
    repository: str
    tag: Optional[str]
    digest: Optional[str]

    @property
    def version(self) -> str:
        """The tag or digest to request from the repository."""
        return self.digest or self.tag or _DEFAULT_TAG

    def at(self, mirror: str) -> Reference:
        """The same image at a mirror, `HOST[:PORT][/REPOSITORY]`, which has its repository below that one."""
        registry, _, prefix = mirror.partition("/")
        return self._replace(registry=registry, repository="/".join(filter(None, (prefix, self.repository))))

    def __str__(self) -> str:
        name = f"{self.registry}/{self.repository}"
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{name}{tag}{digest}"


def local_path(image: str) -> Optional[str]:
    """The path of an image that is a file or directory of the node; None for an image of a registry."""
    for prefix in _ARCHIVES:
        if image.startswith(prefix):
            return image[len(prefix) :]
    return image if image.startswith(("/", "./", "../")) else None


def absolute(image: str, directory: str) -> str:
    """The image; a relative path is made absolute from a directory."""
    path = local_path(image)
    if path is None or os.path.isabs(path):
        return image
    return image[: len(image) - len(path)] + os.path.normpath(os.path.join(directory, path))


def parse(image: str) -> Reference:
    """The full name of an image; raises ImageProblem for an invalid name."""
    text = image
    for scheme in _SCHEMES:
        text = text[len(scheme) :] if text.startswith(scheme) else text
    text, at, digest = text.partition("@")
    registry, rest = _registry(text)
    repository, colon, tag = rest.partition(":")
    if registry == DOCKER_HUB and "/" not in repository:
        repository = f"{_OFFICIAL}/{repository}"
    good = (
        _REPOSITORY.fullmatch(repository)
        and _REGISTRY.fullmatch(registry)
        and (not colon or _TAG.fullmatch(tag))
        and (not at or _DIGEST.fullmatch(digest))
    )
    # Names that Docker Hub allows, and that are certainly no image: a file, a digest, an address.
    is_other = text.endswith(_FILES) or text.startswith("sha256:") or _ADDRESS.fullmatch(text) is not None
    if not good or (registry == DOCKER_HUB and not digest and is_other):
        password = _credentials(image)
        shown = image.replace(password, "...@", 1) if password else image
        raise ImageProblem(UNKNOWN_IMAGE, f"{shown[:200]!r} is no name of an image", _hint(image))
    return Reference(registry, repository, tag or (None if digest else _DEFAULT_TAG), digest or None)


def _credentials(image: str) -> str:
    """`USER:PASSWORD@` if the name begins with credentials; else ""."""
    first = (image.partition("://")[2] or image).partition("/")[0]
    head, at, rest = first.rpartition("@")
    return head + at if ":" in head and not rest.startswith("sha256:") else ""


def _hint(image: str) -> str:
    """The text to write instead."""
    if image.startswith(("http://", "https://")):
        return f"leave {image.partition('://')[0]}:// out"
    if image.startswith(_OF_APPTAINER):
        return "Apptainer alone fetches it: `apptainer pull`, and name the file that this makes"
    if _credentials(image):
        return "credentials are a secret: `tarmac secret set NAME --as registry`, and `--secret NAME`"
    if image.endswith(_FILES):
        return f"a file begins with '/' or './': './{image}'"
    return f"a digest stands behind a name, {_EXAMPLE}" if image.startswith("sha256:") else _EXAMPLE


def is_registry(text: str) -> bool:
    """Whether a text may be the name of a registry, `HOST[:PORT]`."""
    return _REGISTRY.fullmatch(text) is not None


def is_repository(text: str) -> bool:
    """Whether a text may be the name of a repository."""
    return _REPOSITORY.fullmatch(text) is not None


def canonical_registry(name: str) -> str:
    """One name for a registry, as Docker Hub has several."""
    return DOCKER_HUB if name in _NAMES_OF_DOCKER_HUB else name


def is_loopback(registry: str) -> bool:
    """Whether a registry is on this machine, where plain HTTP is usual."""
    name = registry if registry.startswith("[") else registry.partition(":")[0]
    return name == "localhost" or name.startswith(("127.", "[::1]"))


def is_apptainer(path: str) -> bool:
    """Whether a file is an image of Apptainer or Singularity (SIF). Raises OSError."""
    return os.path.isfile(path) and untrusted.read_part(path, 0, _SIF_END)[_SIF_START:] == _SIF_MAGIC


def is_used_unchanged(path: str) -> bool:
    """Whether an image at a path is neither unpacked nor stored: an image of Apptainer, or a root itself.

    A directory is a root, unless it has the OCI layout. Raises OSError.
    """
    is_root = os.path.isdir(path) and not os.path.exists(os.path.join(path, "oci-layout"))
    return is_root or is_apptainer(path)


def known_as(path: str) -> str:
    """The identity of an image at a path, which differs after a change."""
    found = os.stat(path)
    return f"{os.path.realpath(path)}?{found.st_mtime_ns}.{found.st_size}"


def _registry(text: str) -> tuple[str, str]:
    """Split off a registry if the first part looks like a machine's name."""
    first, slash, rest = text.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return canonical_registry(first), rest
    return DOCKER_HUB, text
