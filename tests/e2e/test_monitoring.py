"""A real Prometheus reads `/metrics`, and a real mail server takes what is sent (N18)."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from attempts import wait_until
from shell import Shell

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(300)]

MAILS = """
table everybody {{ "@" = "{user}" }}
listen on 127.0.0.1 port {port}
action "keep" maildir "{mails}" virtual <everybody>
match from any for any action "keep"
"""
"""Every address has the same mailbox, a directory."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path / "home", tmp_path / "project")
    shell.directory.mkdir()
    shell.home.mkdir(mode=0o700)
    yield shell
    shell.close()


def test_prometheus_counts_the_runs_that_ended(shell: Shell, tmp_path: Path) -> None:
    """Its configuration is the one of docs/operating/monitoring.md, with other ports."""
    program = needed("prometheus")
    ours, theirs = free_port(), free_port()
    (shell.home / "settings.toml").write_text(f'[server]\nlisten = "127.0.0.1:{ours}"\n')
    page = Path(__file__).parents[2] / "docs/operating/monitoring.md"
    scraping, rules = (block.partition("```")[0] for block in page.read_text().split("```yaml\n")[1:3])
    config = scraping.replace("127.0.0.1:8400", f"127.0.0.1:{ours}")
    (tmp_path / "prometheus.yml").write_text(f"global: {{scrape_interval: 1s}}\n{config}")
    (tmp_path / "tarmac.rules.yml").write_text(rules)
    shell.tarmac("run", "--no-code", "--", "true", code=0)
    shell.tarmac("run", "--no-code", "--", "false", code=1)
    options = [f"--web.listen-address=127.0.0.1:{theirs}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
    with running([program, f"--config.file={tmp_path / 'prometheus.yml'}", *options], tmp_path):
        query = urllib.parse.quote('tarmac_runs_ended_total{job="tarmac"}')
        url = f"http://127.0.0.1:{theirs}/api/v1/query?query={query}"

        def counts() -> dict[str, str]:
            with urllib.request.urlopen(url) as answer:
                found = json.load(answer)["data"]["result"]
            return {each["metric"]["outcome"]: each["value"][1] for each in found}

        assert eventually(counts, lambda found: found.get("failed") == "1")["completed"] == "1"
        with urllib.request.urlopen(f"http://127.0.0.1:{theirs}/api/v1/rules") as answer:
            [group] = json.load(answer)["data"]["groups"]
        assert [rule["name"] for rule in group["rules"]] == ["TarmacDown", "TarmacClusterFails"]


@pytest.mark.skipif(os.geteuid() != 0, reason="OpenSMTPD is started by root")
def test_a_mail_server_delivers_what_a_run_asks_for(shell: Shell, tmp_path: Path) -> None:
    program = needed("smtpd")
    port, mails = free_port(), tmp_path / "mails"
    user = pwd.getpwnam("nobody").pw_name
    mails.mkdir()
    shutil.chown(mails, user)
    for parent in mails.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    config = tmp_path / "smtpd.conf"
    config.write_text(MAILS.format(port=port, mails=mails, user=user))
    (shell.home / "settings.toml").write_text(
        f'[notifications]\nsmtp = "127.0.0.1:{port}"\nsmtp_security = "none"\nfrom = "tarmac@lab.example"\n'
    )
    with running([program, "-d", "-f", str(config)], tmp_path):
        shell.tarmac(
            "run", "--no-code", "--name", "digits", "--notify", "ann@lab.example", "--", "false", code=1
        )
        [mail] = eventually(lambda: list(mails.glob("new/*")), bool)
    text = mail.read_text()
    assert "To: ann@lab.example" in text
    assert "has failed" in text
    assert eventually(lambda: shell.json("show", "digits")["notifications"][0]["sent_at"], bool)


def needed(program: str) -> str:
    """The path of a program of a Debian package."""
    path = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
    if path is None:
        pytest.skip(f"there is no {program} on this machine")
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@contextmanager
def running(argv: list[str], directory: Path) -> Iterator[None]:
    with (directory / "output").open("wb") as output:
        process = subprocess.Popen(argv, cwd=directory, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def eventually(question: Callable[[], Any], good: Callable[[Any], object]) -> Any:
    """The first good answer to a question; errors of the network count as none yet."""

    def answer() -> Any:
        try:
            found = question()
        except OSError:
            return None
        return found if good(found) else None

    return wait_until(answer, "there was no good answer in time")
