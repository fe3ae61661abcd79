"""`Unicore`: requests to the REST interface of a UNICORE/X, as one user. Called by this engine alone.

Certificates are always verified. The first request of a user asks who that is: UNICORE answers a wrong
password with 200 and the role `anonymous`, which is refused here.
"""

import base64
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

import httpx

from tarmac.model.errors import InvalidInput, Unavailable

SESSION = "X-UNICORE-SecuritySession"
PREFERENCES = "X-UNICORE-User-Preferences"
SESSION_ENDED = 432
"""The status of a request in a session that the server no longer knows."""

UNAUTHORIZED, FORBIDDEN = 401, 403
REFUSED_REST_S = 60.0
"""The pause after a refused login: sites lock out users who try too often."""

LOGIN_S = 10.0
"""How long credentials are kept after they were read."""

TIMEOUT = httpx.Timeout(60.0, connect=15.0)
PAGE = 200
MOST_PAGES = 500
_SHOWN = 300

JSON = "application/json"
BYTES = "application/octet-stream"


class SiteAnswer(Unavailable):
    """An answer with an error `status`; `message` has the site's own words."""

    def __init__(self, message: str, *, status: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class LoginRefused(Unavailable):
    """The site does not accept the credentials. Only a person can change that."""


Credentials = Callable[[], Mapping[str, str]]
"""The current credentials of the user: `user` and `password`, or `token`. Raises Unavailable."""


class Unicore:
    """One user's access to the interface at `url`, which ends with /rest/core. Thread-safe.

    Every call raises Unavailable without an answer: with or without effect.
    """

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        *,
        group: str | None = None,
        ca: Path | None = None,
        timeout: httpx.Timeout = TIMEOUT,
    ) -> None:
        self.url = url.rstrip("/")
        self._credentials = credentials
        self._group = group
        self._ca = ca
        self._timeout = timeout
        self._lock = Lock()
        self._http: httpx.Client | None = None
        self._session: str | None = None
        self._known: Mapping[str, Any] | None = None
        self._known_to = ""
        self._header, self._login_until = "", 0.0
        self._refusal: tuple[LoginRefused, str, float] | None = None

    # --- requests --------------------------------------------------------------------------------

    def get(self, path: str, **params: Any) -> Mapping[str, Any]:
        """The JSON object at a path below the interface's address."""
        return self._object(self.call("GET", path, params=params))

    def create(self, path: str, described: Mapping[str, Any]) -> str:
        """Create a resource; its id."""
        place = self.call("POST", path, json=described).headers.get("Location")
        if not place:
            raise Unavailable(f"{self.url}{path}: the answer has no address of what was made")
        return id_of(place)

    def call(self, method: str, path: str, **given: Any) -> httpx.Response:
        """The answer to a request; `given` are httpx's arguments. Raises SiteAnswer for an error status."""
        self.about()
        answer = self._send(method, path, given)
        if answer.status_code == UNAUTHORIZED:  # such as a token that has expired: ask again who this is
            with self._lock:
                self._known, self._login_until = None, 0.0
        return self._checked(answer)

    def listed(self, kind: str, **params: Any) -> Iterator[str]:
        """The ids of all resources of a kind (`jobs`, `storages`), page by page."""
        seen: set[str] = set()
        for _ in range(MOST_PAGES):
            page = self.get(f"/{kind}", offset=len(seen), num=PAGE, **params).get(kind, [])
            new = [each for each in map(id_of, page) if each not in seen]
            if not new:  # the size of a page is the site's choice: an empty one is the last
                return
            seen.update(new)
            yield from new

    def about(self, *, again: bool = False) -> Mapping[str, Any]:
        """The site's facts about itself and this user. Raises LoginRefused for credentials without a user.

        They are read once for the same credentials, or `again`, with those of this moment.
        """
        if again:
            self._login_until = 0.0
        login = self._login()
        with self._lock:
            if self._known is not None and self._known_to == login and not again:
                return self._known
            if self._refusal is not None and not again:
                refusal, refused, since = self._refusal
                if refused == login and time.monotonic() < since + REFUSED_REST_S:
                    raise refusal
            self._known, self._session = None, None
            found = self._send("GET", "", {}, login=login)
            try:
                known = self._accepted(found)
            except LoginRefused as refusal:
                self._refusal, self._login_until = (refusal, login, time.monotonic()), 0.0
                raise
            self._known, self._known_to, self._refusal = known, login, None
            return known

    def close(self) -> None:
        """Close the connections; later calls open others."""
        with self._lock:
            http, self._http = self._http, None
        if http is not None:
            http.close()

    def _accepted(self, answer: httpx.Response) -> Mapping[str, Any]:
        found = self._object(self._checked(answer, login=True))
        client = found.get("client", {})
        role = client.get("role", {}).get("selected", "anonymous")
        if role == "anonymous" or not client.get("xlogin", {}).get("UID"):
            problem = (
                "the credentials are those of no user there" if role == "anonymous" else "it has no account"
            )
            raise LoginRefused(
                f"{self.url}: {problem} (role {role})",
                hint="check the secrets that the cluster's credentials name, and that the account is active",
            )
        return found

    def _checked(self, answer: httpx.Response, *, login: bool = False) -> httpx.Response:
        if answer.status_code < 300:
            return answer
        reason = answer.reason_phrase
        with suppress(ValueError, AttributeError):
            reason = str(answer.json().get("errorMessage") or reason)
        message = f"{self.url}: {' '.join(reason.split())[:_SHOWN]} ({answer.status_code})"
        if answer.status_code == UNAUTHORIZED or (answer.status_code == FORBIDDEN and login):
            raise LoginRefused(message, hint="check the secrets that the cluster's credentials name")
        raise SiteAnswer(message, status=answer.status_code)

    def _object(self, answer: httpx.Response) -> Mapping[str, Any]:
        with suppress(ValueError):
            found = answer.json()
            if isinstance(found, dict):
                return found
        raise Unavailable(f"{self.url}: the answer is no JSON object: is this the address of a UNICORE?")

    def _send(
        self, method: str, path: str, given: Mapping[str, Any], *, login: str | None = None
    ) -> httpx.Response:
        """One request; again without the session if the server has forgotten that."""
        headers = {"Accept": JSON, "Authorization": login or self._login(), **given.get("headers", {})}
        if self._group is not None:
            headers[PREFERENCES] = f"group:{self._group}"
        request = {**given, "url": self.url + quote(path, safe="/"), "headers": headers}
        session = self._session
        try:
            if session is not None:
                headers[SESSION] = session
            answer = self._client().request(method, **request)
            if answer.status_code == SESSION_ENDED:
                headers.pop(SESSION, None)
                answer = self._client().request(method, **request)
        except (httpx.HTTPError, RuntimeError) as error:  # the last: it was closed meanwhile
            reason = str(error) or type(error).__name__
            raise Unavailable(f"{self.url}: {reason[:_SHOWN]}", hint=_hint(reason)) from None
        self._session = answer.headers.get(SESSION)
        return answer

    def _login(self) -> str:
        """The header of the current credentials, which are read anew every few seconds."""
        if time.monotonic() >= self._login_until:
            given = self._credentials()
            if "token" in given:
                self._header = f"Bearer {given['token'].strip()}"
            else:
                pair = f"{given['user'].strip()}:{given['password']}"
                self._header = f"Basic {base64.b64encode(pair.encode()).decode()}"
            self._login_until = time.monotonic() + LOGIN_S
        return self._header

    def _client(self) -> httpx.Client:
        if self._http is None:
            try:
                context = ssl.create_default_context(cafile=self._ca)
            except (OSError, ssl.SSLError) as error:
                raise InvalidInput(f"'ca' {self._ca}: {error.strerror or 'no certificates'}") from None
            self._http = httpx.Client(verify=context, timeout=self._timeout, trust_env=False)
        return self._http


def id_of(url: str) -> str:
    """The last part of a resource's address. Only this is used: the address may be another server's."""
    return url.rstrip("/").rpartition("/")[2]


def _hint(reason: str) -> str | None:
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return "the setting 'ca' names a file with the certificate of the site's authority"
    return None
