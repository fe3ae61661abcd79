"""MCLI run files on the command line: run, shown in MCLI's words, overridden, cloned, stopped."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import pages
from shell import Shell

SETTINGS = """
[containers]
use = "none"

[[local]]
nodes = 2
slots = 2
slot_type = "a100_80gb"

[names]
clusters = { r9z9 = "local" }
slot_types = { A100_SXM = "a100" }
"""
NAMED = r"[a-z0-9-]+-[A-Za-z0-9]{6}"
WAITS = "image: bash\ncommand: read line < {gate}\n"


@pytest.fixture
def user(tmp_path: Path) -> Iterator[Shell]:
    """A user with two nodes of two a100_80gb each."""
    yield from _user(tmp_path)


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """The same, shared by tests whose runs end."""
    yield from _user(tmp_path_factory.mktemp("mcli"))


def _user(directory: Path) -> Iterator[Shell]:
    shell = Shell(directory / "home", directory / "project")
    shell.directory.mkdir()
    shell.home.mkdir(mode=0o700)
    (shell.home / "settings.toml").write_text(SETTINGS)
    yield shell
    shell.close()


def name_of(shell: Shell, identifier: str) -> str:
    return str(shell.json("show", identifier)["run"]["name"])


def submitted(shell: Shell, file: str, *options: str) -> str:
    """The name of a run that is not followed."""
    return name_of(shell, shell.tarmac("run", file, "--detach", *options, code=0).stdout.strip())


def test_m1_m4_m7_m9_a_run_is_followed_listed_and_described(settled: Shell) -> None:
    """M1, M4, M7, M9: `mcli run -f`, `get runs`, `logs`, `describe run`."""
    text = "cluster: local\ncommand: |\n  echo Start\n  echo 'Hello World!!'\ngpu_num: 0\nimage: bash\n"
    text += "name: hello\n"
    followed = settled.tarmac("run", settled.write("hello.yaml", text), code=0)
    assert followed.stdout == "Start\nHello World!!\n"
    found = re.search(rf"({NAMED}) is run", followed.stderr)
    assert found, followed.stderr
    row = settled.tarmac("ls", "--as", "mcli", code=0).stdout.splitlines()[1].split()
    assert [row[0], row[1], row[-1]] == [found[1], "0", "Completed"]
    page = settled.tarmac("show", found[1], "--as", "mcli", code=0).stdout
    assert re.search(r"^Cluster +local$", page, re.MULTILINE)
    assert [line.split()[0] for line in page.split("Run Lifecycle\n")[1].splitlines()[:4]] == [
        "STATUS",
        "PENDING",
        "RUNNING",
        "COMPLETED",
    ]
    assert page.endswith(f"Submitted YAML\n{text}")
    assert settled.tarmac("logs", found[1], code=0).stdout == followed.stdout


def test_every_variable_of_mcli_is_found_on_two_nodes(settled: Shell) -> None:
    """M7: once per node, with the variables that the platform documents, and the parameters as a file."""
    names = " ".join(pages.variables("dialects/mcli.md"))
    text = f"""
name: variables
image: bash
compute: {{gpus: 4, gpu_type: a100_80gb}}
integrations: [{{integration_type: wandb, project: digits}}]
parameters: {{lr: 0.1, _mine: 1, model: {{name: mpt}}}}
command: |
  for name in {names}; do echo "$name=${{!name}}"; done
  cat "$PARAMETERS"
