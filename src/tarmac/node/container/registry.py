"""A registry over HTTP, by the distribution specification. Called by `images`.

It requests only manifests, and the bytes of a digest, from any offset. It uses the standard library alone, so
that a node needs no other program to fetch an image.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import IO, Any, Mapping, NamedTuple, Optional

from tarmac.node.container import failures
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.manifests import MANIFEST_TYPES
from tarmac.node.container.reference import DOCKER_HUB, Reference, is_loopback

TIMEOUT_S = 30.0
MOST_MANIFEST_BYTES = 8 * 1024 * 1024
_HUB = "registry-1.docker.io"
_CHALLENGE = re.compile(r'([a-zA-Z_]{1,64})="([^"]{0,4096})"')
_SET_A_SECRET = (
    "keep USER:PASSWORD by `tarmac secret set NAME --as registry`, and give it to the run by `--secret NAME`"
)
_MOST_TAGS = 10
_PHRASES = http.client.responses  # not the registry's own text, which may repeat a login
_NOT_HERE = (404, 400)
_NO_ENTRY = (401, 403)


class Login(NamedTuple):
    """A user's name and password for a registry."""

    user: str
    password: str

    @property
    def header(self) -> str:
        """The value of an Authorization header."""
        pair = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


class Registry:
    """The repository of one image; `login` None: anonymous."""

    def __init__(self, reference: Reference, login: Optional[Login]) -> None:
        self.address = reference.registry
        self._reference = reference
        self._image = f"{reference.registry}/{reference.repository}"
        self._login = login
        self._authorization: Optional[str] = None
        name = _HUB if reference.registry == DOCKER_HUB else reference.registry
        scheme = "http" if is_loopback(reference.registry) else "https"
        self._base = f"{scheme}://{name}/v2/{reference.repository}"

    def manifest(self, version: str) -> bytes:
        """The manifest of a tag or digest. Raises ImageProblem."""
        accept = {"Accept": ", ".join(MANIFEST_TYPES)}
        with self._get(f"/manifests/{version}", accept, what=version) as answer:
            found = answer.read(MOST_MANIFEST_BYTES + 1)
        if len(found) > MOST_MANIFEST_BYTES:
            raise ImageProblem(failures.DAMAGED, f"the manifest of {self._reference} is too long")
        return found

    def open(self, digest: str, offset_bytes: int = 0) -> IO[bytes]:
        """The bytes of a digest from an offset. Raises ImageProblem."""
        headers = {"Range": f"bytes={offset_bytes}-"} if offset_bytes else {}
        answer = self._get(f"/blobs/{digest}", headers, what=digest)
        if offset_bytes and answer.status != http.client.PARTIAL_CONTENT:
            _skip(answer, offset_bytes)
        return answer

    def _get(self, path: str, headers: Mapping[str, str], *, what: str) -> http.client.HTTPResponse:
        """The response to a request, repeated with authorization if the registry demands it."""
        for last in (False, True):
            try:
                return self._open(self._base + path, self._authorization, headers)
            except urllib.error.HTTPError as error:
                with error:
                    if error.code == 401 and not last:
                        self._authorize(error.headers.get("WWW-Authenticate") or "")
                        continue
                    raise self._explain(error, what) from None
        raise AssertionError("unreachable")

    def _open(
        self, url: str, authorization: Optional[str], headers: Mapping[str, str] = {}
    ) -> http.client.HTTPResponse:
        request = urllib.request.Request(url, headers=dict(headers))
        if authorization is not None:  # never to the target of a redirect
            request.add_unredirected_header("Authorization", authorization)
        try:
            answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_S)
            return answer
        except urllib.error.HTTPError:
            raise
        except (OSError, http.client.HTTPException, ssl.SSLError) as error:
            reason = getattr(error, "reason", None) or error
            raise ImageProblem(
                failures.UNREACHABLE,
                f"the registry {self.address} cannot be reached: {reason}",
                "check the registry's name, and whether this node may reach it; --no-container uses no image",
            ) from None

    def _authorize(self, challenge: str) -> None:
        """Satisfy a registry's challenge with a token or with name and password."""
        kind, _, rest = challenge.partition(" ")
        fields = dict(_CHALLENGE.findall(rest))
        if kind.lower() == "bearer" and "realm" in fields:
            self._authorization = f"Bearer {self._token(fields)}"
        elif self._login is not None:
            self._authorization = self._login.header
        else:
            raise self._no_entry()

    def _token(self, fields: Mapping[str, str]) -> str:
        realm = fields["realm"]
        if not realm.startswith(("https://", *(("http://",) if is_loopback(self.address) else ()))):
            raise ImageProblem(failures.DAMAGED, f"{self.address} sends to {realm[:80]!r}")
        query = {"scope": f"repository:{self._reference.repository}:pull"}
        query.update({"service": fields["service"]} if "service" in fields else {})
        login = None if self._login is None else self._login.header
        try:
            with self._open(f"{realm}?{urllib.parse.urlencode(query)}", login) as answer:
                content = json.loads(answer.read(MOST_MANIFEST_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                raise self._explain(error, realm) from None
        token = content.get("token") or content.get("access_token") if isinstance(content, dict) else None
        if not isinstance(token, str) or not (token.isascii() and token.isprintable()):
            raise ImageProblem(failures.DAMAGED, f"{self.address} gave no token")
        return token

    def _explain(self, error: urllib.error.HTTPError, what: str) -> ImageProblem:
        if error.code in _NO_ENTRY:
            return self._no_entry()
        if error.code in _NOT_HERE:
            tags = None if "NAME_UNKNOWN" in _codes(error) else self._tags()
            if tags is None:
                hint = f"check the name; of a private one {_SET_A_SECRET}"
                return ImageProblem(failures.UNKNOWN_IMAGE, f"there is no image {self._image}", hint)
            hint = f"it has {', '.join(tags[-_MOST_TAGS:])}" if tags else "check the tag"
            return ImageProblem(failures.UNKNOWN_TAG, f"the image {self._image} has no {what}", hint)
        message = f"the registry {self.address} answers {error.code} {_PHRASES.get(error.code, '')}"
        return ImageProblem(failures.UNREACHABLE, message)

    def _tags(self) -> Optional[list[str]]:
        """Some tags of the image, if the registry lists them; None: it has no such image."""
        try:
            with self._open(f"{self._base}/tags/list", self._authorization) as answer:
                found = json.loads(answer.read(MOST_MANIFEST_BYTES)).get("tags")
        except urllib.error.HTTPError as error:
            with error:
                return None if "NAME_UNKNOWN" in _codes(error) else []
        except (ImageProblem, OSError, http.client.HTTPException, ValueError, AttributeError):
            return []
        return [str(tag)[:128] for tag in found] if isinstance(found, list) else []

    def _no_entry(self) -> ImageProblem:
        message = f"{self._image} is given to nobody without credentials, or does not exist"
        if self._login is not None:
            message = f"{self._image}: the registry refuses the user {self._login.user!r}"
        return ImageProblem(failures.CREDENTIALS, message, _SET_A_SECRET)


def names_registries(text: str) -> bool:
    """Whether credentials name their registries, like those of `docker login`."""
    return text.lstrip().startswith("{")


def read_login(text: str, registry: str) -> Optional[Login]:
    """The login for a registry in a text: `user:password`, or a file of `docker login`.

    None if it has no login for the registry. Raises ValueError for any other text.
    """
    if not names_registries(text):
        user, colon, password = text.strip().partition(":")
        if not colon or not user:
            raise ValueError("credentials are user:password, or the config.json of docker login")
        return Login(user, password)
    content = json.loads(text)
    known = content.get("auths", content) if isinstance(content, dict) else {}
    for name, entry in known.items() if isinstance(known, dict) else ():
        if isinstance(entry, dict) and _same_registry(name, registry):
            return _login_of(entry)
    return None


def _login_of(entry: Mapping[str, Any]) -> Optional[Login]:
    if isinstance(entry.get("auth"), str):
        user, _, password = base64.b64decode(entry["auth"]).decode().partition(":")
        return Login(user, password.rstrip("\0"))
    if "username" in entry:
        return Login(str(entry["username"]), str(entry.get("password", "")))
    return None


def _same_registry(name: str, registry: str) -> bool:
    place = (name.partition("://")[2] or name).partition("/")[0]
    return place == registry or (registry == DOCKER_HUB and place in ("index.docker.io", _HUB, DOCKER_HUB))


def _codes(error: urllib.error.HTTPError) -> set[str]:
    """The error codes in a registry's response, beside its status."""
    try:
        content = json.loads(error.read(MOST_MANIFEST_BYTES))
        return {str(entry.get("code")) for entry in content.get("errors", ())}
    except (OSError, ValueError, AttributeError):
        return set()


def _skip(stream: IO[bytes], count: int) -> None:
    """Skip known bytes: not every registry can begin in the middle."""
    while count > 0:
        piece = stream.read(min(count, 1024 * 1024))
        if not piece:
            return
        count -= len(piece)
