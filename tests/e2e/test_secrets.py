"""Secrets end to end: sought everywhere and found nowhere, `***` where a worker prints one."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from determined_calls import DeterminedCalls
from determined_experiments import SINGLE, create
from images import busybox_image, registry
from shell import LOOK_AGAIN_S, Screen, Shell
from tarmac.client import Client

MARK = uuid.uuid4().hex[:8]
"""Of this process alone: others may run the same tests beside it, on the same machine."""

VALUE = f"wandb/s3cret+{MARK}=="
BODY = f"b3BlbnNzaC1rZXktdjEAAAAABG5v{MARK}\nAAAAAAAAAAAAAAAAAAAAAAAAAAAB{MARK}\n"
KEY = f"-----BEGIN KEY-----\n{BODY}-----END KEY-----\n"
FORMS = [VALUE, base64.b64encode(VALUE.encode()).decode().rstrip("="), *KEY.splitlines()[1:3]]
FORMS += [json.dumps(KEY)[1:-1]]
MEMORY = Path("/dev/shm")

RUN = """name: quiet
secrets: {WANDB_API_KEY: wandb, NETRC: {name: netrc, as: file, path: /secrets/netrc}}
setup: [test -n "$WANDB_API_KEY"]
command: |
  printf %s "$WANDB_API_KEY" | sha256sum
  sha256sum < "$NETRC"
  stat -c %a "$NETRC"
  read line < ../../../../../../../gate
"""

LOUD = """name: loud
secrets: {WANDB_API_KEY: wandb, NETRC: {name: netrc, as: file}}
command: |
  echo "key: $WANDB_API_KEY"; printf %s "$WANDB_API_KEY" | base64 -w0; echo; cat "$NETRC"
  printf 'torn: %.9s' "$WANDB_API_KEY"; printf '%s\\n' "${WANDB_API_KEY:9}"
  exit 3
"""


def with_secrets(shell: Shell) -> None:
    shell.tarmac("secret", "set", "wandb", stdin=f"{VALUE}\n", code=0)
    shell.write("netrc", KEY)
    shell.tarmac("secret", "set", "netrc", "--file", "netrc", code=0)
    (shell.directory / "netrc").unlink()


def found_in(text: str) -> list[str]:
    return [form for form in FORMS if form in text]


def files_with_secrets(home: Path) -> Iterator[str]:
    """The files below the home that hold a secret, in whatever form."""
    for directory, _, names in os.walk(home):
        for name in names:
            path = Path(directory, name)
            if path.is_file() and found_in(path.read_bytes().decode("latin-1")):
                yield str(path.relative_to(home))


def secrets_in_memory() -> list[Path]:
    """The files of attempts in memory that hold a secret."""
    found = []
    for directory, _, names in os.walk(MEMORY):
        for path in (Path(directory, name) for name in names if "/tarmac-" in directory):
            with contextlib.suppress(OSError):  # of another test, gone since
                if path.is_file() and found_in(path.read_bytes().decode("latin-1")):
                    found.append(path)
    return found


def arguments_of_all() -> str:
    """The arguments of every process there is."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                found.append((process / "cmdline").read_bytes().decode("latin-1"))
            except OSError:
                continue  # it has ended
    return "\n".join(found)


def told(shell: Shell, run: str) -> str:
    """Everything that can be asked about a run."""
    asked = [
        *(("show", run, "--json"), ("show", run), ("show", run, "--source"), ("why", run, "--json")),
        *(("logs", run), ("logs", run, "--json"), ("ls", "--json"), ("queue", "--json"), ("why", run)),
        *(("secret", "ls"), ("secret", "ls", "--json"), ("run", "--clone", run, "--dry-run", "--json")),
        *(("run", "run.yaml", "--dry-run"), ("convert", "run.yaml"), ("check", "run.yaml", "--json")),
    ]
    results = [shell.tarmac(*arguments) for arguments in asked]
    return "\n".join(result.stdout + result.stderr for result in results)


def test_a_secret_is_found_nowhere(shell: Shell) -> None:
    """N4: not in the database, files, arguments, logs, JSON and exports, during the run and after it."""
    with_secrets(shell)
    shell.gate()
    shell.write("run.yaml", RUN.replace("../../../../../../../gate", str(shell.home.parent / "gate")))
    run = shell.tarmac("run", "run.yaml", "-d", code=0).stdout.strip()
    digests = [hashlib.sha256(value.encode()).hexdigest() for value in (VALUE, KEY)]
    written = ""
    while not written.endswith("600\n"):
        written = shell.tarmac("logs", run, code=0).stdout
        assert shell.json("show", run)["run"]["state"] != "ended", told(shell, run)
        Event().wait(LOOK_AGAIN_S)
    assert all(digest in written for digest in digests)
    assert len(secrets_in_memory()) == 1
    assert list(files_with_secrets(shell.home)) == []
    assert found_in(arguments_of_all()) == []
    assert found_in(told(shell, run)) == []
    with (shell.home.parent / "gate").open("w") as gate:
        gate.write("go\n")
    assert shell.tarmac("wait", run).returncode == 0
    assert list(files_with_secrets(shell.home)) == []
    assert found_in(told(shell, run)) == []
    assert [use["name"] for use in shell.json("show", run)["run"]["spec"]["secrets"]] == ["wandb", "netrc"]
    assert secrets_in_memory() == []