"""
    name = submitted(settled, settled.write("variables.yaml", text))
    settled.tarmac("wait", name, code=0)
    nodes = [
        settled.tarmac("logs", name, "--replica", str(rank), code=0).stdout.splitlines() for rank in range(2)
    ]
    for rank, lines in enumerate(nodes):
        found = dict(line.split("=", 1) for line in lines if re.match(r"[A-Z_]+=", line))
        assert found.keys() == pages.variables("dialects/mcli.md").keys()
        address, port = found.pop("MASTER_ADDR"), found.pop("MASTER_PORT")
        assert address.startswith("127.")
        assert port.isdigit()
        assert found.pop("PARAMETERS").endswith("/parameters.yaml")
        assert found == {
            "NODE_RANK": str(rank),
            "NUM_NODES": "2",
            "WORLD_SIZE": "4",
            "LOCAL_WORLD_SIZE": "2",
            "RUN_NAME": name,
            "COMPOSER_RUN_NAME": name,
            "WANDB_NAME": name,
            "RESUMPTION_INDEX": "0",
            "MOSAICML_PLATFORM": "true",
        }
        assert lines[-3:] == ["lr: 0.1", "model:", "  name: mpt"]


def test_the_example_tells_what_its_page_says(settled: Shell) -> None:
    example = Path(__file__).resolve().parents[3] / "examples" / "21-mcli" / "variables.yaml"
    told = settled.tarmac("run", str(example), "--rehearse", "2x2", code=0).stdout
    assert len(re.findall(r"main\.[01]\| (?:NUM_NODES=2|WORLD_SIZE=4|lr: 0\.0005)\n", told)) == 6


def test_what_the_user_sets_wins_but_for_what_the_attempt_needs(settled: Shell) -> None:
    """M7: env_variables win over the platform's own, and tarmac's contract over them, with a warning."""
    text = """
