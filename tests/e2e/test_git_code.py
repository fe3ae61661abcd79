"""Code from git repositories as a person meets it: C6, over real servers of git and SSH; hostile URLs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitserver import NO_SSHD, GitServer, Repo, SshServer, http_server, ssh_server
from shell import Shell


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    with http_server(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("sshd") / "keys") as server:
        if server is None:
            pytest.skip(NO_SSHD)
        yield server


@pytest.fixture
def user(shell: Shell) -> Shell:
    """A user whose server may fetch over plain HTTP, as the one on loopback speaks it."""
    settings(shell, 'git_transports = ["https", "ssh", "http"]')
    return shell


def settings(shell: Shell, *lines: str) -> None:
    shell.home.mkdir(exist_ok=True)
    (shell.home / "settings.toml").write_text("\n".join(["[git]", *lines, ""]))


def run_of(shell: Shell, code: str, *, code_of_exit: int | None = 0) -> tuple[str, dict[str, object]]:
    """What a run with this code prints, and its record."""
    shell.write("run.yaml", f"name: digits\ncode: {code}\ncommand: cat train.py\n")
    said = shell.tarmac("run", "run.yaml", code=code_of_exit)
    return said.stdout + said.stderr, shell.json("show", "digits")["run"]


def test_c6_branch_tag_and_commit_long_or_short(user: Shell, served: GitServer) -> None:
    """C6: repo, branch, commit short or long; the whole commit is recorded and shown."""
    repo = Repo.new(served.root / "digits", train_py="first")
    first = repo.git("rev-parse", "HEAD")
    repo.git("tag", "-a", "v1", "-m", "the first")
    repo.git("checkout", "-q", "-b", "feature/x")
    other = repo.commit(train_py="on a branch")
    repo.git("checkout", "-q", "main")
    head = repo.commit(train_py="second")
    url = served.url_of(repo)
    for code, text, commit in (
        (url, "second", head),
        (f"{{git: {url}}}", "second", head),
        (f"{{git: {url}, branch: feature/x}}", "on a branch", other),
        (f"{{git: {url}, branch: v1}}", "first", first),
        (f"{{git: {url}, commit: {first}}}", "first", first),
        (f"{{git: {url}, commit: '{first[:8]}', branch: main}}", "first", first),
    ):
        said, run = run_of(user, code)
        assert text in said, code
        assert run["code_commit"] == commit, code
    assert f"{url} at {first}" in user.tarmac("show", "digits").stdout
    # What has not moved is not fetched again: one question for the tip, and none for a commit.
    served.requests.clear()
    run_of(user, f"{{git: {url}, commit: {first}}}")
    assert served.requests == []
    run_of(user, url)
    assert not any("upload-pack" in request and "info/refs" not in request for request in served.requests[2:])


def test_c6_what_is_not_there_ends_the_run_with_git_s_own_words(user: Shell, served: GitServer) -> None:
    """C6: an unknown branch, commit or repository is named; the cause is code_unreadable."""
    repo = Repo.new(served.root / "names", train_py="x")
    url = served.url_of(repo)
    for code, words in (
        (f"{{git: {url}, branch: nope}}", "has no branch or tag 'nope'"),
        (f"{{git: {url}, commit: {'0' * 40}}}", f"has no commit {'0' * 40}"),
        (f"{{git: {url}, commit: '00000000'}}", "begins with '00000000'"),
        (f"{served.url}/nothing-here", "not found"),
    ):
        said, run = run_of(user, code, code_of_exit=None)
        cause = run["cause"]
        assert isinstance(cause, dict)
        assert (run["outcome"], cause["code"]) == ("failed", "code_unreadable"), code
        assert words in str(cause["message"])
        assert words in said


def test_c6_a_private_repository_by_deploy_key_and_known_host(shell: Shell, ssh: SshServer) -> None:
    """C6: git_private_ssh_key_file_path and git_known_hosts_file_path; an unknown host is refused."""
    repo = Repo.new(shell.directory.parent / "private", train_py="secret work")
    key = f'git_private_ssh_key_file_path = "{ssh.key}"'
    settings(shell, key, f'git_known_hosts_file_path = "{ssh.known_hosts}"')
    said, run = run_of(shell, ssh.url_of(repo))
    assert "secret work" in said
    assert run["code_commit"] == repo.git("rev-parse", "HEAD")
    shell.tarmac("server", "stop", code=0)
    empty = shell.directory / "nobody"
    empty.write_text("")
    settings(shell, key, f'git_known_hosts_file_path = "{empty}"')
    said, run = run_of(shell, ssh.url_of(repo), code_of_exit=None)
    assert run["outcome"] == "failed"
    assert "the host is not among the known hosts" in said
    assert "git_known_hosts_file_path" in said


def test_a_private_repository_by_the_secret_of_a_run(shell: Shell, ssh: SshServer) -> None:
    """A secret given `as: git` opens a run's own code and its checkout steps; other runs are not let in."""
    repo = Repo.new(shell.directory.parent / "sealed", train_py="secret work")
    settings(shell, f'git_known_hosts_file_path = "{ssh.known_hosts}"')
    url = ssh.url_of(repo)
    shell.tarmac("secret", "set", "deploy", "--file", str(ssh.key), code=0)
    given = "secrets: [{name: deploy, as: git}]"
    code, step = f"code: {{git: '{url}'}}", f"setup: [{{git: {{url: '{url}', path: beside}}}}]"
    shell.write("code.yaml", f"name: fetched\n{code}\n{given}\ncommand: cat train.py\n")
    shell.write("step.yaml", f"name: cloned\n{step}\n{given}\ncommand: cat beside/train.py\n")
    for file in ("code.yaml", "step.yaml"):
        assert "secret work" in shell.tarmac("run", file, code=0).stdout, file
    head = repo.git("rev-parse", "HEAD")
    # What one run fetched with its key is not given to another from the cache.
    for without in (code, f"code: {{git: '{url}', commit: {head}}}", step):
        shell.write("without.yaml", f"name: without\n{without}\ncommand: cat train.py\n")
        assert "not accepted" in shell.tarmac("run", "without.yaml", code=None).stderr, without


