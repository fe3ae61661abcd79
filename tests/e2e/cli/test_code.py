"""Code of every kind through the real program: read here, sent elsewhere, unpacked (C7, C8, D9, K9)."""

from __future__ import annotations

import os
import re
import socket
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from shell import Shell

SHOWS = "name: shows\ncommand: find . | sort; ./go\ncode: "
LISTED = "./data\n./data/empty\n./data/x.bin\n./go\n./latest\nwent\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A user whose server listens on a port as well."""
    place = tmp_path_factory.mktemp("code")
    shell = Shell(place / "home", place / "work")
    shell.directory.mkdir()
    shell.home.mkdir(mode=0o700)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (shell.home / "settings.toml").write_text(
        f'[server]\nlisten = "127.0.0.1:{port}"\n[code]\nlimit = "64MiB"\n'
    )
    shell.tarmac("server", "start", code=0)
    (place / "url").write_text(f"http://127.0.0.1:{port}")
    yield shell
    shell.close()


@pytest.fixture
def elsewhere(served: Shell) -> Mapping[str, str]:
    """The variables of somebody whose server is behind a URL."""
    place = served.home.parent
    return {
        "TARMAC_URL": (place / "url").read_text(),
        "TARMAC_TOKEN": (served.home / "token").read_text().strip(),
        "XDG_CACHE_HOME": str(place / "cache"),
    }


@pytest.fixture
def project(served: Shell, request: pytest.FixtureRequest) -> Path:
    """A directory to bring, named after the test."""
    directory = served.directory / re.sub(r"\W", "-", request.node.name)
    (directory / "data" / "empty").mkdir(parents=True)
    (directory / "data" / "x.bin").write_bytes(os.urandom(1000))
    (directory / "go").write_text("#!/bin/sh\necho went\n")
    (directory / "go").chmod(0o755)
    (directory / "latest").symlink_to("data/x.bin")
    return directory


def outcome(shell: Shell, variables: Mapping[str, str], *arguments: str) -> tuple[int, str, str]:
    """The exit code of a command, what it said, and its errors."""
    process = shell.start(*arguments, variables=variables)
    said, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors, errors
    return process.returncode, said, errors


def test_a_clone_with_an_environment_of_any_name_runs(served: Shell, project: Path) -> None:
    """D9: the links of a Python environment lead out of the directory; no ignore file names it."""
    venv.create(project / "work-env", symlinks=True)
    (project / ".gitignore").write_text("*.log\n")
    file = served.write("environment.yaml", SHOWS + project.name)
    out = served.tarmac("run", file, code=0).stdout
    assert out == f".\n./.gitignore\n{LISTED}"


def test_a_directory_reaches_a_run_of_a_server_elsewhere_as_it_is_c7(
    served: Shell, elsewhere: Mapping[str, str], project: Path
) -> None:
    file = served.write("send.yaml", SHOWS + project.name)
    assert outcome(served, elsewhere, "run", file)[:2] == (0, f".\n{LISTED}")


def test_what_an_ignore_file_and_exclusions_name_stays_behind_d9_k9(
    served: Shell, elsewhere: Mapping[str, str], project: Path
) -> None:
    (project / ".detignore").write_text("data/\n")
    code = f"{{path: {project.name}, ignore_file: .detignore, exclude: [.detignore, latest]}}"
    file = served.write("leaves.yaml", SHOWS + code)
    for variables in ({}, elsewhere):
        assert outcome(served, variables, "run", file)[:2] == (0, ".\n./go\nwent\n")


def test_too_much_is_refused_before_anything_is_sent_d9(
    served: Shell, elsewhere: Mapping[str, str], project: Path
) -> None:
    (project / "model.bin").write_bytes(bytes(2 << 20))
    file = served.write("large.yaml", f"{SHOWS}{{path: {project.name}, limit: 1MiB}}")
    code, _, errors = outcome(served, elsewhere, "run", file)
    assert code == 2
    assert "holds 2.0 MiB of code, more than the 1.0 MiB allowed" in errors
    assert "model.bin (2.0 MiB)" in errors


@pytest.mark.parametrize("ending", ["zip", "tar.gz"])
def test_an_archive_is_code_here_and_elsewhere_c7(
    served: Shell, elsewhere: Mapping[str, str], project: Path, ending: str
) -> None:
    archive = f"{project.name}.{ending}"
    with tarfile.open(served.directory / archive, "w:gz") as made:
        made.add(project, arcname=".")
    if ending == "zip":
        with zipfile.ZipFile(served.directory / archive, "w") as packed:
            for path in sorted(project.rglob("*")):
                info = zipfile.ZipInfo.from_file(path, str(path.relative_to(project)))
                info.external_attr = path.lstat().st_mode << 16
                content = os.readlink(path).encode() if path.is_symlink() else None  # noqa: PTH115
                packed.writestr(info, content or (path.read_bytes() if path.is_file() else b""))
    file = served.write(f"{archive}.yaml", SHOWS + archive)
    for variables in ({}, elsewhere):
        assert outcome(served, variables, "run", file)[:2] == (0, f".\n{LISTED}")


