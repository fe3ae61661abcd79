"""Experiment configurations on the command line: created, with conventions, hooks and binds, paused."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pages
from shell import Shell

SETTINGS = """
[[local]]
nodes = 2
slots = 2
"""
SEARCHER = "searcher: {name: single, metric: loss}\nmax_restarts: 0\n"
UNSET_HERE = {"DET_LATEST_CHECKPOINT", "TCD_STARTUP_HOOK"}
MEBIBYTE = 1 << 20

REPORT = """\
import json, os, sys
names = sys.argv[1:]
info = {}
for name in ("cluster", "trial", "resources", "rendezvous"):
    with open(os.path.join(os.environ["DET_RUN_DIR"], "info", name + ".json")) as file:
        info[name] = json.load(file)
print(json.dumps({"env": {name: os.environ.get(name) for name in names}, "info": info}), flush=True)
"""


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A user with two nodes of two slots, shared by tests whose runs end."""
    directory = tmp_path_factory.mktemp("determined")
    shell = Shell(directory / "home", directory / "project")
    shell.directory.mkdir()
    shell.home.mkdir(mode=0o700)
    (shell.home / "settings.toml").write_text(SETTINGS)
    yield shell
    shell.close()


CLUSTER = """
[determined]
default_priority = 50
[determined.task_container_defaults]
environment_variables = ["FROM=cluster", "TOO=cluster"]
startup_hook = "export HOOKED=cluster"
"""


def context(shell: Shell, name: str, config: str, **files: str) -> str:
    """A context directory with its configuration; the directory's name."""
    shell.write(f"{name}/const.yaml", config + SEARCHER)
    for file, text in files.items():
        shell.write(f"{name}/{file.replace('__', '.').replace('_', '-')}", text)
    return name


def create(shell: Shell, directory: str, *options: str, code: int = 0) -> str:
    """What `experiment create -f` of the configuration in a context prints."""
    config = f"{directory}/const.yaml"
    return shell.tarmac("experiment", "create", config, directory, "-f", *options, code=code).stdout


def test_d11_every_variable_and_info_file_on_two_nodes(settled: Shell) -> None:
    """D1, D11: the entry point once on each node, with all variables and the four info files."""
    names = " ".join(pages.variables("dialects/determined.md"))
    directory = context(
        settled,
        "variables",
        f"entrypoint: python3 report.py {names}\nresources: {{slots_per_trial: 4}}\n"
        "hyperparameters: {lr: 1e-4}\nreproducibility: {experiment_seed: 7}\n",
        report__py=REPORT,
    )
    found = [json.loads(line.partition("| ")[2]) for line in create(settled, directory).splitlines()]
    assert sorted(item["info"]["rendezvous"]["container_rank"] for item in found) == [0, 1]
    for item in found:
        env, info = item["env"], item["info"]
        assert {name for name, value in env.items() if value is None} == UNSET_HERE
        assert json.loads(env["DET_HPARAMS"]) == info["trial"]["hparams"] == {"lr": 0.0001}
        assert json.loads(env["DET_EXPERIMENT_CONFIG"]) == info["trial"]["config"]
        assert json.loads(env["DET_SLOT_IDS"]) == info["cluster"]["slot_ids"] == [0, 1]
        assert info["rendezvous"]["container_slot_counts"] == [2, 2]
        assert len(info["rendezvous"]["container_addrs"]) == 2
        assert int(env["DET_TRIAL_ID"]) == info["trial"]["trial_id"]
        assert env["DET_WORKDIR"].endswith("/work")
        assert (env["DET_TASK_TYPE"], env["DET_TRIAL_RUN_ID"]) == ("TRIAL", "1")
    first, second = (item["env"] for item in found)
    assert first["DET_TASK_ID"] == second["DET_TASK_ID"]
    assert first["DET_CONTAINER_ID"] != second["DET_CONTAINER_ID"]


