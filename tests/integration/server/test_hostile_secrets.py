"""Secrets of every kind with hostile values, at the server: no answer, record or log of its own holds one."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from hostile_secrets import MARK, VALUES, gives_away
from served import Served
from tarmac.artifacts.code.git import RepositoryCodeStore
from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.artifacts.datasets import check_url, fetch, shown
from tarmac.artifacts.remote import RemoteBlobs
from tarmac.cli.views.escapes import json_text
from tarmac.model.errors import TarmacError
from tarmac.model.secret import SecretForm, SecretUse
from tarmac.model.spec import Repository
from tarmac.node.files.gitrules import GitRules
from tarmac.store.database import Database

hostile = pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)

USES = ", ".join(f"{{name: {form.value}}}" for form in SecretForm)
SOURCE = f"name: given\nsecrets: [{USES}]\nimage: 127.0.0.1:1/team/box:1\ncommand: work\n"


@hostile
def test_no_answer_of_the_api_holds_a_value(
    plane: Served, caplog: pytest.LogCaptureFixture, value: str
) -> None:
    caplog.set_level(logging.DEBUG)
    client = plane.client()
    said: list[object] = []
    for form in SecretForm:
        variable = "KEY" if form is SecretForm.VARIABLE else None
        said.append(client.set_secret(form.value, value, form=form.value, variable=variable))
    said += [client.secrets(), client.rotate_secrets(), client.dry_run(SOURCE), client.check(SOURCE)]
    run = client.submit(SOURCE).id
    said += [client.why(run), client.queue()]
    plane.turn()
    plane.turn()
    node = client.attempts(run)[0].nodes[0]
    printed = f"{value}\n{value!r} {value.encode()!r} {json.dumps(value)}\n".encode()
    plane.engine.write(f"{run}.1", "logs/main.0.0.log", printed)
    metrics = {"note": value, f"of {value}": 1, "deep": {"a": [value]}, "quoted": repr(value)}
    line = json.dumps({"at": 1.0, "step": 1, "progress": value, "metrics": metrics}).encode()
    plane.engine.write(f"{run}.1", f"nodes/{node}/reports.jsonl", line + b"\n")
    plane.turn()
    logs, reports = list(client.logs(run)), client.reports(run)
    assert logs
    assert reports
    said += [logs, reports, client.metrics(run)]
    said += [client.run(run), client.attempts(run), client.events(run), client.notifications(run)]
    plane.advance(60)
    said += [client.run(run), client.attempts(run), client.events(run), client.runs(), client.why(run)]
    for form in SecretForm:
        said.append(client.remove_secret(form.value, force=True))
    assert not gives_away(json_text(said))
    assert not gives_away(caplog.text)


@pytest.mark.parametrize("value", [f"{MARK}\0", f"{MARK}\ud800", MARK * 7000, f"{MARK}\0\n{MARK}"])
def test_a_value_that_no_secret_can_have_is_not_repeated(plane: Served, value: str) -> None:
    with pytest.raises(TarmacError) as refused:
        plane.client().set_secret("k", value)
    assert not gives_away(f"{refused.value}{refused.value.hint}")


@hostile
def test_git_with_a_key_that_is_none(tmp_path: Path, value: str) -> None:
    store = RepositoryCodeStore(
        DirectoryCodeStore(tmp_path / "code"),
        tmp_path / "git",
        rules=GitRules(),
        secrets=lambda _: {"k": value},
    )
    with pytest.raises(TarmacError) as failed:
        store.fetch(
            Repository(url="ssh://git@127.0.0.1:1/team/code.git"), lambda: True, secret=SecretUse(name="k")
        )
    assert "git could not fetch ssh://git@127.0.0.1:1/team/code.git" in str(failed.value)
    assert not gives_away(f"{failed.value}{failed.value.hint}")


DATASETS = (
    *("https://ada:{}@127.0.0.1:9/file", "ftp://ada:{}@127.0.0.1:9/file", "sftp://ada:{}@127.0.0.1:9/file"),
    *("s3://ada:{}@bucket/file", "https://127.0.0.1:9/file?token={}", "https://127.0.0.1:9/file#{}"),
)


@pytest.mark.heavy
@pytest.mark.parametrize("url", DATASETS)
@hostile
def test_the_url_of_a_dataset(tmp_path: Path, url: str, value: str) -> None:
    source = url.format(value)
    with pytest.raises((TarmacError, OSError)) as failed:
        _fetched(source, tmp_path / "target")
    assert not gives_away(shown(str(failed.value), source))
    assert not gives_away(shown(source, source))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:{}@127.0.0.1:1/runs?connect_timeout=2",
        "postgresql://ada:{}@127.0.0.1:port/runs",
        "postgresql://ada:{}@[::/runs",
        "postgresql://ada@127.0.0.1:1/runs?connect_timeout=2&password={}",
        "post gres://ada:{}@127.0.0.1/runs",
        "mysql://ada:{}@127.0.0.1/runs",
    ],
)
@hostile
def test_the_url_of_a_database(url: str, value: str) -> None:
    with pytest.raises(TarmacError) as failed:
        _connected(url.format(value))
    assert not gives_away(f"{failed.value}{failed.value.hint}")


def _fetched(source: str, target: Path) -> None:
    check_url(source)
    fetch(source, target, lambda _done, _total: None)


def _connected(url: str) -> None:
    with closing(Database(url)) as database, database.reading():
        pass


class Repeats(BaseHTTPRequestHandler):
    """An object store that lets nobody in, and says with what they came."""

    def do_GET(self) -> None:
        came = " ".join(self.headers.get_all("x-amz-security-token") or ())
        body = f"<Error><Code>AccessDenied</Code><Message>no entry for {came}</Message></Error>".encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Repeats)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.heavy
@pytest.mark.parametrize("value", [value for value in VALUES.values() if value.isascii()])
def test_an_object_store_that_repeats_a_token(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str
) -> None:
    s3fs = pytest.importorskip("s3fs")
    s3fs.S3FileSystem.clear_instance_cache()
    names = {"AWS_ACCESS_KEY_ID": "ada", "AWS_SECRET_ACCESS_KEY": value, "AWS_SESSION_TOKEN": value}
    for name, text in {**names, "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, text)
    store, source = RemoteBlobs("s3://bucket/store"), "s3://bucket/data"
    with pytest.raises(TarmacError) as failed:
        store.put("name", b"content")
    with pytest.raises(TarmacError) as fetched:
        fetch(source, tmp_path / "target", lambda _done, _total: None)
    assert not gives_away(f"{failed.value} {shown(str(fetched.value), source)}")