@pytest.mark.parametrize(
    "code",
    [
        "ext::sh -c 'touch PROOF'",
        "'-oProxyCommand=touch PROOF'",
        "{git: 'ssh://-oProxyCommand=touch%20PROOF/x'}",
        "{git: '-u./x:y'}",
        "{git: 'fd::17'}",
        "{git: 'https://example.org/a b'}",
        '{git: "https://example.org/a\\nb"}',
        "{git: 'https://ada:secret@example.org/a.git'}",
        "{git: 'https://ghp_secret@example.org/a.git'}",
        "{git: 'https://example.org/a', branch: '--upload-pack=touch PROOF'}",
        "{git: 'https://example.org/a', commit: '--output=PROOF'}",
        "{git: 'ftp://example.org/a'}",
    ],
)
def test_hostile_repositories_are_refused_before_anything_runs(user: Shell, code: str) -> None:
    """Must-show 5: option injection, other transports, control characters and secrets: located errors."""
    user.write("run.yaml", f"code: {code}\ncommand: echo\n")
    said = user.tarmac("run", "run.yaml", code=2)
    assert (
        "run.yaml:1:" in said.stderr or "there is no such" in said.stderr or "does not exist" in said.stderr
    )
    assert "secret" not in said.stdout + said.stderr
    assert not list(user.directory.parent.rglob("PROOF"))


