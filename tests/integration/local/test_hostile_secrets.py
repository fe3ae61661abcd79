"""Secrets of every form with hostile values, under a real runner: no failure of a library quotes them.

The registry, the worker and ssh do their worst; the records of the attempt hold none of it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from engine_harness import LocalHarness, Work, ended
from hostile_secrets import MARK, VALUES, gives_away
from tarmac.launch.compose import secret_launches
from tarmac.model.progress import Outcome
from tarmac.model.secret import SecretForm, SecretUse, registry_secrets
from tarmac.node.attempt.document import ContainerLaunch, Launch
from tarmac.node.attempt.steps import CheckoutStep
from tarmac.node.files.masking import Mask, split_at

USES = [
    SecretUse(name="variable", form=SecretForm.VARIABLE, variable="VARIABLE"),
    *(SecretUse(name=form.value, form=form) for form in SecretForm if form is not SecretForm.VARIABLE),
]

TOKENS = {"token of lines": "Bearer\r\n{}", "token of other letters": "€{}"}

WRITES = """
set -x; : "$VARIABLE"; set +x
cat "$SECRET_PATH_FILE" "$AWS_CONFIG_FILE" "$REGISTRY_AUTH_FILE"
python3 -c 'import os; print(os.environ["VARIABLE"], os.environ, os.environb, ascii(os.environ["VARIABLE"]))
raise ValueError(f"Invalid header value {os.environb[b"VARIABLE"]!r}")'
"""


@contextmanager
def registry(says: str) -> Iterator[str]:
    """The address of a registry that repeats what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.headers.get("Authorization")
            if sent is None:
                realm = f'Bearer realm="http://{self.headers["Host"]}/token"'
                self.answer(401, b"", challenge=realm if says in TOKENS else 'Basic realm="here"')
                return
            repeated = base64.b64decode(sent.partition(" ")[2]).decode()
            if says in TOKENS:
                self.answer(200, json.dumps({"token": TOKENS[says].format(repeated)}).encode())
                return
            body = json.dumps({"tags": [repeated, sent], "errors": [{"code": repeated}]}).encode()
            if says == "reason":
                self.answer(
                    500, body, " ".join(repeated.encode("latin-1", "replace").decode("latin-1").split())
                )
            else:
                self.answer(404, body)

        def answer(self, code: int, body: bytes, reason: str | None = None, challenge: str = "") -> None:
            self.send_response(code, reason)
            self.send_header("WWW-Authenticate", challenge)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def told(local: LocalHarness, launch: Launch, value: str) -> str:
    """Everything that is recorded of an attempt with this value in every form of secret."""
    given = {use.name: value for use in USES} | {"registry": f"ada:{value}"}
    local.reopen(secrets=lambda _names: given)
    request = local.engine.render(launch)
    local.engine.submit(request)
    seen = local.settle(launch.attempt_id, ended)
    assert seen.outcome is Outcome.FAILED
    assert seen.cause is not None
    found = [str(request), repr(seen), repr(local.engine.notices(launch.attempt_id))]
    for path in local.home.rglob("*"):
        if path.is_file() and path.suffix != ".log":
            found.append(f"{path.name}: {path.read_bytes().decode('utf-8', 'replace')}")
    return "\n".join(found)


@pytest.mark.heavy
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("says", ["reason", "tags", *TOKENS])
def test_a_registry_that_repeats_what_it_was_sent(local: LocalHarness, says: str, value: str) -> None:
    with registry(says) as address:
        image = f"{address}/team/box:1"
        launch = local.launch(Work())._replace(
            secrets=secret_launches(USES),
            container=ContainerLaunch(image=image, credentials=registry_secrets(USES)),
        )
        text = told(local, launch, value)
    assert image in text
    assert not gives_away(text)


@pytest.mark.heavy
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_checkout_with_a_key_that_is_none(local: LocalHarness, value: str) -> None:
    step = CheckoutStep(url="ssh://git@127.0.0.1:1/team/code.git", path="code")
    launch = local.launch(Work())._replace(secrets=secret_launches(USES), setup=(step,))
    text = told(local, launch, value)
    assert "code.git" in text
    assert not gives_away(text)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_worker_that_prints_them_in_every_form(local: LocalHarness, value: str) -> None:
    launch = local.launch(Work(), argvs={0: ("bash", "-c", WRITES)})._replace(secrets=secret_launches(USES))
    text = told(local, launch, value)
    log = local.engine.read(launch.attempt_id, "logs/main.0.0.log", limit=1 << 20)
    assert MARK.encode() in log, "the file of the run itself is not changed"
    assert "***" in text
    assert not gives_away(text)
    shown = split_at(log, Mask([value]), 0, final=True)[0]
    assert not gives_away(shown.decode("utf-8", "replace"))
