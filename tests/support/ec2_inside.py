"""An account of EC2 in this process and on its clock: `Ec2Account`, for histories of rentals through boto3.

A request of boto3 goes to the proxy (`ec2_proxy`) and from there to moto, both as calls. There is one account
at a time: the one that was made last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

from botocore import handlers
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectionClosedError

from burst_labs import WatchedProvider
from ec2_proxy import KEY, REGION, VERSION, Ec2, LostAnswer
from ec2_server import IMAGE, IMAGES, MOTO_HEADERS, answered
from fake_provider import Entry, Knobs
from tarmac.model.burst.provider import RentedThing, RentRequest, ThingKind
from tarmac.providers.ec2.adapter import Ec2Provider

URL = "http://ec2.inside"
_present: list[Ec2] = []


class Ec2Account(WatchedProvider):
    """The adapter of EC2, with the account behind it for tests and judges."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        knobs: Knobs | None = None,
        limit_of: Callable[[str], float | None],
        books: None = None,
    ) -> None:
        _empty()
        self.ec2 = Ec2(_forwarded, now, knobs=knobs or Knobs(), limit_of=limit_of)
        super().__init__(now, books=self.ec2.books, knobs=self.ec2.knobs)
        self.ec2.types = {"cheap", "middle", "dear", "spot"}
        settings = {"region": REGION, "image": IMAGE, "subnets": ",".join(self.ec2.subnets()), "url": URL}
        self.adapter = Ec2Provider(settings, lambda: {"access_key": KEY, "secret_key": "none"})
        _present[:] = [self.ec2]

    def create(self, request: RentRequest) -> Sequence[RentedThing]:
        self.requests.append(request)
        return self.adapter.create(request)

    def listed(self) -> Sequence[RentedThing]:
        return self.adapter.list()

    def delete(self, things: Collection[RentedThing]) -> None:
        self.adapter.delete(things)

    def stranger(
        self, *, kind: ThingKind = ThingKind.MACHINE, owner: str | None = None, rate: float = 1.0
    ) -> Entry:
        tags = {} if owner is None else {"tarmac-owner": owner, "tarmac-request": f"request-of-{owner}"}
        return self.books.entries[self.ec2.stranger(kind, tags, image=IMAGE)]

    def notice(self, thing_id: str, *, in_s: float = 120.0) -> None:
        self.ec2.notice(thing_id)


def _forwarded(given: Mapping[str, str]) -> tuple[int, bytes]:
    url, body = f"http://ec2.{REGION}.amazonaws.com", urlencode({**given, "Version": VERSION})
    response = _moto().post("/", base_url=url, data=body, headers=MOTO_HEADERS)
    return response.status_code, response.data


def _empty() -> None:
    """Let moto forget everything, and give the same ids again."""
    _moto()
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.ec2 import ec2_backends
    from moto.moto_api._internal import mock_random

    ec2_backends[DEFAULT_ACCOUNT_ID][REGION].reset()
    mock_random.seed(0)


@cache
def _moto() -> Any:
    """moto in this process, and clients of boto3 that ask the present account; imported once it is needed."""
    os.environ["MOTO_AMIS_PATH"] = str(IMAGES)  # moto reads it when it is imported
    from moto.server import create_backend_app

    handlers.BUILTIN_HANDLERS.append(("before-send.ec2", _answer))
    return create_backend_app("ec2").test_client()


def _answer(request: AWSPreparedRequest, **_: object) -> AWSResponse | None:
    """The answer of the present account; None lets a request for another URL go on."""
    if not request.url.startswith(URL):
        return None
    try:
        status, body = answered(_present[0], *map(_text, (request.body, request.headers["Authorization"])))
    except LostAnswer:
        raise ConnectionClosedError(endpoint_url=request.url) from None
    return AWSResponse(request.url, status, {"Content-Type": "text/xml"}, _Raw(body))


def _text(found: str | bytes) -> str:
    return found if isinstance(found, str) else found.decode()


class _Raw(BytesIO):
    def stream(self) -> Any:
        yield self.read()
