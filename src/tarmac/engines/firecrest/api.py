"""`Api`: calls of one firecREST for one system, each with a deadline and a token. Used by its files and jobs.

httpx instead of the client of firecREST's makers: docs/contributing/decisions has the reasons.
"""

import io
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

import httpx

from tarmac.engines.slurm.commands import Answer
from tarmac.model.errors import Unavailable

CALL_S = 60.0
CONNECT_S = 15.0
MOST_BYTES = 24 << 20
"""The longest answer: a file of an artifact store has 8 MiB, a list of many files or jobs a few."""

MARGIN_S = 60.0
LEAST_MARGIN_S = 35.0
"""A token is renewed while this time is left; for short-lived ones while half of it is left, but at least the
second: servers refuse a token that has less than 30 s left."""

WAITS = frozenset({408, 425, 429, 502, 503, 504})
"""The states of an answer that a later call may not have: 503 while a service of the system is unhealthy."""

TOO_LARGE = "exceeded buffer limit"
"""The words of an answer that is larger than the site allows, whatever its state."""

NO_ANSWER = (httpx.HTTPError, httpx.InvalidURL, RuntimeError)
"""The errors of a call without an answer; the last one if its engine was closed meanwhile."""

Credentials = Callable[[], tuple[str, str]]


class ApiError(Exception):
    """An answer that is an error, with its text."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Tokens:
    """Tokens by client credentials, each renewed in time. Thread-safe."""

    def __init__(
        self, client: httpx.Client, url: str, credentials: Credentials, *, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._url = url
        self._credentials = credentials
        self._clock = clock
        self._lock = Lock()
        self._token = ""
        self._until = float("-inf")

    def current(self, *, other_than: str = "") -> str:
        """A token that will be accepted, and is not one that was refused. Raises Unavailable."""
        with self._lock:
            if self._clock() >= self._until or self._token == other_than:
                self._renew()
            return self._token

    def _renew(self) -> None:
        client_id, secret = self._credentials()
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
        began_at = self._clock()
        try:
            answer = self._client.post(self._url, data=form)
            given = answer.json() if answer.is_success else {}
        except (*NO_ANSWER, ValueError) as error:
            raise Unavailable(f"no token from {self._url}: {error}") from None
        token, life_s = given.get("access_token"), given.get("expires_in")
        if not isinstance(token, str) or not isinstance(life_s, int | float):
            raise Unavailable(
                f"no token from {self._url}: status {answer.status_code}{_reason_of(answer)}",
                hint="the credentials client_id and client_secret name the secrets of a client there",
            )
        self._token = token
        self._until = began_at + life_s - min(MARGIN_S, max(LEAST_MARGIN_S, life_s / 2))


class Api:
    """Calls below `url`; connections are kept between calls. Thread-safe."""

    def __init__(
        self,
        url: str,
        system: str,
        token_url: str,
        credentials: Credentials,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self.system = system
        limits = httpx.Timeout(CALL_S, connect=CONNECT_S)
        self._client = httpx.Client(timeout=limits, follow_redirects=False, headers={"Accept": "*/*"})
        self.tokens = Tokens(self._client, token_url, credentials, clock=clock)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, /, **params: Any) -> Any:
        """The JSON of an answer. All calls raise Unavailable without an answer, and ApiError for an error."""
        return self._json(self.call("GET", path, params=params))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The same for a call with a body."""
        return self._json(self.call("POST", path, json=body))

    def call(self, method: str, path: str, /, **given: Any) -> bytes:
        """The content of an answer. A refused token is renewed once."""
        token = self.tokens.current()
        try:
            return self._call(token, method, path, given)
        except ApiError as error:
            if error.status != 401:
                raise
        try:
            return self._call(self.tokens.current(other_than=token), method, path, given)
        except ApiError as error:
            if error.status == 401:
                raise Unavailable(f"{self.url} refuses the token: {error.message}") from None
            raise

    def at_store(self, method: str, url: str, /, **given: Any) -> tuple[httpx.Response, bytes]:
        """The answer of the site's object store to a signed URL; it gets no token. Raises ApiError."""
        try:
            answer, content = self._answer(method, url, **given)
        except NO_ANSWER as error:
            raise ApiError(0, f"the site's object store does not answer: {type(error).__name__}") from None
        if not answer.is_success or b"<Error>" in content[:1000]:  # of a completion, also after success
            raise ApiError(answer.status_code, f"the site's object store: status {answer.status_code}")
        return answer, content

    def _call(self, token: str, method: str, path: str, given: Mapping[str, Any]) -> bytes:
        url, headers = f"{self.url}{path.format(system=self.system)}", {"Authorization": f"Bearer {token}"}
        try:
            answer, content = self._answer(method, url, headers=headers, **given)
        except NO_ANSWER as error:
            words = str(error) or type(error).__name__
            raise Unavailable(f"{self.url} does not answer: {words}") from None
        if answer.is_success:
            return content
        message = _message_of(content) or f"status {answer.status_code}"
        if answer.status_code in WAITS and TOO_LARGE not in message.lower():
            raise Unavailable(f"{self.url}, system {self.system}: {message} (status {answer.status_code})")
        raise ApiError(answer.status_code, message)

    def _answer(self, method: str, url: str, **given: Any) -> tuple[httpx.Response, bytes]:
        with self._client.stream(method, url, **given) as answer:
            written = io.BytesIO()
            for piece in answer.iter_bytes():
                written.write(piece)
                if written.tell() > MOST_BYTES:
                    raise ApiError(413, f"the answer has more than {MOST_BYTES} bytes")
            return answer, written.getvalue()

    def _json(self, content: bytes) -> Any:
        try:
            return httpx.Response(200, content=content).json()
        except ValueError:
            raise Unavailable(f"{self.url} answers with {content[:60]!r}, which is no JSON") from None


def _message_of(content: bytes) -> str:
    try:
        answer = httpx.Response(200, content=content).json()
    except ValueError:
        return content[:300].decode(errors="replace").strip()
    found = answer.get("message") or answer.get("detail") if isinstance(answer, dict) else None
    return str(found or "")[:2000]


def _reason_of(answer: httpx.Response) -> str:
    """The reason of an error of OAuth, which never repeats a secret."""
    try:
        found = answer.json()
    except ValueError:
        return ""
    words = (found.get("error_description") or found.get("error")) if isinstance(found, dict) else None
    return f", {str(words)[:200]}" if words else ""


def complaint(error: ApiError) -> str:
    """The reason in an error's text, as Slurm words it."""
    return Answer(1, "", error.message.rpartition("std_err:")[2]).complaint


@contextmanager
def wrong_form() -> Iterator[None]:
    """Report an answer in a wrong form, and an error without a meaning of its own, as Unavailable."""
    try:
        yield
    except ApiError as error:
        raise Unavailable(complaint(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unavailable(f"the answer of firecREST has a wrong form: {error!r}") from None