def test_d11_the_startup_hook_runs_before_the_entry_point_and_what_it_exports_holds(settled: Shell) -> None:
    """D11: `startup-hook.sh` of the context, once on each node."""
    directory = context(
        settled, "hooked", "entrypoint: echo got $GIVEN\n", startup_hook__sh="export GIVEN='by the hook'\n"
    )
    assert create(settled, directory).splitlines()[-1] == "got by the hook"


def test_d11_a_startup_hook_that_fails_ends_the_trial(settled: Shell) -> None:
    """D11: the first command of the hook that fails is the end, with its exit code."""
    directory = context(
        settled, "unhooked", "entrypoint: echo never\n", startup_hook__sh="(exit 7)\necho later\n"
    )
    output = create(settled, directory, code=7)
    assert "never" not in output
    assert not re.search(r"^later$", output, re.MULTILINE)


def test_d1_a_list_is_executed_as_it_is_and_a_text_by_a_shell(settled: Shell) -> None:
    """D1: the two forms of the entry point."""
    listed = context(settled, "listed", 'entrypoint: [echo, "$HOME", "a  b"]\n')
    assert create(settled, listed).strip() == "$HOME a  b"
    text = context(settled, "text", "entrypoint: 'false || echo a  b'\n")
    assert create(settled, text).strip() == "a b"


def test_d9_what_detignore_names_stays_behind(settled: Shell) -> None:
    """D9: `.detignore` at the top has the syntax of .gitignore; compiled Python is always left out."""
    directory = context(settled, "ignoring", "entrypoint: find . -type f\n")
    for name in (
        "keep.py",
        "data/big.bin",
        "data/small.txt",
        "old.pyc",
        "__pycache__/a.pyc",
        "deep/.detignore",
    ):
        settled.write(f"ignoring/{name}", "x")
    settled.write("ignoring/.detignore", "# data\ndata/*\n!data/small.txt\n!old.pyc\n")
    assert sorted(create(settled, directory).split()) == [
        "./const.yaml",
        "./data/small.txt",
        "./deep/.detignore",
        "./keep.py",
    ]


def test_d9_a_context_over_95_mb_is_refused_with_its_largest_files(settled: Shell) -> None:
    """D9: the size and the largest files are named, and nothing is kept."""
    directory = context(settled, "large", "entrypoint: 'true'\n")
    for name, size in (("weights.bin", 80), ("video.bin", 20), ("small.bin", 1)):
        with (settled.directory / "large" / name).open("wb") as file:
            file.truncate(size * MEBIBYTE)
    before = settled.json("ls", "--all")["runs"]
    refused = settled.tarmac("experiment", "create", "large/const.yaml", directory, code=2)
    assert re.search(r"101\.0 MiB.*95\.0 MiB.*weights\.bin.*video\.bin", refused.stderr, re.DOTALL)
    ran = settled.tarmac("run", "large/const.yaml", code=2)
    assert re.search(r"101\.0 MiB.*95\.0 MiB.*weights\.bin.*video\.bin", ran.stderr, re.DOTALL)
    assert settled.json("ls", "--all")["runs"] == before
    settled.write("large/.detignore", "weights.bin\n")
    settled.tarmac("experiment", "create", "large/const.yaml", directory, "-f", code=0)


def test_d11_what_the_file_binds_is_there(settled: Shell, tmp_path: Path) -> None:
    """D11: bind mounts, at an absolute path and below the work directory, read-only where that is said."""
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "one").write_text("1")
    directory = context(
        settled,
        "bound",
        "entrypoint: 'cat data/set/one /mnt/set/one third/one; "
        "test -f /run/determined/workdir/const.yaml; echo $?; touch data/set/two || echo refused'\n"
        f"bind_mounts:\n  - {{host_path: {tmp_path}/set, container_path: data/set, read_only: true}}\n"
        f"  - {{host_path: {tmp_path}/set, container_path: /mnt/set}}\n"
        f"  - {{host_path: {tmp_path}/set/, container_path: /run/determined/workdir/third/}}\n",
    )
    settled.write("bound/data/of-the-context", "x")
    output = create(settled, directory)
    assert output.startswith("1110\n")
    assert output.endswith("refused\n")
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["one"]


