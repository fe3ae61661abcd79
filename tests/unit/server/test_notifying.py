"""The ways out: what mail servers and webhooks are given, and what is made of their answers (N18)."""

from __future__ import annotations

import dataclasses
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email import message_from_bytes
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.notification import Channel, Failure, Notification, Occasion, Receiver
from tarmac.model.secret import SERVER, SHARED, SecretName
from tarmac.server.notifying.sending import Sender
from tarmac.server.notifying.settings import MailServer, SmtpSecurity

ABOUT = {
    "id": "r1",
    "name": "digits",
    "project": "default",
    "user": "ann",
    "state": "ended",
    "outcome": "failed",
    "cause": {"code": "exit_code", "message": "main.0.0 exited with 1"},
    "slots": 2,
    "attempt": 1,
    "created_at": 0.0,
    "started_at": 10.0,
    "ended_at": 3700.0,
}


def message(receiver: Receiver, **about: Any) -> Notification:
    return Notification(
        run_id=str(about.get("id", "r1")),
        key="failed:1",
        server="local",
        occasion=Occasion.FAILED,
        receiver=receiver,
        about=ABOUT | about,
        at=3700.0,
        due_at=3700.0,
    )


def sender(mail: MailServer | None = None, *, private_addresses: bool = True) -> Sender:
    return Sender(mail=mail, secrets=secrets, private_addresses=private_addresses)


def secrets(named: Sequence[SecretName]) -> Mapping[str, str]:
    known = {"password": "correct horse"}
    names = [each.name for each in named]
    assert all(each.scope == (SERVER if each.name == "password" else SHARED) for each in named)
    for name in names:
        if name not in known and not name.startswith("http"):
            raise InvalidInput(f"there is no secret {name!r}")
    return {name: known.get(name, name) for name in names}