def test_hostile_submodules_and_links_do_nothing(user: Shell, served: GitServer) -> None:
    """Must-show 5: what a repository says about submodules is judged as its own URL is."""
    repo = Repo.new(served.root / "hostile", train_py="x", _gitmodules="")
    proof = user.directory / "PROOF"
    (repo.path / ".gitmodules").write_text(
        f'[submodule "a"]\n\tpath = sub\n\turl = ext::sh -c "touch {proof}"\n\tupdate = !touch {proof}\n'
    )
    head = repo.git("rev-parse", "HEAD")
    (repo.path / "out").symlink_to("/etc/hostname")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    repo.git("add", ".gitmodules", "out")
    repo.git("commit", "-q", "-m", "hostile")
    said, run = run_of(user, f"{{git: {served.url_of(repo)}, submodules: true}}", code_of_exit=None)
    assert run["outcome"] == "failed"
    assert "its submodule 'sub': the URL of the repository has blanks" in said
    assert not proof.exists()
    said, run = run_of(user, served.url_of(repo), code_of_exit=None)
    assert run["outcome"] == "failed"
    assert "out is a symbolic link that leaves the directory: /etc/hostname" in said


def test_submodules_come_by_choice(user: Shell, served: GitServer) -> None:
    """C6: with `submodules: true`, relative URLs and nested ones included."""
    inner = Repo.new(served.root / "inner", inner_txt="deep")
    middle = Repo.new(served.root / "middle", middle_txt="between")
    for owner, module, place in ((middle, inner, "nested/inner"), (None, middle, "lib")):
        repo = owner or Repo.new(served.root / "outer", train_py="outer")
        (repo.path / ".gitmodules").write_text(
            f'[submodule "{place}"]\n\tpath = {place}\n\turl = ../{module.path.name}\n'
        )
        commit = module.git("rev-parse", "HEAD")
        repo.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{place}")
        repo.git("add", ".gitmodules")
        repo.git("commit", "-q", "-m", "with a submodule")
    url = f"{served.url}/outer"
    for choice, words in (("true", "deep"), ("false", "nothing")):
        user.write(
            "run.yaml",
            f"name: nested\ncode: {{git: {url}, submodules: {choice}}}\n"
            "command: cat lib/nested/inner/inner.txt || echo nothing\n",
        )
        assert words in user.tarmac("run", "run.yaml", code=0).stdout


def test_a_fetch_that_hangs_holds_up_nobody_and_ends_with_its_run(user: Shell, served: GitServer) -> None:
    """A server that answers nothing: other runs are staged meanwhile, and stopping the run ends its fetch."""
    with http_server(served.root) as silent:
        silent.hold.set()
        user.write("slow.yaml", f"name: slow\ncode: {silent.url}/anything\ncommand: echo\n")
        user.tarmac("run", "--detach", "slow.yaml", code=0)
        assert silent.held.wait(120)
        user.write("own/train.py", "mine")
        user.write("quick.yaml", "name: quick\ncode: own\ncommand: cat train.py\n")
        assert "mine" in user.tarmac("run", "quick.yaml", code=0).stdout
        assert user.json("show", "slow")["run"]["state"] == "pending"
        assert user.tarmac("stop", "--wait", "slow", code=0)
        user.tarmac("server", "stop", code=0)  # returns although the server never answers
        assert not git_processes(user.home)


def git_processes(home: Path) -> list[str]:
    """The command lines of the gits that work below a home."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().decode()
            if line.startswith("git") and str(home) in str((entry / "cwd").readlink()):
                found.append(line)
        except (OSError, ValueError):
            continue
    return found


def test_a_server_that_is_killed_in_a_fetch_fetches_again(user: Shell, served: GitServer) -> None:
    """Durable and idempotent: kill -9 in the midst of it; the next server has the code, and nothing twice."""
    repo = Repo.new(served.root / "killed", train_py="survived")
    with http_server(served.root) as server:
        server.hold.set()
        user.write("run.yaml", f"name: killed\ncode: {server.url_of(repo)}\ncommand: cat train.py\n")
        user.tarmac("run", "--detach", "run.yaml", code=0)
        assert server.held.wait(120)
        os.kill(int((user.home / "server.lock").read_text().split()[0]), signal.SIGKILL)
        server.hold.clear()
        server.released.set()
        user.tarmac("wait", "killed", code=0)
        assert "survived" in user.tarmac("logs", "killed").stdout
        events = [event["event"] for event in user.json("show", "killed", "--events")["events"]]
        assert events.count("staged") == 1
        assert not list((user.home / "repositories").glob(".partial-*"))