def test_d11_a_bind_without_its_source_fails_before_the_trial_starts(settled: Shell) -> None:
    """D11: with path and node; a rehearsal goes on without the data and says so."""
    directory = context(
        settled,
        "unbound",
        "entrypoint: 'echo began'\nbind_mounts: [{host_path: /no/such, container_path: /data}]\n",
    )
    command = ("experiment", "create", "unbound/const.yaml", directory, "-f")
    failed = settled.tarmac(*command, code=1)
    assert re.search(r"cannot bind /no/such to /data on \S+: no such file or directory", failed.stderr)
    assert failed.stdout == ""
    rehearsed = settled.tarmac(*command, "--rehearse", "1x1", code=0)
    assert "not available here: /data (/no/such: no such file or directory)" in rehearsed.stderr
    assert rehearsed.stdout == "began\n"


def test_d10_a_search_is_rehearsed_on_one_cluster_for_all_trials(settled: Shell) -> None:
    """D10: with the options of `run`; two trials of two nodes take turns on a cluster of two nodes."""
    directory = context(settled, "searched", "")
    settled.write(
        "searched/const.yaml",
        "name: searched\nentrypoint: 'echo $TEMPERATURE'\nresources: {slots_per_trial: 4}\n"
        "hyperparameters: {lr: {type: categorical, vals: [1, 2]}}\n"
        "environment: {image: registry.invalid/none:1}\n"
        "searcher: {name: grid, metric: loss, max_length: {batches: 1}}\n",
    )
    options = ("--rehearse", "2x2", "--no-container", "--name", "tried", "--env", "TEMPERATURE=7")
    done = settled.tarmac("experiment", "create", "searched/const.yaml", directory, "-f", *options, code=0)
    assert "trial 1: completed" in done.stderr
    runs = [run for run in settled.json("ls", "--all")["runs"] if run["name"].startswith("tried-")]
    assert len(runs) == 2
    (cluster,) = {run["cluster"] for run in runs}
    assert cluster.startswith("rehearsal-")
    assert "7" in settled.tarmac("logs", runs[0]["id"], code=0).stdout
    spans = sorted((run["started_at"], run["ended_at"]) for run in runs)
    assert spans[0][1] <= spans[1][0], "both need the whole cluster"


def test_values_in_place_of_the_files_and_a_bad_one_by_its_path(settled: Shell) -> None:
    """D9: `--config` as Determined's own command has it."""
    directory = context(settled, "changed", "entrypoint: 'echo $DET_HPARAMS'\nhyperparameters: {lr: 1}\n")
    assert json.loads(create(settled, directory, "--config", "hyperparameters.lr=2e-3")) == {"lr": 0.002}
    refused = settled.tarmac(
        *("experiment", "create", "changed/const.yaml", "changed"),
        *("--config", "resources.priority=100", "--config", "debug=maybe"),
        code=2,
    )
    assert "resources.priority: a whole number from 1 to 99 is expected, not '100'" in refused.stderr
    assert "debug: true or false is expected, not 'maybe'" in refused.stderr


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("searcher: {name: random, metric: loss, max_trials: 0}", "a whole number, 1 or more, is expected"),
        ("entrypoint: python3 -m determined.launch.horovod --trial a:B train.py", "cannot be started both"),
    ],
)
def test_d1_d10_what_cannot_run_is_refused_with_its_reason(settled: Shell, line: str, expected: str) -> None:
    """D1, D10: both a trial class and a script; a searcher of more than one trial; another kind of task."""
    lines = {"entrypoint": "entrypoint: 'true'", "searcher": SEARCHER.partition("\n")[0]}
    text = "\n".join({**lines, line.partition(":")[0]: line}.values())
    refused = settled.tarmac("check", settled.write("refused.yaml", text), code=2)
    assert expected in refused.stderr


