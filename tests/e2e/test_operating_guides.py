"""The guides for administrators do what they say; every message of the one on troubleshooting is provoked."""

from __future__ import annotations

import re
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import make_url

from guides import Reader, matches, newcomer, page
from postgres import Missing, Server, running_server
from tarmac.store.schema import BASE

pytestmark = [pytest.mark.timeout(600), pytest.mark.heavy]

STATE = ".local/state/tarmac"
SCHEMA = Path(__file__).parents[1] / f"contract/schemas/{BASE}.sqlite.sql"
OLD_RUN = f"""
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL);
INSERT INTO alembic_version VALUES ('{BASE}');
INSERT INTO run (id, seq, state, name, project, user_name, dialect, priority, slots, attempt, created_at,
 failures, faults, preemptions)
 VALUES ('r1', 2, 'queued', 'hello', 'default', 'ada', 'native', 0, 0, 0, 1.0, 0, 0, 0);
INSERT INTO run_spec VALUES
 ('r1', '{{"name":"hello","roles":[{{"processes":[{{"command":{{"argv":["true"]}}}}]}}]}}');
INSERT INTO event (run_id, seq, at, event, state) VALUES ('r1', 1, 1.0, 'accepted', 'pending');
INSERT INTO event (run_id, seq, at, event, state) VALUES ('r1', 2, 1.0, 'staged', 'queued');
"""
"""A run that waits, as the oldest version kept it."""

LAB = r"""printf '[server]\nlisten = "0.0.0.0:8443"\ntls = "lab"\nrequests_per_minute = 2\n'"""

NEWER = "UPDATE alembic_version SET version_num = 9999"

PROVOKED = f"""
tarmac run --slots 99 -- true
tarmac run --cluster nowhere -- true
printf 'slotz: 2\\ncommand: true\\n' > slotz.yaml; tarmac run slotz.yaml
tarmac run --secret NOT_SET -- true
tarmac run .
tarmac run --detach --slots 8 --name all -- sleep 600; tarmac run --detach --slots 4 --name late -- true
tarmac why late; tarmac stop all late --wait
tarmac nodes drain $(hostname); tarmac run --detach --slots 1 --name idle -- true
tarmac why idle; tarmac nodes undrain $(hostname); tarmac wait idle
tarmac clusters add far --engine ray --address 127.0.0.1:1 --set directory=$PWD/far
tarmac run --detach --cluster far --name away -- true; tarmac why away; tarmac stop away --wait
tarmac run --name three -- sh -c 'exit 3'
tarmac run -- no-such-program
tarmac run -- sh -c 'kill -9 $$'
printf 'setup: [exit 4]\\ncommand: true\\n' > setup.yaml; tarmac run setup.yaml
tarmac run --time-limit 1s -- sleep 600
tarmac resume three
tarmac run --name lost --detach -- sh -c 'echo $PPID > {STATE}/runner; sleep 600'
tarmac run --clone lost --resume; tarmac rm --yes lost
tarmac show no-such-run; tarmac show r; tarmac exec three -- true; tarmac squeue
tarmac stop --all --yes --wait
python -m tarmac.server
TARMAC_URL=127.0.0.1:1 tarmac ls; TARMAC_URL=http://127.0.0.1:1 tarmac ls
kill -STOP $(cat {STATE}/server.lock); tarmac ls; kill -CONT $(cat {STATE}/server.lock)
tarmac server stop
tarmac users add ada; tarmac server stop
{LAB} > {STATE}/settings.toml; tarmac server start
TARMAC_CA={STATE}/tls/ca.pem TARMAC_URL=https://127.0.0.2:8443 tarmac ls
TARMAC_URL=http://127.0.0.1:8443 tarmac ls
curl --cacert {STATE}/tls/ca.pem --header 'Host: alias' https://127.0.0.1:8443/healthz
curl --cacert {STATE}/tls/ca.pem https://127.0.0.1:8443/healthz https://127.0.0.1:8443/healthz
tarmac server stop
printf '[server]\\ntls_certificate = "/no.pem"\\ntls_key = "/no.key"\\n' > {STATE}/settings.toml
python -m tarmac.server --listen 0.0.0.0:8443; rm {STATE}/settings.toml
cp -a {STATE} copy; TARMAC_HOME=$PWD/copy tarmac server start
python -m tarmac.server --listen 0.0.0.0:8400
mkdir aside; mv {STATE}/tarmac.db* aside; tarmac server start; mv aside/tarmac.db* {STATE}
echo 'lisen = 1' > {STATE}/settings.toml; tarmac server start
printf '[database]\\nurl = "postgresql+psycopg://me@127.0.0.1:1/it"\\n' > {STATE}/settings.toml
tarmac server start
python -c 'import sqlite3; sqlite3.connect("{STATE}/tarmac.db", isolation_level=None).execute("{NEWER}")'
rm {STATE}/settings.toml; tarmac server start
"""
"""What a person types to see each message of the page."""


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Reader]:
    with newcomer(tmp_path / "ada") as reader:
        yield reader