def test_a_hostile_archive_ends_the_run_with_one_clear_error_c7(
    served: Shell, elsewhere: Mapping[str, str], project: Path
) -> None:
    evil = served.directory / "evil.tar"
    with tarfile.open(evil, "w") as made:
        made.add(project / "go", arcname="../../../evil")
    file = served.write("evil.yaml", SHOWS + evil.name)
    around = set(served.home.parent.rglob("evil*"))
    code, _, errors = outcome(served, elsewhere, "run", file)
    assert code == 2
    assert "'../../../evil' leads out of the directory" in errors
    code, _, errors = outcome(served, {}, "run", file)
    assert code != 0
    assert "'../../../evil' leads out of the directory" in errors
    assert set(served.home.parent.rglob("evil*")) == around


def test_a_run_cannot_change_what_the_next_one_finds_c8(served: Shell, project: Path) -> None:
    """C8: each process starts in a fresh copy, which stays after the end."""
    (project / "go").write_text("#!/bin/sh\necho went\necho changed >> go\nrm -r data\n")
    file = served.write("fresh.yaml", f"name: fresh\ncommand: cat go && ./go\ncode: {project.name}\n")
    first, second = (outcome(served, {}, "run", file) for _ in range(2))
    assert first[:2] == second[:2]
    works = sorted(served.home.glob("runs/*/attempts/1/nodes/*/work/go"))
    changed = [
        path for path in works if path.read_text().endswith("echo changed >> go\nrm -r data\nchanged\n")
    ]
    assert len(changed) == 2


def test_two_runs_are_compared(settled: Shell) -> None:
    program = "import os, tarmac; tarmac.report(step=1, loss=float(os.environ['LR']))\n"
    settled.write("one/train.py", program)
    settled.write("two/train.py", program + "raise SystemExit(3)\n")
    for name, lr, code in (("one", "0.1", 0), ("two", "0.2", 3)):
        text = f"slots: 1\nenv: {{LR: '{lr}'}}\ncode: .\ncommand: {sys.executable} train.py\n"
        settled.write(f"{name}/run.yaml", text)
        settled.tarmac("run", f"{name}/run.yaml", "--name", name, "--priority", str(code), code=code)
    found = settled.json("diff", "one", "two")
    assert [(item["path"], item["change"]) for item in found["code"]] == [
        ("run.yaml", "changed"),
        ("train.py", "changed"),
    ]
    assert found["variables"] == [{"key": "LR", "values": ["0.1", "0.2"]}]
    assert {"key": "loss", "values": [0.1, 0.2]} in found["metrics"]
    assert {"key": "priority", "values": [None, 3]} in found["spec"]
    assert {"key": "state", "values": ["completed", "failed"]} in found["outcome"]
    text = settled.tarmac("diff", "one", "two", code=0).stdout
    assert "changed  train.py" in text
    assert "LR" in text
    same = settled.tarmac("diff", "one", "one", code=0)
    assert (same.stdout, "do not differ" in same.stderr) == ("", True)


def test_a_run_may_bring_variables_from_files_and_no_code(settled: Shell) -> None:
    settled.write("here", "text\n")
    settled.write("print.yaml", "code: .\nenv: {A: file, B: file}\ncommand: echo $A $B $C; ls\n")
    settled.write("some.env", "export B=env-file # note\nC='of two words'\n")
    ran = settled.tarmac(
        "run", "-f", "print.yaml", "--env-file", "some.env", "-e", "A=option", "--no-code", code=0
    )
    assert ran.stdout == "option env-file of two words\n"
    assert "here" in settled.tarmac("run", "print.yaml", code=0).stdout.split()
    settled.write("bad.env", "A=1\nB=hunter2 with space and\nnonsense: hunter2\n")
    refused = settled.tarmac("run", "print.yaml", "--env-file", "bad.env", code=2)
    assert "error: bad.env:3: " in refused.stderr
    assert "hunter2" not in refused.stderr
    for wrong in (["a.yaml", "-f", "b.yaml"], ["print.yaml", "--code", ".", "--no-code"]):
        settled.tarmac("run", *wrong, code=2)