@contextmanager
def web_server(status: int = 200, *, location: str = "") -> Iterator[tuple[str, list[Any]]]:
    """A server that keeps what is posted to it, and always answers so."""
    posted: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append((self.path, self.headers["Content-Type"], json.loads(body)))
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.end_headers()
            self.wfile.write(b"these are words")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket.setblocking(False)  # a client that has left in between must not keep accept waiting
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook?key=1", posted
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def echoing_server() -> Iterator[str]:
    """A server that finds nothing, and says the path it was asked for, in its status too."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(404, f"no {self.path}")
            self.end_headers()
            self.wfile.write(self.path.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket.setblocking(False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_webhook_gets_the_event_as_json() -> None:
    with web_server() as (url, posted):
        hook = Receiver(channel=Channel.WEBHOOK, address=url)
        assert sender().send([[message(hook)]]) == [None]
    [(path, kind, document)] = posted
    assert (path, kind) == ("/hook?key=1", "application/json")
    assert document == {
        "id": "r1:failed:1",
        "type": "run.failed",
        "at": 3700.0,
        "server": "local",
        "run": ABOUT,
    }


def test_slack_gets_words_that_can_call_nobody() -> None:
    with web_server() as (url, posted):
        slack = Receiver(channel=Channel.SLACK, address=url)
        assert sender().send([[message(slack, name="<!channel> & co")]]) == [None]
    assert posted[0][2] == {
        "text": "&lt;!channel&gt; &amp; co (r1) has failed after 62 min: main.0.0 exited with 1\n"
        "user ann, project default, 2 slots\ntarmac show r1"
    }


@pytest.mark.parametrize(("status", "final"), [(500, False), (429, False), (404, True), (410, True)])
def test_an_answer_says_whether_trying_again_is_of_use(status: int, final: bool) -> None:
    with web_server(status) as (url, _):
        hook = Receiver(channel=Channel.WEBHOOK, address=url)
        [failure] = sender().send([[message(hook)]])
    assert failure is not None
    assert failure.final is final
    assert str(status) in failure.reason
    assert failure.reason.endswith(": these are words")


def test_a_redirection_is_not_followed() -> None:
    with web_server() as (elsewhere, posted), web_server(302, location=elsewhere) as (url, _):
        [failure] = sender().send([[message(Receiver(channel=Channel.WEBHOOK, address=url))]])
    assert failure is not None
    assert "302" in failure.reason
    assert posted == []


def test_a_shared_server_reaches_nothing_of_its_own_machine() -> None:
    with web_server() as (url, posted):
        for address in (url, url.replace("127.0.0.1", "localhost")):
            hook = Receiver(channel=Channel.WEBHOOK, address=address)
            [failure] = sender(private_addresses=False).send([[message(hook)]])
            assert failure is not None
            assert failure.final
            assert "notifications.private_addresses" in failure.reason
    assert posted == []


def test_one_that_is_down_or_says_nonsense_fails_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody, web_server() as (url, posted):
        port = nobody.getsockname()[1]
        nobody.close()
        down = Receiver(channel=Channel.WEBHOOK, address=f"http://127.0.0.1:{port}/")
        secret = Receiver(channel=Channel.SLACK, address="gone", secret=True)
        up = Receiver(channel=Channel.WEBHOOK, address=url)
        results = sender().send([[message(down)], [message(secret)], [message(up)]])
    assert results[0] is not None
    assert not results[0].final
    assert results[1] == Failure(reason="there is no secret 'gone'")
    assert results[2] is None
    assert len(posted) == 1


def test_a_receiver_that_drips_bytes_ends_in_time_and_holds_no_other() -> None:
    """One byte of its answer at a time: no single step of the conversation takes long."""
    stop = threading.Event()

    def drip(listening: socket.socket) -> None:
        with listening, listening.accept()[0] as connection:
            while not stop.wait(0.02):
                try:
                    connection.sendall(b"x")
                except OSError:
                    ended.set()
                    return

    ended = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    thread = threading.Thread(target=drip, args=[listening], daemon=True)
    thread.start()
    try:
        with web_server() as (honest, posted):
            hooks = [Receiver(channel=Channel.WEBHOOK, address=address) for address in (url, honest)]
            limited = Sender(mail=None, secrets=secrets, private_addresses=True, limit_s=0.4)
            slow, quick = limited.send([[message(hook)] for hook in hooks])
        assert (slow is not None, quick, len(posted)) == (True, None, 1)
        assert ended.wait(20), "the connection is closed, also where nobody waits for it any more"
    finally:
        stop.set()
        thread.join()


SECRET = "s3cr3t"

HOSTILE_URLS = (
    "http://127.0.0.1:1/s3cr3t and a blank",
    "http://127.0.0.1:1/s3cr3t\x7f",
    "http://127.0.0.1:1/s3cr3t?\u20ac",
    "http://s3cr3t host/",
    "http://s3cr3t\u20ac..x/",
    "http://127.0.0.1:s3cr3t/",
    "http://[s3cr3t/",
    "http://s3cr3t:s3cr3t@127.0.0.1:1/",
    "s3cr3t",
    "ftp://s3cr3t/",
    "https://127.0.0.1:1/s3cr3t\r\nX: s3cr3t",
)


@pytest.mark.parametrize("url", HOSTILE_URLS)
def test_no_part_of_a_secret_url_is_in_a_failure_or_the_log(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    hook = Receiver(channel=Channel.WEBHOOK, address="hook", secret=True)
    made = Sender(mail=None, secrets=lambda _names: {"hook": url}, private_addresses=True)
    [failure] = made.send([[message(hook)]])
    assert failure is not None
    assert SECRET not in failure.reason + caplog.text


def test_what_a_receiver_echoes_of_a_secret_url_is_in_no_failure() -> None:
    with echoing_server() as url:
        hook = Receiver(channel=Channel.WEBHOOK, address="hook", secret=True)
        made = Sender(mail=None, secrets=lambda _names: {"hook": f"{url}/s3cr3t"}, private_addresses=True)
        assert made.send([[message(hook)]]) == [Failure(reason="the receiver answered 404", final=True)]


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
@pytest.mark.parametrize("password", ["s3cr3t\u20ac", "s3cr3t\r\nMAIL FROM:<x@y>", "s3cr3t\0"])
def test_no_part_of_a_password_is_in_a_failure_or_the_log(
    password: str, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> AuthResult:
        return AuthResult(success=False, handled=False)  # else the server would send no answer

    with mail_server(authenticator=refuse, auth_required=True, auth_require_tls=False) as (server, _):
        with_user = dataclasses.replace(server, user="tarmac", password_secret="password")
        made = Sender(mail=with_user, secrets=lambda _names: {"password": password}, private_addresses=True)
        [failure] = made.send([[message(to("ann@lab.example"))]])
    assert failure is not None
    assert SECRET not in failure.reason + caplog.text


def test_a_secret_holds_the_url() -> None:
    with web_server() as (url, posted):
        slack = Receiver(channel=Channel.SLACK, address=url, secret=True)
        assert sender().send([[message(slack)]]) == [None]
    assert str(slack).startswith("slack (secret ")
    assert len(posted) == 1


class Mailbox:
    """What a mail server took; one of its mailboxes does not exist, another is full."""

    def __init__(self) -> None:
        self.mails: list[Envelope] = []

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address.startswith("nobody"):
            return "550 no such mailbox"
        if address.startswith("full"):
            return "452 mailbox full"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.mails.append(envelope)
        return "250 taken"


@contextmanager
def mail_server(**options: Any) -> Iterator[tuple[MailServer, Mailbox]]:
    box = Mailbox()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=port, **options)
    controller.start()
    try:
        yield (
            MailServer(host="127.0.0.1", port=port, security=SmtpSecurity.NONE, sender="tarmac@lab.example"),
            box,
        )
    finally:
        controller.stop()


def to(address: str) -> Receiver:
    return Receiver(channel=Channel.EMAIL, address=address)


def test_a_mail_says_what_happened() -> None:
    with mail_server() as (server, box):
        mail = message(to("ann@lab.example"), name="dig\nits")
        assert sender(server).send([[mail, replace(mail, occasion=Occasion.COMPLETED)]]) == [None]
        assert sender(server).send([[mail]]) == [None]
    several, single = (message_from_bytes(each.content, policy=default) for each in box.mails)
    assert single["Subject"] == "[tarmac] dig its (r1) has failed", "a name starts no header of its own"
    assert (single["From"], single["To"]) == ("tarmac@lab.example", "ann@lab.example")
    assert single.get_content().splitlines()[0].endswith("has failed after 62 min: main.0.0 exited with 1")
    assert several["Subject"] == "[tarmac] 2 messages: 1 failed, 1 completed"


def test_a_mailbox_that_is_not_there_is_not_tried_again_and_a_full_one_is() -> None:
    with mail_server() as (server, box):
        batches = [[message(to("nobody@lab.example"))], [message(to("full@lab.example"))]]
        gone, full = sender(server).send(batches)
    assert gone == Failure(reason="the mail server refuses the receiver: 550 no such mailbox", final=True)
    assert full is not None
    assert (full.final, "452" in full.reason) == (False, True)
    assert box.mails == []


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
def test_a_password_is_a_secret() -> None:
    seen = []

    def authenticate(*arguments: Any) -> AuthResult:
        seen.append(arguments[-1])
        return AuthResult(success=arguments[-1].password == b"correct horse")

    with mail_server(authenticator=authenticate, auth_required=True, auth_require_tls=False) as (server, box):
        with_user = dataclasses.replace(server, user="tarmac", password_secret="password")
        assert sender(with_user).send([[message(to("ann@lab.example"))]]) == [None]
        [refused] = sender(server).send([[message(to("ann@lab.example"))]])
    assert refused is not None
    assert "530" in refused.reason
    assert [each.login for each in seen] == [b"tarmac"]
    assert len(box.mails) == 1


def test_a_mail_server_without_the_protection_that_is_asked_for_gets_nothing() -> None:
    with mail_server() as (server, box):
        protected = dataclasses.replace(
            server, security=SmtpSecurity.STARTTLS, user="ann", password_secret="password"
        )
        [failure] = sender(protected).send([[message(to("ann@lab.example"))]])
    assert failure is not None
    assert "STARTTLS" in failure.reason
    assert box.mails == []


def test_without_a_mail_server_a_mail_waits_for_one() -> None:
    [failure] = sender().send([[message(to("ann@lab.example"))]])
    assert failure == Failure(reason="this server has no mail server: set notifications.smtp")