def test_a_worker_that_prints_a_secret_shows_stars(shell: Shell) -> None:
    """N4: to followers, in logs, in last lines and reasons; after the secret was changed and removed, too."""
    with_secrets(shell)
    shell.write("run.yaml", LOUD)
    followed = shell.tarmac("run", "run.yaml", code=3)
    assert followed.stdout == "key: ***\n***\n***\ntorn: ***\n"
    (log,) = files_with_secrets(shell.home)
    assert log.endswith("logs/main.0.0.log"), "but for what the worker itself wrote"
    said = told(shell, "loud")
    assert found_in(said + followed.stderr) == []
    assert "key: ***" in said
    assert "key: ***" in shell.json("show", "loud")["run"]["cause"]["tail"]
    shell.tarmac("secret", "set", "wandb", stdin="another-value-1", code=0)
    assert shell.tarmac("logs", "loud", "--tail", "1", code=0).stdout == "torn: ***\n"
    for name in ("wandb", "netrc"):
        shell.tarmac("secret", "rm", name, code=0)
    assert shell.tarmac("logs", "loud", code=0).stdout == followed.stdout
    shell.tarmac("secret", "rm", "wandb", "--purge", code=0)
    assert VALUE in shell.tarmac("logs", "loud", code=0).stdout


def test_a_retry_gets_the_new_value(shell: Shell) -> None:
    shell.tarmac("secret", "set", "k", stdin="first-value", code=0)
    gate = shell.gate()
    script = f'printf %s "$K" | md5sum; read line < {gate}; test $TARMAC_ATTEMPT = 2'
    command = ["run", "-d", "--secret", "K=k", "--retries", "1", "--", "bash", "-c", script]
    run = shell.tarmac(*command, code=0).stdout.strip()
    for value in ("first-value", "second-value"):
        digest = hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()
        while digest not in shell.tarmac("logs", run, code=0).stdout:
            assert shell.json("show", run)["run"]["state"] != "ended"
            Event().wait(LOOK_AGAIN_S)
        shell.tarmac("secret", "set", "k", stdin="second-value", code=0)
        with gate.open("w") as opened:
            opened.write("go\n")
    assert shell.tarmac("wait", run).returncode == 0


def test_the_nearest_owner_gives_the_value_and_stays_the_same(shell: Shell) -> None:
    """N16: of a user, a project and everyone; a run that waits keeps the secret of its submission."""
    shell.tarmac("secret", "set", "k", "--shared", stdin="for-everyone", code=0)
    gate = shell.gate()
    script = f'read line < {gate}; printf %s "$K" | md5sum'
    shell.write("run.yaml", json.dumps({"name": "waits", "secrets": {"K": "k"}, "command": script}))
    shell.tarmac("run", "run.yaml", "-d", code=0)
    shell.tarmac("pause", "--wait", "waits", code=0)
    once = [
        "run",
        "--secret",
        "K=k",
        "--set",
        "project=vision",
        "--",
        "bash",
        "-c",
        'printf %s "$K" | md5sum',
    ]
    for value, options in (("of-the-project", ["--project", "vision"]), ("of-the-user", [])):
        shell.tarmac("secret", "set", "k", *options, stdin=value, code=0)
        digest = hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()
        assert digest in shell.tarmac(*once, code=0).stdout
    shell.tarmac("resume", "waits", code=0)
    with gate.open("w") as opened:
        opened.write("go\n")
    assert shell.tarmac("wait", "waits").returncode == 0
    assert (
        hashlib.md5(b"for-everyone", usedforsecurity=False).hexdigest()
        in shell.tarmac("logs", "waits").stdout
    )
    scopes = [each["scope"] for each in shell.json("secret", "ls")["secrets"]]
    assert [scope.partition(":")[0] for scope in sorted(scopes)] == ["", "project", "user"]