name: mine
image: bash
env_variables: {MOSAICML_PLATFORM: 'False', WORLD_SIZE: 7, NODE_RANK: 9}
command: echo "$MOSAICML_PLATFORM $WORLD_SIZE $NODE_RANK $LOCAL_WORLD_SIZE"
"""
    result = settled.tarmac("run", settled.write("mine.yaml", text), code=0)
    assert result.stdout == "False 7 0 0\n"
    assert "NODE_RANK is set by tarmac for every worker: it is passed over" in result.stderr


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [("echo a\nfalse\necho b", 1, "a\n"), ("false | cat\necho b", 0, "b\n"), ("  exit 3  ", 3, "")],
    ids=["errexit", "pipes-as-there", "exit-code"],
)
def test_a_command_is_a_script_that_ends_at_its_first_failure(
    settled: Shell, command: str, code: int, output: str
) -> None:
    body = "\n".join(f"  {line}" for line in command.splitlines())
    file = settled.write("script.yaml", f"name: script\nimage: bash\ncommand: |\n{body}\n")
    assert settled.tarmac("run", file, code=code).stdout == output


def test_a_name_and_a_number_of_gpus_may_come_from_the_command_line_alone(settled: Shell) -> None:
    """M1, M2: a template that leaves them open is refused by itself, and runs on GPUs with them."""
    text = "image: bash\ncompute:\n  gpus:\n  cluster: local\ncommand: echo $NUM_NODES $WORLD_SIZE\n"
    file = settled.write("template.yaml", text)
    refused = settled.tarmac("run", file, code=2).stderr
    assert "how many GPUs? (nothing follows 'gpus')" in refused
    assert "'name' is missing" in refused
    given = settled.tarmac("run", file, "--name", "given", "--gpus", "4", code=0)
    assert sorted(given.stdout.splitlines()) == ["main.0| 2 4", "main.1| 2 4"]
    assert settled.json("show", "@last")["run"]["spec"]["roles"][0]["slot_type"] == "gpu"
    assert re.search(
        r"^GPU Type +a100_80gb$", settled.tarmac("show", "@last", "--as", "mcli").stdout, re.MULTILINE
    )


def test_gpus_are_never_slots_that_stand_for_none(tmp_path: Path) -> None:
    """A file that says GPU runs on slots without one only where it is rehearsed, or that is said."""
    user = Shell(tmp_path / "home", tmp_path)
    try:
        file = user.write(
            "two.yaml", "name: two\nimage: bash\ncompute: {gpus: 2}\ncommand: echo $WORLD_SIZE\n"
        )
        refused = user.tarmac("run", file, code=2).stderr
        assert "its slots are cpu, not gpu" in refused
        assert (
            "--rehearse 1x2 tries it on this machine; --gpu-type cpu runs it on slots without a GPU"
            in refused
        )
        assert user.tarmac("run", file, "--rehearse", "1x2", "--no-container", code=0).stdout == "2\n"
        assert user.tarmac("run", file, "--gpu-type", "cpu", code=0).stdout == "2\n"
    finally:
        user.close()


def test_the_names_of_another_site_are_those_of_here_where_the_settings_say_so(settled: Shell) -> None:
    """M1: a file that names a cluster and a GPU of elsewhere runs as it is."""
    text = (
        "name: away\nimage: bash\ncompute: {cluster: r9z9, gpu_type: a100_sxm, gpus: 2}\ncommand: echo ok\n"
    )
    said = settled.tarmac("run", settled.write("away.yaml", text), code=0)
    assert said.stdout == "ok\n"
    assert "cluster 'r9z9' is 'local' here, as [names] in the settings says" in said.stderr
    assert "slot type 'a100_sxm' is 'a100' here" in said.stderr
    unknown = settled.tarmac("run", settled.write("gone.yaml", text.replace("r9z9", "r8z8")), code=2).stderr
    assert "there is no cluster 'r8z8'" in unknown
    assert "[names] in settings.toml what 'r8z8' is called here" in unknown


def test_m1_m10_overrides_hold_for_a_file_and_for_a_clone(settled: Shell) -> None:
    """M1, M10: flags win over the file; a clone is a run of its own name with the same configuration."""
    text = "name: sized\nimage: bash\ncluster: r1z1\ncommand: echo $NUM_NODES $WORLD_SIZE $LR\n"
    file = settled.write("sized.yaml", text)
    options = ("--cluster", "local", "--gpus", "1", "--gpu-type", "a100_80gb", "--env", "LR=0.1")
    first = submitted(settled, file, *options, "--priority", "high", "--image", "python", "--name", "renamed")
    settled.tarmac("wait", first, code=0)
    run = settled.json("show", first)["run"]
    assert re.fullmatch(r"renamed-\w{6}", first)
    assert (run["priority"], run["spec"]["environment"]["image"], run["slots"]) == (1, "python", 1)
    assert settled.tarmac("logs", first).stdout == "1 1 0.1\n"
    page = settled.tarmac("show", first, "--as", "mcli", code=0).stdout
    ran = yaml.safe_load(page.split("Submitted YAML\n")[1])
    assert (ran["name"], ran["image"], ran["env_variables"]) == (first, "python", {"LR": "0.1"})
    assert ran["compute"] == {"cluster": "local", "gpus": 1, "gpu_type": "a100_80gb"}
    assert ran["scheduling"] == {"priority": "high"}
    again = settled.tarmac("run", "--clone", first, "--gpus", "4", code=0)
    assert re.search(r"2 4 0\.1\n", again.stdout)
    named = re.search(r"(renamed-\w{6}) is run", again.stderr)
    assert named
    assert named[1] != first


def test_m2_what_cannot_run_is_refused_with_the_reason(settled: Shell) -> None:
    """M2: types and counts must exist on the clusters; what is misconfigured is said, all at once."""
    wrong = settled.write(
        "wrong.yaml", "name: a\nimage: bash\ncompute: {gpu: 8}\nscheduling: {priority: hihg}\n"
    )
    refused = settled.tarmac("run", wrong, code=2).stderr
    assert "'command' is missing" in refused
    assert "wrong.yaml:3:11: compute: unknown field 'gpu'" in refused
    assert "did you mean 'high'?" in refused
    typed = settled.write(
        "typed.yaml", "name: a\nimage: bash\ncompute: {gpus: 2, gpu_type: v100}\ncommand: echo\n"
    )
    assert "its slots are a100_80gb, not v100" in settled.tarmac("run", typed, code=2).stderr
    many = settled.tarmac("run", typed, "--gpu-type", "a100_80gb", "--gpus", "64", code=2).stderr
    assert "64 a100_80gb slots are needed at once" in many
    assert "what would fit: slots: 4" in many


def test_m3_a_smaller_run_of_low_priority_may_overtake_a_bigger_one_of_high(user: Shell) -> None:
    """M3: high before low for the same resources; what fits beside the one that waits may go first."""
    gate = user.gate()
    body = f"image: bash\ncommand: read line < {gate}\n"
    held = submitted(user, user.write("held.yaml", f"name: held\ncompute: {{gpus: 2}}\n{body}"))
    user.wait_until(held, "running")
    big = "name: big\ncompute: {gpus: 4}\nscheduling: {priority: high}\nimage: bash\ncommand: echo\n"
    bigger = submitted(user, user.write("big.yaml", big))
    small = (
        "compute: {gpus: 2}\nimage: bash\ncommand: echo\nscheduling: {priority: low, max_duration: 0.01}\n"
    )
    overtaking = submitted(user, user.write("small.yaml", f"name: small\n{small}"))
    user.tarmac("wait", overtaking, code=0)
    assert user.json("show", bigger)["run"]["state"] == "queued"
    user.tarmac("stop", held, "--wait", code=0)
    user.tarmac("wait", bigger, code=0)


def test_m5_a_run_is_stopped_at_any_time(user: Shell) -> None:
    """M5: in the queue and while it runs; both are Stopped."""
    gate = user.gate()
    text = f"compute: {{gpus: 4}}\n{WAITS.format(gate=gate)}"
    running = submitted(user, user.write("first.yaml", f"name: first\n{text}"))
    user.wait_until(running, "running")
    queued = submitted(user, user.write("second.yaml", f"name: second\n{text}"))
    table = user.tarmac("ls", "--as", "mcli", code=0).stdout
    assert [line.split()[-1] for line in table.splitlines()[1:]] == ["Queued", "Running"]
    user.tarmac("stop", queued, running, "--wait", code=0)
    table = user.tarmac("ls", "--as", "mcli", code=0).stdout
    assert [line.split()[-1] for line in table.splitlines()[1:]] == ["Stopped", "Stopped"]


def test_a_run_that_is_resumed_counts_it(user: Shell) -> None:
    """M7: RESUMPTION_INDEX is 0 at first; the name stays."""
    gate = user.gate()
    body = f'  echo "$RESUMPTION_INDEX $RUN_NAME"\n  read line < {gate}\n'
    text = f"name: resumed\nimage: bash\ncommand: |\n{body}"
    name = submitted(user, user.write("resumed.yaml", text))
    user.wait_until(name, "running")
    user.tarmac("pause", name, code=0)
    user.wait_until(name, "paused")
    assert user.tarmac("ls", "--as", "mcli").stdout.split()[-1] == "Stopped"
    user.tarmac("resume", name, code=0)
    user.wait_until(name, "running")
    with gate.open("w") as line:
        line.write("go\n")
    user.tarmac("wait", name, code=0)
    assert f"1 {name}" in user.tarmac("logs", name).stdout


def repository(directory: Path) -> str:
    """The URL of a git repository with a file on its branch `main` and another on `side`."""
    directory.mkdir()
    git = ["git", "-C", str(directory), "-c", "user.name=a", "-c", "user.email=a@example.org"]

    def call(*words: str) -> None:
        subprocess.run([*git, *words], check=True, capture_output=True)

    call("init", "-q", "-b", "main")
    for branch, text in (("main", "of main"), ("side", "of side")):
        call("checkout", "-q", "-B", branch)
        (directory / "file").write_text(f"{text}\n")
        call("add", "file")
        call("commit", "-q", "-m", text)
    call("checkout", "-q", "main")
    return f"file://{directory}"


def test_m8_integrations_run_in_order_before_the_command(user: Shell) -> None:
    """M8: repositories at their branches and paths; what fails ends the run with its output."""
    (user.home / "settings.toml").write_text(f'{SETTINGS}\n[git]\ngit_transports = ["file"]\n')
    url = repository(user.directory / "origin")
    text = f"""
name: integrated
image: bash
env_variables: {{BRANCH: side}}
integrations:
- {{integration_type: git_repo, git_repo: '{url}', git_branch: main, path: code/first}}
- {{integration_type: git_repo, git_repo: '{url}', git_branch: $BRANCH, path: /workspace/second}}
- {{integration_type: comet_ml, project: digits}}
command: cat code/first/file second/file; echo $COMET_PROJECT_NAME
"""
    file = user.write("integrated.yaml", text)
    assert user.tarmac("run", file, code=0).stdout.splitlines()[-3:] == ["of main", "of side", "digits"]
    broken = user.write("broken.yaml", text.replace("git_branch: main", "git_branch: missing"))
    refused = user.tarmac("run", broken, code=None)
    assert refused.returncode != 0
    assert "setup" in refused.stderr
    assert "missing" in refused.stderr
    listed = user.tarmac("ls", "--as", "mcli", code=0).stdout.splitlines()
    assert [line.split()[-1] for line in listed[1:]] == ["Failed", "Completed"]
