"""How git is called with names that others wrote: hostile ones are refused, nothing around it counts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tarmac.artifacts.code.git import joined
from tarmac.node.files import gitrules
from tarmac.node.files.gitrules import GitRules, Refused

SAFE = GitRules()
ALL = GitRules(transports=("https", "ssh", "http", "file"))


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/team/digits.git",
        "https://example.org:8443/~ada/digits",
        "git@example.org:team/digits.git",
        "git@example.org:/srv/git/digits.git",
        "example.org:digits.git",
        "ssh://git@example.org:2222/team/digits.git",
    ],
)
def test_c6_repositories_over_https_and_ssh(url: str) -> None:
    assert gitrules.check_url(url, SAFE) == url


@pytest.mark.parametrize(
    ("url", "rules"),
    [
        ("ext::sh -c id", ALL),
        ("ext::sh", ALL),
        ("fd::17/x", ALL),
        ("-oProxyCommand=id", ALL),
        ("-oProxyCommand=id:x", ALL),
        ("ssh://-oProxyCommand=id/x", ALL),
        ("ssh://git@-oProxyCommand=id/x", ALL),
        ("git@-host:x", ALL),
        ("-u@host:x", ALL),
        ("host:-x", ALL),
        ("host:/x", ALL),
        ("file:/x", ALL),
        ("git@host://x", ALL),
        ("--upload-pack=id", ALL),
        ("/etc", ALL),
        ("../other", ALL),
        ("https://example.org", ALL),
        ("https://example.org/a\nb", ALL),
        ("https://example.org/a\x00", ALL),
        ("https://example.org/a b", ALL),
        ("https://example.org/ä", ALL),
        ("git://example.org/a", ALL),
        ("ftp://example.org/a", ALL),
        ("http::https://example.org/a", ALL),
        ("http://example.org/a", SAFE),
        ("file:///srv/a", SAFE),
        ("https://example.org/" + "a" * 3000, ALL),
        ("https://ada:hunter2@example.org/a", ALL),
        ("https://hunter2@example.org/a", ALL),
    ],
)
def test_must_show_5_everything_else_is_refused(url: str, rules: GitRules) -> None:
    with pytest.raises(Refused) as refused:
        gitrules.check_url(url, rules)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["-x", "--upload-pack=id", "a..b", "a b", "a\n", "a@{1}", "", "a.lock", "a~1"]
)
def test_options_and_expressions_are_no_branches(name: str) -> None:
    with pytest.raises(Refused):
        gitrules.check_reference(name)
    with pytest.raises(Refused):
        gitrules.check_commit(name)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("fatal: https://ada:x@h/a not found", "fatal: https://***@h/a not found"),
        ("https://token@h/a", "https://***@h/a"),
        ("ssh://git@h/a and ssh://git:x@h/a", "ssh://git@h/a and ssh://***@h/a"),
        ("git@h:a", "git@h:a"),
    ],
)
def test_secrets_in_urls_are_not_shown(line: str, shown: str) -> None:
    assert gitrules.without_secrets(line) == shown


def test_what_is_configured_around_git_does_not_count(tmp_path: Path) -> None:
    """No configuration of a user, no hook, no template, no helper; dangerous transports stay closed."""
    proof = tmp_path / "proof"
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ada\n"
        f'[alias]\n\trev-parse = "!touch {proof}"\n[core]\n\tfsmonitor = "touch {proof}"\n'
        f'\tsshCommand = "touch {proof}"\n[credential]\n\thelper = "!touch {proof}"\n'
        f'[url "ext::touch {proof}"]\n\tinsteadOf = https://example.invalid/\n[protocol]\n\tallow = always\n'
    )
    around = {**os.environ, "HOME": str(home), "GIT_SSH_COMMAND": f"touch {proof}", "GIT_CONFIG_COUNT": "0"}
    env = gitrules.environment(GitRules(transports=("https",)), around)
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "bare")], check=True)
    for arguments in (
        ("ls-remote", "--", "https://example.invalid/a"),
        ("ls-remote", "--", f"ext::touch {proof}"),
        ("ls-remote", "--", f"file://{tmp_path}/bare"),
        ("config", "--get", "user.name"),
        ("ls-remote", "--", "ssh://git@127.0.0.1:1/a"),
    ):
        done = subprocess.run(
            gitrules.argv(*arguments), cwd=tmp_path, env=env, capture_output=True, check=False
        )
        assert done.returncode != 0, arguments
        assert not proof.exists(), (arguments, done.stderr)


def test_ssh_is_called_so_that_it_asks_nobody_and_knows_its_hosts(tmp_path: Path) -> None:
    """The very options of a real call, seen by a stand-in for ssh."""
    seen = tmp_path / "seen"
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {seen}\nexit 255\n')
    ssh.chmod(0o755)
    rules = GitRules(key="/keys/deploy key", known="/keys/known hosts")
    env = gitrules.environment(rules, {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    subprocess.run(
        gitrules.argv("ls-remote", "--", "git@example.org:a.git"),
        cwd=tmp_path,
        env=env,
        capture_output=True,
        check=False,
    )
    said = seen.read_text().splitlines()
    assert {"-oStrictHostKeyChecking=yes", "-oBatchMode=yes", "-oProxyCommand=none"} <= set(said)
    assert '-oUserKnownHostsFile="/keys/known hosts"' in said
    assert said[said.index("-i") + 1] == "/keys/deploy key"
    assert said[said.index("-F") + 1] == os.devnull


@pytest.mark.parametrize(
    ("parent", "relative", "url"),
    [
        ("https://h/org/a.git", "../b.git", "https://h/org/b.git"),
        ("https://h/org/a", "./sub", "https://h/org/a/sub"),
        ("git@h:org/a.git", "../../b", "git@h:b"),
        ("git@h:a.git", "../b", "git@h:b"),
        ("git@h:/srv/a.git", "../b", "git@h:/srv/b"),
    ],
)
def test_urls_of_submodules_relative_to_their_repository(parent: str, relative: str, url: str) -> None:
    assert joined(parent, relative) == url