@pytest.mark.parametrize("guide", ["accounts", "backup", "burst", "limits", "reservations", "security"])
def test_a_guide_does_what_it_says(guide: str, admin: Reader) -> None:
    admin.follow(page(f"operating/{guide}.md").replace("8400", str(free_port())))


def test_the_guide_of_an_upgrade_does_what_it_says(admin: Reader) -> None:
    """A run that waited in the home of the oldest version that can be upgraded is done by the new one."""
    home = admin.home / STATE
    home.mkdir(parents=True, mode=0o700)
    with closing(sqlite3.connect(home / "tarmac.db")) as database:
        database.executescript(SCHEMA.read_text() + OLD_RUN)
    admin.follow(page("operating/upgrade.md"))
    admin.expect("tarmac show hello", "...state...completed")


def test_the_guide_of_the_service_does_what_it_says() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # curl takes the paths of sockets as they are
        account = Path(short) / "account"
        with newcomer(account, TARMAC_HOME=f"{account}/home") as admin:
            text = page("operating/service.md").replace("/var/lib/tarmac/home", f"{account}/home")
            text = text.replace("/opt/tarmac/bin/", f"{account}/bin/").replace("8400", str(free_port()))
            if shutil.which("systemd-analyze") is None:
                text = text.replace("$ systemd-analyze verify", "$ cat")
            else:
                (unit,) = re.findall(r"^```ini\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
                admin.write(unit)
                assert admin.run("systemd-analyze verify ./tarmac.service").stdout == ""
            admin.follow(text)


def test_the_options_of_the_server_are_those_of_the_page(admin: Reader) -> None:
    known = set(
        re.findall(r"^  (--[a-z-]+)", admin.run("python -m tarmac.server --help").stdout, re.MULTILINE)
    )
    rows = re.findall(r"^\| `(--[a-z-]+)", page("operating/service.md"), re.MULTILINE)
    assert known == set(rows)


@pytest.mark.postgres
def test_the_guide_of_postgresql_does_what_it_says(admin: Reader, postgres: Server) -> None:
    """N16: made, used, backed up and restored."""
    url = make_url(postgres.create())
    directory, name = str(url.query["host"]), str(url.database)
    variables = {"PGHOST": directory, "PGUSER": str(url.username)}
    admin = replace(admin, environment={**admin.environment, **variables})
    role = f"{name}_role"

    def named(text: str) -> str:
        """The guide, with a role and a database of this test's own."""
        text = text.replace("/var/run/postgresql", directory).replace(
            "createuser tarmac", f"createuser {role}"
        )
        text = text.replace("tarmac@/tarmac", f"{role}@/{name}").replace("--owner tarmac", f"--owner {role}")
        text = text.replace("--username tarmac", f"--username {role}")
        return re.sub(r"(template0|--dbname|dropdb) tarmac", rf"\1 {name}", text)

    admin.expect(f"dropdb {name}", "")
    try:
        admin.follow(named(page("operating/postgresql.md")))
        restore = "".join(
            re.findall(r"^(?:dropdb|tarmac server restore) .*\n", named(page("operating/backup.md")), re.M)
        )
        admin.expect("tarmac server backup backups/monday", "...")
        admin.expect("ls backups/monday", "home.tar.gz\nmanifest.json\ntarmac.dump\n")
        admin.expect("tarmac run --name later -- true", "...")
        admin.expect(f"tarmac server stop; mv {STATE} lost", "...")
        refused = admin.run("tarmac server restore backups/monday")
        assert (refused.returncode, "is not empty" in refused.stdout) == (2, True), refused.stdout
        admin.expect(restore, "restored: ...")
        listed = admin.run("tarmac ls").stdout
        assert "completed" in listed
        assert "later" not in listed
    finally:
        admin.run("tarmac server stop")
        admin.run(f"dropdb --force --if-exists {name}; createdb {name}; dropuser {role}")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    try:
        with running_server() as server:
            yield server
    except Missing as missing:
        pytest.skip(str(missing))


def test_every_message_of_the_page_is_provoked(admin: Reader) -> None:
    """By what is typed here, or by the guides that other tests follow."""
    typed = PROVOKED.replace("8443", str(free_port()))
    printed = "".join(admin.run(line).stdout for line in typed.strip().splitlines())
    printed += "".join(
        page(f"operating/{guide}.md") for guide in ("backup", "reservations", "security", "service")
    )
    rows = re.findall(r"^\| `(.*?)` \|", page("operating/troubleshooting.md"), re.MULTILINE)
    assert len(rows) > 20
    assert [row for row in rows if not matches(row, printed)] == [], printed


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
