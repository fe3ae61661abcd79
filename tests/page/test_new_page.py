"""A run from another one in a browser: editor, form, dry run and submission; and the files of a run (I1)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from shell import Shell
from tarmac.client import Client

Open = Callable[..., Page]

SOURCE = """\
name: digits
slots: 1
env: {LR: "0.1"}
parameters: {lr: 0.1, model: {layers: 3}}
command: cp "$TARMAC_PARAMETERS" "$CHECKPOINT_ARTIFACT_PATH/seen.json" && head -c 2500000 /dev/zero > big
"""


@pytest.fixture(scope="module")
def parent(client: Client) -> str:
    """A run with a checkpoint, and values from its command line."""
    run = client.submit(SOURCE, overrides={"labels": {"team": "vision"}, "retries": 2}).id
    client.wait(run)
    return run


@pytest.fixture
def page(open_page: Open, parent: str) -> Page:
    """The page of a new run from it, once its dry run has come."""
    page = open_page(f"/run/{parent}")
    page.get_by_role("link", name="Clone…").click()
    expect(page.get_by_role("region", name="Dry run")).to_contain_text("Would start now on")
    return page


def editor(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Run file")


def command(page: Page) -> Locator:
    return page.locator(".main-column > .command code")


def submitted(page: Page) -> str:
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(re.compile("/run/r"))
    return page.url.rpartition("/")[2]


def test_values_of_the_form_replace_those_of_the_clone(page: Page, client: Client, parent: str) -> None:
    page.get_by_label("name", exact=True).fill("faster")
    page.get_by_label("model.layers").fill("5")
    page.get_by_label("LR", exact=True).fill("0.2")
    page.get_by_label("Another variable").fill("SEED=7")
    page.keyboard.press("Enter")
    shown = f"tarmac run --clone {parent} --label team=vision --name faster --set parameters.model.layers=5"
    expect(command(page)).to_have_text(f"{shown} --env LR=0.2 --env SEED=7")
    run = client.run(submitted(page))
    assert (run.name, run.spec["retries"], run.labels) == ("faster", 2, {"team": "vision"})
    assert run.spec["parameters"] == {"lr": 0.1, "model": {"layers": 5}}
    assert run.spec["environment"]["variables"] == {"LR": "0.2", "SEED": "7"}


def test_problems_are_at_their_place_while_typing(page: Page) -> None:
    editor(page).press("Control+End")
    page.keyboard.type("retrys: 1\n")
    problems = page.get_by_role("region", name="Problems")
    expect(problems).to_contain_text("retrys")
    expect(page.locator(".cm-lintRange-error")).to_have_text("retrys")
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    editor(page).press("Control+Home")
    problems.get_by_role("button", name="6:1").click()
    page.keyboard.type("#")
    expect(page.get_by_role("region", name="Dry run")).to_contain_text("Would start now on")


def test_an_edited_file_is_a_run_with_the_code_of_its_parent(
    open_page: Open, client: Client, owner: Shell
) -> None:
    (owner.directory / "go.sh").write_text("echo went\n")
    owner.write("code.yaml", "name: coded\ncode: .\ncommand: sh go.sh\n")
    owner.tarmac("run", "code.yaml", "--retries", "1", code=0)
    parent = client.run("coded")
    (owner.directory / "go.sh").unlink()
    page = open_page(f"/new?clone={parent.id}")
    editor(page).press("Control+End")
    page.keyboard.type("priority: 3\n")
    expect(page.locator(".warning")).to_contain_text("retries=1")
    expect(command(page)).to_have_text("tarmac run run.yaml")
    run = client.wait(submitted(page))
    assert (run.outcome, run.priority, run.code_digest) == ("completed", 3, parent.code_digest)


def test_a_checkpoint_begins_another_run(open_page: Open, client: Client, parent: str) -> None:
    page = open_page(f"/run/{parent}/files")
    page.get_by_role("link", name="Start a run from it").click()
    expect(command(page)).to_contain_text(f"""--set 'input_artifacts=["{parent}.checkpoint.1"]'""")
    expect(page.get_by_role("region", name="Dry run")).to_contain_text("Would start now on")
    assert client.run(submitted(page)).spec["input_artifacts"] == [f"{parent}.checkpoint.1"]
    page.goto(f"{page.url.rpartition('/')[0]}/{parent}")
    page.get_by_role("link", name="Resume from checkpoint…").click()
    expect(command(page)).to_have_text(re.compile("--resume$"))
    assert client.run(submitted(page)).spec["input_artifacts"] == [f"{parent}.checkpoint.1"]


def test_submit_clicked_twice_is_one_run(page: Page, client: Client) -> None:
    page.get_by_label("name", exact=True).fill("once")
    page.get_by_role("button", name="Submit").dblclick()
    page.wait_for_url(re.compile("/run/r"))
    assert len(client.runs(name="once").runs) == 1


def test_files_are_downloaded_whole(open_page: Open, parent: str) -> None:
    page = open_page(f"/run/{parent}/files")

    def size(name: str) -> int:
        with page.expect_download() as begun:
            page.get_by_role("link", name=name).click()
        return Path(begun.value.path()).stat().st_size

    assert size("big") == 2_500_000
    page.get_by_role("link", name="checkpoint 1").click()
    assert size("seen.json") > 0


def test_labels_and_differences(open_page: Open, client: Client, parent: str) -> None:
    other = client.submit(clone=parent, overrides={"env": {"LR": "0.3"}, "retries": 3}).id
    page = open_page(f"/run/{other}")
    dialog = page.get_by_role("dialog")
    for text in ("kind=again", "team-"):
        page.get_by_role("button", name="Label…").click()
        dialog.get_by_label("KEY=VALUE").fill(text)
        expect(dialog.locator("code")).to_have_text(f"tarmac label {other} {text}")
        page.keyboard.press("Enter")
        expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Note…").click()
    dialog.get_by_label("Text").fill("two\nlines <b>")
    dialog.get_by_role("button", name="Note", exact=True).click()
    expect(page.locator(".note").last).to_contain_text("two\nlines <b>")
    expect(page.get_by_role("link", name="again", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="vision")).to_have_count(0)
    assert client.run(other).labels == {"kind": "again"}
    page.goto(f"{page.url}/difference?with={parent}")
    rows = page.locator(".difference tbody tr")
    expect(rows.filter(has_text="retries")).to_have_text(re.compile("2.*3"))
    expect(rows.filter(has_text="LR")).to_have_text(re.compile("0.1.*0.3"))