CORE_API = """\
import json, os, sys, time, urllib.request

class NotFound(Exception):
    pass

def ask(url):
    retries = json.loads(os.environ.get("DET_RETRY_CONFIG", '{"total": 20, "backoff_factor": 0.5}'))
    for number in range(retries["total"] + 1):
        try:
            return urllib.request.urlopen(url)
        except OSError as error:
            if number == retries["total"]:
                raise NotFound("could not reach the master at " + url) from error
            time.sleep(min(120, retries.get("backoff_factor", 0) * 2**number))

def init():
    ask(os.environ["DET_MASTER"] + "/api/v1/me")
"""
"""What the library does at its first call: twenty tries with growing pauses, unless a variable says less."""


def test_a_script_that_asks_a_master_ends_at_once_and_is_told_where(settled: Shell) -> None:
    """D11: which worker, which line, what to do; and no restart that could only do the same."""
    train = "import sys\nsys.path.append('site-packages')\nimport core\ncore.init()\n"
    directory = context(settled, "core", f"entrypoint: {sys.executable} train.py\n", train__py=train)
    settled.write("core/site-packages/core.py", CORE_API)
    output = settled.tarmac(
        "experiment", "create", "core/const.yaml", directory, "-f", "--config", "max_restarts=5", code=1
    )
    assert "main.0.0 on node1 exited with 1: train.py:4 asks a master of Determined" in output.stderr
    assert "take the call out: hyperparameters are in DET_HPARAMS" in output.stderr
    run = settled.json("show", "@last")["run"]
    assert (run["attempt"], run["cause"]["code"]) == (1, "unsupported")


def test_d14_priorities_of_experiments_are_on_their_own_scale(settled: Shell) -> None:
    """D13, D14: by `queue set`, its batch form and `experiment update`: 1 is first."""
    context(settled, "ranked", "entrypoint: sleep 600\n")
    ids = [
        re.findall(
            r"run (\w+)",
            settled.tarmac("experiment", "create", "ranked/const.yaml", "--paused", *options).stdout,
        )[0]
        for options in ((), ("--config", "resources.priority=50"))
    ]
    settled.tarmac("run", "ranked/const.yaml", "--priority", "100", code=2)
    asked = (
        ("queue", "set", ids[0], "--priority", "10"),
        ("queue", "set", f"{ids[0]}.priority=99", f"{ids[1]}.priority=1"),
        ("experiment", "update", ids[0], "--priority", "7"),
    )
    expected = ({ids[0]: 32, ids[1]: -8}, {ids[0]: -57, ids[1]: 41}, {ids[0]: 35, ids[1]: 41})
    for words, priorities in zip(asked, expected, strict=True):
        said = settled.tarmac(*words, code=0).stderr
        assert "of Determined, where 1 is first, is" in said
        assert {run: settled.json("show", run)["run"]["priority"] for run in ids} == priorities
    refused = settled.tarmac("queue", "set", f"{ids[0]}.priority=0", f"{ids[1]}.priority=100", code=2).stderr
    assert refused.count("a priority of Determined is from 1 (first) to 99 (last)") == 2
    settled.tarmac("experiment", "update", ids[0], "--resource-pool", "nowhere", code=2)
    settled.tarmac("queue", "set", ids[0], "--resource-pool", "default", code=0)
    settled.tarmac("stop", *ids, code=0)