def test_the_owner_uses_them_by_the_token_and_through_the_gateway(shell: Shell) -> None:
    """One person has one set of secrets, whatever the connection."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ours, gateway = one.getsockname()[1], other.getsockname()[1]
    shell.home.mkdir(mode=0o700, exist_ok=True)
    settings = f'[server]\nlisten = "127.0.0.1:{ours}"\n[determined]\nlisten = "127.0.0.1:{gateway}"\n'
    (shell.home / "settings.toml").write_text(settings)
    shell.tarmac("secret", "set", "k", stdin=VALUE, code=0)
    with Client(f"http://127.0.0.1:{ours}", home=shell.home) as client:
        run = client.submit('secrets: {K: k}\ncommand: test -n "$K"\n')
        assert (run.user, client.wait(run.id).outcome) == ("api", "completed")
    calls = DeterminedCalls(gateway)
    login = {"username": "determined", "password": "", "isHashed": True}
    calls.token = calls.post("/api/v1/auth/login", login)[1]["token"]
    config = f'{SINGLE}environment: {{environment_variables: ["K=${{{{ secrets.k }}}}"]}}\n'
    assert create(calls, config)["username"] == "determined"


def test_a_secret_that_is_not_there_is_refused_with_the_nearest(shell: Shell) -> None:
    shell.tarmac("secret", "set", "wandb", stdin=VALUE, code=0)
    shell.write("run.yaml", "secrets: {WANDB_API_KEY: wanbd}\ncommand: echo hello\n")
    refused = shell.tarmac("run", "run.yaml", code=2)
    assert "there is no secret 'wanbd'" in refused.stderr
    assert "did you mean wandb?" in refused.stderr
    assert shell.json("ls")["runs"] == []


def test_a_secret_that_a_run_is_to_be_given_is_not_removed_unless_forced(shell: Shell) -> None:
    shell.tarmac("secret", "set", "k", stdin=VALUE, code=0)
    gate = shell.gate()
    shell.write("run.yaml", f"secrets: {{K: k}}\ncommand: read line < {gate}\nname: waits\n")
    shell.tarmac("run", "run.yaml", "-d", code=0)
    shell.wait_until("waits", "running")
    refused = shell.tarmac("secret", "rm", "k")
    assert refused.returncode != 0
    assert "waits" in refused.stderr
    shell.tarmac("pause", "--wait", "waits", code=0)
    shell.tarmac("secret", "rm", "k", "--force", code=0)
    shell.tarmac("resume", "waits", code=0)
    shell.wait_until("waits", "ended")
    cause = shell.json("show", "waits")["run"]["cause"]
    assert "there is no secret 'k' any more" in cause["message"]


def test_a_value_is_typed_without_an_echo_and_never_an_argument(shell: Shell) -> None:
    with Screen(shell, "secret", "set", "k") as screen:
        screen.wait_for("value of k")
        screen.press(f"{VALUE}\n")
        screen.wait_for("k is set")
        assert VALUE not in screen.text
    refused = shell.tarmac("secret", "set", "k", VALUE, code=2)
    assert VALUE not in refused.stdout + refused.stderr
    assert "never given as an argument" in refused.stderr
    script = f'test "$K" = "{VALUE}"'
    assert shell.tarmac("run", "--secret", "K=k", "--", "bash", "-c", script).returncode == 0


@pytest.mark.heavy
def test_every_secret_with_a_form_goes_into_every_mcli_run(shell: Shell) -> None:
    """The kinds of MCLI: env, mounted, git-ssh, s3, docker."""
    forms = {"env": ["--as", "variable", "--variable", "HF_TOKEN"], "m-1": ["--as", "file"]}
    forms |= {kind: ["--as", kind] for kind in ("git", "s3", "docker")} | {"plain": []}
    for name, form in forms.items():
        shell.tarmac("secret", "set", name, *form, stdin=f"value-of-{name}", code=0)
    command = (
        'echo "$HF_TOKEN" | md5sum; md5sum < $SECRET_PATH_M_1; echo $SECRET_PATH_M_1; '
        "md5sum < $AWS_CONFIG_FILE; md5sum < $AWS_SHARED_CREDENTIALS_FILE; "
        "md5sum < $DOCKER_CONFIG/config.json; set -- $GIT_SSH_COMMAND; echo $1; md5sum < $3"
    )
    file = {"name": "m", "image": "x", "compute": {"cpus": 1}, "command": command}
    shell.write("m.yaml", json.dumps(file))
    done = shell.tarmac("run", "m.yaml", "--dialect", "mcli", "--no-container", code=0)
    printed = done.stdout.replace("  -", "").split("\n")

    def digest(text: str) -> str:
        return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()

    assert printed[0] == digest("value-of-env\n")
    assert printed[1] == digest("value-of-m-1")
    assert printed[2] == "/secrets/m-1/secret" or printed[2].startswith("/dev/shm/")
    assert printed[3:6] == [digest("value-of-s3")] * 2 + [digest("value-of-docker")]
    assert printed[6:8] == ["ssh", digest("value-of-git")]


def test_the_hints_at_a_private_image_work_for_the_file_of_any_system(shell: Shell) -> None:
    """M6: what the message of a failed pull names are commands that work as they are printed."""
    with registry(images={"team/own:1": busybox_image()}, login=("ada", "lovelace")) as double:
        image = f"{double.address}/team/own:1"
        for file, fields in (
            ("own.yaml", f"name: own\nenvironment: {{image: '{image}'}}\n"),
            ("mcli.yaml", f"run_name: own\nimage: {image}\nplatform: local\n"),
        ):
            shell.write(file, f"{fields}command: echo pulled\n")
            refused = shell.tarmac("run", file, code=1).stderr
            assert f"tarmac images pull {image}, with --secret NAME" in refused
            assert "give it to the run by `--secret NAME`" in refused
            shell.tarmac("secret", "set", "team", "--as", "registry", stdin="ada:lovelace", code=0)
            assert "pulled" in shell.tarmac("run", file, "--secret", "team", code=0).stdout
            shell.tarmac("images", "rm", image, code=0)
            shell.tarmac("secret", "rm", "team", code=0)
