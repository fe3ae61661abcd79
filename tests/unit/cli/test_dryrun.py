"""A dry run, as it is printed."""

from __future__ import annotations

from typing import Any

from msgspec import convert

from tarmac.api.placement import DryRun
from tarmac.cli.views.dryrun import command_text, plan_text, printable, short_text
from tarmac.cli.views.terminal import Terminal

LONG_PATH = "/very/long/" * 5


def worker(replica: int, **env: str) -> dict[str, Any]:
    return {"role": "main", "replica": replica, "index": 0, "argv": ["python", "a b.py"], "env": env}


def answer(**changes: Any) -> Any:
    nodes = [
        {
            "node": f"n-{rank}",
            "rank": rank,
            "workers": [worker(rank, NODE_RANK=str(rank), NNODES="2", PATH=LONG_PATH)],
        }
        for rank in range(2)
    ]
    placement = [
        {"node": f"n-{rank}", "address": f"127.0.0.{rank}", "rank": rank, "slots": [0, 1]}
        for rank in range(2)
    ]
    whole: dict[str, Any] = {
        "run": {"name": "pair"},
        "warnings": [],
        "placement": placement,
        "reasons": [],
        "largest": None,
        "request": "start two\nrunners",
        "artifact_paths": {"CHECKPOINT_ARTIFACT_PATH": "/a/checkpoint"},
        "rendered": None,
        "nodes": nodes,
    }
    return convert({**whole, **changes}, DryRun)


def test_the_short_form_says_where_what_and_with_which_variables_of_its_own() -> None:
    own = answer(run={"name": "pair", "environment": {"variables": {"NNODES": "2"}}})
    assert short_text(own, Terminal()) == (
        "pair: nothing is started or kept\n"
        "NODE  RANK  SLOTS  ADDRESS\n"
        "n-0      0      2  127.0.0.0\n"
        "n-1      1      2  127.0.0.1\n"
        "\n"
        "command of main.0.0 and 1 more\n"
        "  python 'a b.py'\n"
        "\n"
        "variables of the run\n"
        "  NNODES=2\n"
        "\n"
        "artifacts\n"
        "  CHECKPOINT_ARTIFACT_PATH=/a/checkpoint\n"
        "\n"
        "--verbose shows every variable, and what the engine is sent"
    )


def test_what_workers_share_is_said_once() -> None:
    assert plan_text(answer(), Terminal(), inherited={"PATH": LONG_PATH}) == (
        "native request\n"
        "  start two\n"
        "  runners\n"
        "\n"
        "every worker\n"
        "    python 'a b.py'\n"
        "    NNODES=2\n"
        "    PATH as here\n"
        "\n"
        "on n-0 (rank 0)\n"
        "  main.0.0\n"
        "    NODE_RANK=0\n"
        "\n"
        "on n-1 (rank 1)\n"
        "  main.1.0\n"
        "    NODE_RANK=1\n"
        "\n"
        "pair: nothing is started or kept\n"
        "NODE  RANK  SLOTS  ADDRESS\n"
        "n-0      0      2  127.0.0.0\n"
        "n-1      1      2  127.0.0.1"
    )


def test_a_single_worker_is_told_where_it_runs() -> None:
    one = answer(nodes=answer().nodes[:1], placement=answer().placement[:1], request=None)
    assert plan_text(one, Terminal(), inherited={}) == (
        "on n-0 (rank 0)\n"
        "  main.0.0\n"
        "    python 'a b.py'\n"
        "    NNODES=2\n"
        "    NODE_RANK=0\n"
        f"    PATH={LONG_PATH}\n"
        "\n"
        "pair: nothing is started or kept\n"
        "NODE  RANK  SLOTS  ADDRESS\n"
        "n-0      0      2  127.0.0.0"
    )


def test_what_would_wait_says_why_and_where_it_would_go() -> None:
    reasons = [{"code": "busy", "text": "2 of 8 slots are free", "node": "n-0"}]
    text = plan_text(answer(nodes=[], request=None, reasons=reasons), Terminal(), inherited={})
    assert text.splitlines()[:5] == [
        "pair: nothing is started or kept",
        "It would wait now:",
        "  n-0: 2 of 8 slots are free",
        "Where it would go:",
        "NODE  RANK  SLOTS  ADDRESS",
    ]


