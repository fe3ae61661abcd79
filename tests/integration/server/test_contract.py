"""docs/using/api.md, OpenAPI and what the server sends: as `tarmac.api` has it, which the client reads."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import msgspec
import pytest

from histories import new_run
from served import HELLO, Served, served
from tarmac import api
from tarmac.api.operation import Operation
from tarmac.artifacts.remote import open_blobs
from tarmac.artifacts.versions.sync import Place, Syncer
from tarmac.model.abilities import StoreFiles
from tarmac.model.errors import InvalidInput, NotFound, TarmacError, Unavailable
from tarmac.model.progress import Event
from tarmac.model.spec import Target
from tarmac.server.app import routes_of

ROOT = Path(__file__).parents[3]


def test_every_answer_is_as_openapi_describes_it(plane: Served) -> None:
    client = plane.client()
    run = client.submit(HELLO)
    plane.turn()
    plane.turn()
    plane.engine.write(f"{run.id}.1", "logs/main.0.0.log", b"text")
    plane.advance(60)
    keep_something(plane, run.id)
    for schema, answers in (
        (api.Run, [run, client.run("hello")]),
        (api.RunPage, [client.runs()]),
        (api.Attempt, client.attempts("hello")),
        (Event, client.events("hello")),
        (api.LogChunk, list(client.logs("hello"))),
    ):
        assert answers
        assert msgspec.convert(msgspec.to_builtins(answers), list[schema]) == answers


def keep_something(plane: Served, run_id: str) -> None:
    """A version of an artifact, as a sidecar would have made it."""
    root = plane.home.root / "kept"
    root.mkdir()
    (root / "note").write_text("note")
    place = Place(run_id=run_id, attempt=1, kind="lossy", rank=0, root=str(root), seen_at=(str(root),))
    Syncer(open_blobs(str(plane.home.root / "artifacts")), place).sync()


def test_the_page_is_what_the_operations_say() -> None:
    tool = [sys.executable, str(ROOT / "tools/api_page.py"), "--check"]
    result = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def _api_modules() -> dict[str, ModuleType]:
    names = sorted(each.name for each in iter_modules(api.__path__))
    return {name: import_module(f"{api.__name__}.{name}") for name in names if name != "operation"}


def test_the_table_of_names_has_what_the_modules_define() -> None:
    """A name without its module would be an answer that no command can read."""
    defined = {
        name: module
        for module, each in _api_modules().items()
        for name, value in vars(each).items()
        if not name.startswith("_") and (isinstance(value, Operation) or _is_of(value, each))
    }
    homes: dict[str, str] = vars(api)["_HOMES"]
    assert {name: home for name, home in homes.items() if name in defined} == defined
    assert all(getattr(api, name) is not None for name in homes)


def _is_of(value: object, module: ModuleType) -> bool:
    return getattr(value, "__module__", None) == module.__name__


def test_every_operation_is_served(plane: Served) -> None:
    """A row of the table without a handler would be a client method that always fails."""
    offered = {id(offer.operation) for offer in routes_of(plane.service()).offers}
    modules = [each for name, each in _api_modules().items() if name.endswith("_operations")]
    declared = {
        name: each for module in modules for name, each in vars(module).items() if isinstance(each, Operation)
    }
    assert len(declared) > 70
    assert [name for name, each in declared.items() if id(each) not in offered] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "message"),
    [
        ("GET", "/runs?limit=many", None, "query.limit: Expected `int`, got `str`"),
        ("GET", "/runs?state=queued&state=gone", None, r"query.state\[1\]: Invalid enum value 'gone'"),
        ("GET", "/metrics", None, "query: Object missing required field `run`"),
        ("GET", "/usage?since=nan", None, "query.since: "),
        ("POST", "/runs", b"", "the request is not JSON"),
        ("POST", "/runs", b'{"source": "\xff"}', "the request is not JSON"),
        ("POST", "/runs", b'{"overrides": {"a": ' + b"[" * 100_000, "nested too deeply"),
        ("POST", "/runs", b'{"extras": {"file": 1}}', "body.extras: Object contains unknown field `file`"),
        ("POST", "/queue/changes", b'{"changes": []}', "body.changes: Expected `array` of length >= 1"),
    ],
    ids=range(9),
)
def test_a_malformed_request_is_refused_with_its_place(
    plane: Served, method: str, path: str, body: bytes | None, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        plane.transport().request(method, path, body=body)


def test_the_schema_is_served(plane: Served) -> None:
    schema = json.loads(plane.transport().request("GET", "/openapi.json").body)
    assert schema["openapi"].startswith("3.")
    assert {"Run", "Attempt", "Node", "Why", "Error"} <= schema["components"]["schemas"].keys()


def test_errors_have_one_form_whatever_the_status(plane: Served) -> None:
    transport = plane.transport()
    for method, path, body, code in (
        ("GET", "/runs/nothing", None, "not_found"),
        ("GET", "/nowhere", None, "not_found"),
        ("DELETE", "/runs", None, "method_not_allowed"),
        ("POST", "/runs", b"{", "invalid_input"),
        ("POST", "/runs", b'{"sauce": 1}', "invalid_input"),
        ("GET", "/runs?limit=0", None, "invalid_input"),
    ):
        with pytest.raises(TarmacError) as refused:
            transport.request(method, path, body=body)
        assert refused.value.code == code
        assert refused.value.message


def test_what_nobody_expected_is_no_traceback(plane: Served) -> None:
    """A defect of ours answers in the same form, and names the log."""
    plane.store.fail_before(plane.store.writes + 1, RuntimeError("a defect"))
    with pytest.raises(TarmacError) as refused:
        plane.client().submit(HELLO)
    assert "tarmac itself failed (RuntimeError)" in refused.value.message
    assert str(plane.home.log) in (refused.value.hint or "")
    assert refused.value.exit_code == 1


def test_problems_keep_their_places_over_http(plane: Served) -> None:
    with pytest.raises(InvalidInput) as refused:
        plane.client().submit("command: echo\nslotz: 1\npriorty: 2\n", filename="two.yaml")
    assert [problem.line for problem in refused.value.problems] == [2, 3]
    with pytest.raises(NotFound):
        plane.client().run("nothing")


def test_another_version_is_told_once_and_how_to_restart(tmp_path: Path) -> None:
    told: list[str] = []
    with served(tmp_path / "home", version="0.0.1") as old:
        client = old.client(on_notice=told.append)
        client.version()
        client.nodes()
    [text] = told
    assert "0.0.1" in text
    assert "`tarmac server stop` ends it without touching its runs" in text


def test_without_anybody_listening_another_version_is_a_warning(tmp_path: Path) -> None:
    with served(tmp_path / "home", version="0.0.1") as old, pytest.warns(UserWarning, match=r"0\.0\.1"):
        old.client().version()


class Away:
    """An engine whose nodes keep artifacts at a site that cannot be reached."""

    def artifact_files(self, system_user: str | None = None) -> StoreFiles:
        return self

    def read(self, name: str, *, offset: int, limit: int) -> bytes | None:
        raise Unavailable("login: Connection refused")

    def write(self, name: str, begin: int, content: bytes, *, last: bool) -> None:
        raise Unavailable("login: Connection refused")

    def listing(self, prefix: str) -> Sequence[tuple[str, int, float]]:
        raise Unavailable("login: Connection refused")

    def remove(self, names: Sequence[str]) -> None:
        raise Unavailable("login: Connection refused")


def test_a_list_of_artifacts_says_what_is_missing(plane: Served) -> None:
    plane.keepers["site"] = Away()
    plane.store.create_runs([new_run("r1", name="digits", target=Target(cluster="site"))])
    notices: list[str] = []
    assert plane.client(on_notice=notices.append).artifacts("r1") == []
    assert notices == ["what cluster site keeps of digits is not all here yet: login: Connection refused"]