def test_d12_a_paused_experiment_frees_its_slots_and_goes_on_from_its_checkpoint(settled: Shell) -> None:
    """D12, D13: without a signal the script sees that it should pause, saves and leaves; activate resumes."""
    script = """\
import os, signal, tarmac
signal.signal(signal.SIGTERM, lambda *_: os._exit(9))
saved = os.path.join(os.environ["CHECKPOINT_ARTIFACT_PATH"], "steps")
steps = int(open(saved).read()) if os.path.exists(saved) else 0
print("begins at", steps, "run", os.environ["DET_TRIAL_RUN_ID"], flush=True)
if steps == 0:
    with open(os.environ["GATE"], "w") as gate:
        gate.write("ready")
    while not tarmac.should_pause():
        signal.sigtimedwait([], 0.05)
    open(saved, "w").write("5")
"""
    gate = settled.gate()
    directory = context(
        settled,
        "pausing",
        "name: pausing\nentrypoint: python3 train.py\n"
        f"environment: {{environment_variables: [GATE={gate}]}}\n",
        train__py=script,
    )
    created = settled.tarmac("experiment", "create", "pausing/const.yaml", directory, code=0).stdout
    number = re.fullmatch(r"Created experiment (\d+) \(run (\w+)\)\n", created)
    assert number
    assert gate.read_text() == "ready"
    (row,) = settled.tarmac("experiment", "jobs", code=0).stdout.splitlines()[2:]
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[:5] == ["0", number[2], "TYPE_EXPERIMENT", "pausing", "42"]
    assert cells[6:8] == ["1/1", "STATE_SCHEDULED"]
    settled.tarmac("experiment", "pause", number[1], "--wait", code=0)
    assert settled.json("experiment", "describe", number[1])["run"]["status"] == "PAUSED"
    assert len(settled.tarmac("experiment", "jobs", code=0).stdout.splitlines()) == 2, (
        "no row: its slots are free"
    )
    settled.tarmac("experiment", "activate", number[1], code=0)
    settled.tarmac("wait", number[2], code=0)
    assert settled.tarmac("logs", number[2]).stdout.splitlines() == ["begins at 0 run 1", "begins at 5 run 2"]
    row = settled.tarmac("experiment", "list", code=0).stdout.splitlines()[2]
    assert [cell.strip() for cell in row.split("|")][2:5] == ["pausing", "", "COMPLETED"]


def test_d12_an_experiment_created_paused_never_starts_before_it_is_activated(settled: Shell) -> None:
    """D12: --paused holds from the start, with the context already kept; activate runs it once."""
    directory = context(settled, "aside", "name: aside\nentrypoint: 'cat const.yaml | wc -l'\n")
    created = settled.tarmac("experiment", "create", "aside/const.yaml", directory, "--paused", code=0).stdout
    number = re.fullmatch(r"Created experiment (\d+) \(run (\w+)\)\n", created)
    assert number
    settled.wait_until(number[2], "paused")
    shown = settled.json("show", number[2])
    assert shown["run"]["state"] == "paused"
    assert shown["attempts"] == []
    settled.tarmac("experiment", "activate", number[1], code=0)
    settled.tarmac("wait", number[2], code=0)
    assert len(settled.json("show", number[2])["attempts"]) == 1
    cloned = settled.tarmac("run", "--clone", number[2], code=0)
    assert "completed" in cloned.stderr, "what is cloned does not wait, too"


def test_d11_what_the_cluster_gives_lies_below_the_file(tmp_path: Path) -> None:
    """D11: task container defaults and the usual priority, from the settings of the server."""
    shell = Shell(tmp_path / "home", tmp_path / "project")
    shell.directory.mkdir()
    shell.home.mkdir(mode=0o700)
    (shell.home / "settings.toml").write_text(CLUSTER)
    directory = context(
        shell,
        "given",
        "entrypoint: 'echo $FROM $TOO $HOOKED'\nenvironment: {environment_variables: [FROM=file]}\n",
    )
    try:
        assert create(shell, directory).splitlines()[-1] == "file cluster cluster"
        assert shell.json("ls")["runs"][0]["priority"] == 42 - 50
    finally:
        shell.close()