def test_no_value_draws_on_the_terminal() -> None:
    assert printable("plain value") == "plain value"
    assert printable("\x1b[2J") == "$'\\e[2J'"
    assert command_text(["bash", "-c", "echo a\n\x1b[2J\n"]) == "bash -c\n  echo a\n  $'\\e[2J'"


def test_what_never_fits_says_what_would() -> None:
    reasons = [{"code": "gang", "text": "8 slots in all", "node": None}]
    never = answer(nodes=[], placement=None, request=None, reasons=reasons, largest="slots: 8")
    assert plan_text(never, Terminal(), inherited={}).splitlines()[1:] == [
        "It can never start here:",
        "  8 slots in all",
        "  the largest that fits: slots: 8",
    ]


def test_commands_are_shown_as_they_would_be_typed() -> None:
    assert command_text(["echo", "it's"]) == """echo 'it'\\''s'"""
    assert command_text(["bash", "-eo", "pipefail", "-c", "a\nb\n"]) == "bash -eo pipefail -c\n  a\n  b"
    assert command_text(["bash", "-c", "one line\n"]) == "bash -c $'one line\\n'"


def test_what_a_site_is_sent_stands_as_it_is() -> None:
    """K1, K2: it can be copied; nothing is said of a placement that the site makes itself."""
    text = plan_text(
        answer(placement=None, nodes=[], request=None, rendered="#!/bin/bash -l\n#SBATCH --nodes=2\n"),
        Terminal(),
        inherited={},
    )
    assert text == (
        "what the site is sent\n#!/bin/bash -l\n#SBATCH --nodes=2\n\npair: nothing is started or kept"
    )


def test_the_script_of_a_job_comes_before_what_it_runs() -> None:
    script = "#!/bin/bash\n#SBATCH --nodes=2\n"
    sent = answer(rendered=script, request=f"slurm.sh:\n{script}")
    text = short_text(sent, Terminal())
    assert text.startswith(f"the job's script\n{script}\npair: nothing is started or kept\n")
    assert "what the site is sent" not in plan_text(sent, Terminal(), inherited={})


def offer(shape: str, **more: Any) -> dict[str, Any]:
    made = {
        "id": shape,
        "provider": "p",
        "region": "r1",
        "machine": "m",
        "rate": 12.5,
        "rated_on": "2026-11-01",
    }
    return {"shape": made, "machines": 2, "rate": 25.0, **more}


def test_a_run_that_rents_its_machines_lists_the_shapes_that_would_be_tried() -> None:
    """I9, I13: with the rates of all machines, the cost up to the time limit, and refusals."""
    offers = [offer("a", cost=50.0), offer("b", rate=1234.5, refused="over the rate of user ada")]
    rents = answer(placement=None, nodes=[], request=None, artifact_paths={}, offers=offers)
    expected = (
        "pair: nothing is started or kept\n"
        "shapes that it would rent, in this order\n"
        "SHAPE  REGION  EACH   MACHINES      PER HOUR    AT MOST  REFUSED\n"
        "a      r1      1 cpu         2     25.00 USD  50.00 USD\n"
        "b      r1      1 cpu         2  1,234.50 USD   no limit  over the rate of user ada"
    )
    assert short_text(rents, Terminal()) == expected
    assert plan_text(rents, Terminal(), inherited={}) == expected


def test_a_batch_run_that_may_rent_shows_its_place_first() -> None:
    text = short_text(answer(offers=[offer("a")]), Terminal())
    assert text.index("n-1") < text.index("shapes that it would rent") < text.index("command of")


def test_a_refused_run_that_could_rent_still_says_why() -> None:
    reason = {"code": "too_small", "text": "it has 8 slots", "node": "n-1"}
    text = short_text(answer(placement=None, nodes=[], reasons=[reason], offers=[offer("a")]), Terminal())
    assert "No node here can hold it:\n  n-1: it has 8 slots\n\nshapes that it would rent" in text
