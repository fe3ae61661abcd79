"""Saves as the frameworks write them: what was finished is a checkpoint, what is half-written is not (I14).

The names, and the order in which they come, are those that the libraries themselves write.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tarmac.artifacts.versions.blobs import DirectoryBlobs
from tarmac.artifacts.versions.manifest import FILE, Manifest, latest, read_manifest
from tarmac.artifacts.versions.restore import fill, mend
from tarmac.artifacts.versions.select_stable import Ending, Unstable
from tarmac.artifacts.versions.sync import Place, Syncer

LONG_AGO = time.time() - 3600
BINARY = "\0\1\2"
INDEX = "model.safetensors.index.json"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@pytest.fixture
def one(root: Path) -> Syncer:
    return syncer(root)


@pytest.fixture
def full(root: Path) -> Syncer:
    """The same on a disk without room."""
    return syncer(root, is_full=True)


def syncer(
    root: Path, *, run_id: str = "r1", inputs: Sequence[Manifest] = (), is_full: bool = False
) -> Syncer:
    place = Place(run_id=run_id, attempt=1, kind="checkpoint", rank=0, root=str(root), seen_at=(str(root),))
    return Syncer(DirectoryBlobs(root.parent / "store"), place, inputs=inputs, is_full=lambda _: is_full)


def write(path: Path, text: str, *, at: float | None = LONG_AGO) -> Path:
    """A file written at that time; None: now, with the times that the kernel gives it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if at is not None:
        os.utime(path, (at, at))
    return path


def put(path: Path, text: str) -> Path:
    """As safetensors: a file of another name, renamed into place."""
    return write(path.parent / ".tmpSVNRet", text, at=None).rename(path)


def next_start(one: Syncer, root: Path, ending: Ending, run_id: str = "r1") -> dict[str, str]:
    """The files that the next attempt finds, after the last sync of this one, on another node."""
    blobs = DirectoryBlobs(root.parent / "store")
    with suppress(Unstable):
        one.sync(ending)
    mend(blobs, root, seen_at=str(root), torn=one.left_out, put_back=one.put_back)
    newest = latest(blobs, run_id, "checkpoint", 0)
    elsewhere = root.parent / "elsewhere"
    fill(blobs, [read_manifest(blobs, newest)] if newest else [], elsewhere, seen_at=str(root))
    here = dict(files(root))
    assert here == dict(files(elsewhere)), "what this node has is what another is given"
    return here


def files(root: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and ".torn" not in path.parts:
            yield str(path.relative_to(root)), path.read_text()


def struck(*torn: str) -> Ending:
    return Ending(at=time.time(), clean=False, torn=dict.fromkeys(torn, 0))


def unseen() -> Ending:
    """The runner was killed: nobody saw what was cut short."""
    return Ending(at=time.time(), clean=False, torn=None)


def lines(step: int, count: int = 40) -> str:
    return "".join(f"tree {step} leaf {number} value {number / 7}\n" for number in range(count))


def test_text_that_is_written_over_is_no_log_while_it_runs(root: Path, one: Syncer) -> None:
    model = write(root / "model.txt", lines(1))
    assert one.sync() is not None
    with model.open("w") as file:
        file.write(lines(2, 20))
        file.flush()
        with suppress(Unstable):
            made = one.sync()
            kept = {entry.path: entry.size_bytes for entry in made.entries} if made else {}
            assert kept.get("model.txt", len(lines(1))) == len(lines(1)), "half a file"


def test_text_cut_short_while_it_was_written_over_is_as_before(root: Path, one: Syncer) -> None:
    model = write(root / "model.txt", lines(1))
    assert one.sync() is not None
    write(model, lines(2, 20), at=None)
    assert next_start(one, root, struck("model.txt")) == {"model.txt": lines(1)}


@pytest.mark.parametrize("content", [BINARY, lines(1)], ids=["binary", "text"])
def test_half_a_file_that_its_program_closed_on_a_full_disk_is_as_before(
    root: Path, full: Syncer, content: str
) -> None:
    """Its writer lives on for a moment, and leaves with an error: neither sync takes the half.

    The last one is tried until there is room again.
    """
    write(root / "model", content)
    write(root / "older", content)
    assert full.sync() is not None
    write(root / "model", f"2{content}", at=None)
    assert full.sync() is None
    assert full.restless
    write(root / "new.json", '{"whole": 1}', at=None)
    kept = next_start(syncer(root), root, struck()._replace(full=True))
    assert kept == {"model": content, "older": content, "new.json": '{"whole": 1}'}


def test_what_is_written_on_a_full_disk_is_kept_at_a_good_end(root: Path, full: Syncer) -> None:
    write(root / "model", BINARY, at=None)
    assert next_start(full, root, struck()._replace(clean=True, full=True)) == {"model": BINARY}


def test_what_was_appended_to_on_a_full_disk_is_kept(root: Path, full: Syncer) -> None:
    write(root / "history", BINARY)
    assert full.sync() is not None
    write(root / "history", BINARY * 2, at=None)
    assert next_start(full, root, struck()._replace(full=True)) == {"history": BINARY * 2}


@pytest.mark.parametrize("name", ["model_{}.bin", "step-{}/model.bin"])
@pytest.mark.parametrize("as_input", [False, True])
def test_the_checkpoint_before_is_put_back_where_all_later_ones_are_in_doubt(
    root: Path, one: Syncer, name: str, as_input: bool
) -> None:
    """Its runner was killed within the seconds in which it saved three and removed the one before."""
    write(root / name.format(6), BINARY)
    before = one.sync()
    assert before is not None
    run_id = "r2" if as_input else "r1"
    if as_input:
        one = syncer(root, run_id=run_id, inputs=[before])
    for step in (7, 8, 9):
        write(root / name.format(step), BINARY * step, at=None)
    (root / name.format(6)).unlink()
    killed = unseen()  # however long the next lines take
    with suppress(Unstable):
        one.sync()
    assert next_start(one, root, killed, run_id) == {name.format(6): BINARY}


@pytest.mark.parametrize("name", ["config.json", "model.tmp", "next.tmp/model"])
def test_the_beginning_of_the_next_save_is_no_newer_checkpoint(root: Path, one: Syncer, name: str) -> None:
    """What is lost is the time since the save that the next attempt finds."""
    write(root / "model.safetensors", BINARY)
    write(root / name, '{"step": 2}', at=LONG_AGO + 60)
    made = one.sync()
    assert made is not None
    assert made.saved_at == pytest.approx(LONG_AGO)


@pytest.mark.parametrize("number", range(3))
def test_directories_of_orbax_renamed_into_place_are_whole(root: Path, one: Syncer, number: int) -> None:
    """Saved ten times a second, then the runner is killed: everything is younger than what is doubted."""
    for step in (76, 77, 78):
        orbax(root, step, draft=False)
    if number == 1:
        orbax(root, 79, draft=True)
    if number == 2:
        (root / "76/commit_success.txt").unlink()  # an older one, being removed
    kept = next_start(one, root, unseen())
    assert {path.split("/")[0] for path in kept} - {"76"} == {"77", "78"}
    assert {path for path in kept if path.startswith("78/")} == {f"78/{name}" for name in ORBAX}


ORBAX = ("_CHECKPOINT_METADATA", "default/_METADATA", "default/d/0af1", "commit_success.txt")


def orbax(root: Path, step: int, *, draft: bool) -> None:
    path = root / f"{step}.orbax-checkpoint-tmp"
    for name in ORBAX[: 2 if draft else None]:
        inside = name.replace("default/", "default.orbax-checkpoint-tmp/")
        write(path / inside, f"{step}", at=None)
    if not draft:
        (path / "default.orbax-checkpoint-tmp").rename(path / "default")
        path.rename(root / f"{step}")


TRAINER_STAGES = (
    ("config.json",),
    ("config.json", ".tmpSVNRet"),
    ("config.json", "model.safetensors"),
    ("config.json", "model.safetensors", "training_args.bin"),
    ("config.json", "model.safetensors", "training_args.bin", "optimizer.pt", "scheduler.pt"),
    (
        "config.json",
        "model.safetensors",
        "training_args.bin",
        "optimizer.pt",
        "scheduler.pt",
        "rng_state.pth",
    ),
)
TRAINER = (*TRAINER_STAGES[-1], "trainer_state.json")


@pytest.mark.heavy
@pytest.mark.parametrize("stage", [(), *TRAINER_STAGES], ids=len)
@pytest.mark.parametrize("before", [(), (9,)], ids=["first", "second"])
@pytest.mark.parametrize("ending", [struck, unseen])
def test_a_checkpoint_of_the_trainer_without_its_state_is_none(
    root: Path, one: Syncer, stage: tuple[str, ...], before: tuple[int, ...], ending: Callable[[], Ending]
) -> None:
    """Every file in it was closed by a living process, or renamed: the whole is half all the same."""
    for step in before:
        for name in TRAINER:
            write(root / f"checkpoint-{step}/{name}", f"{step}")
    one.sync()
    (root / "checkpoint-12").mkdir(exist_ok=True)
    for name in stage:
        path = root / f"checkpoint-12/{name}"
        put(path, BINARY) if name == "model.safetensors" else write(path, BINARY, at=None)
    kept = next_start(one, root, ending())
    assert {path.split("/")[0] for path in kept} == {f"checkpoint-{step}" for step in before}
    assert not (root / "checkpoint-12").exists(), "the Trainer takes the highest number, whatever is in it"


@pytest.mark.parametrize("stage", TRAINER_STAGES[2:], ids=len)
def test_a_checkpoint_of_the_trainer_that_is_being_assembled_is_in_no_version(
    root: Path, one: Syncer, stage: tuple[str, ...]
) -> None:
    """A long save: nothing has changed for a while, and nothing is open."""
    for name in TRAINER:
        write(root / f"checkpoint-9/{name}", "9")
    for name in stage:
        write(root / f"checkpoint-12/{name}", BINARY, at=time.time() - 30.0)
    made = one.sync()
    assert made is not None
    assert {entry.path.split("/")[0] for entry in made.entries} == {"checkpoint-9"}


def test_a_checkpoint_without_a_mark_waits_for_the_files_that_others_have(root: Path, one: Syncer) -> None:
    """As accelerate writes it: between two files it may do other work for longer than a moment."""
    names = ("model.safetensors", "optimizer.bin", "random_states_0.pkl")
    for name in names:
        write(root / f"checkpoint_1/{name}", BINARY)
    for name in names[:2]:
        write(root / f"checkpoint_2/{name}", BINARY, at=time.time() - 6.0)
    made = one.sync()
    assert made is not None
    assert {entry.path.split("/")[0] for entry in made.entries} == {"checkpoint_1"}
    assert {path.split("/")[0] for path in next_start(one, root, struck())} == {"checkpoint_1"}


def test_shards_of_two_steps_are_no_checkpoint(root: Path, one: Syncer) -> None:
    """`save_pretrained` into the same directory: the index is written last, and is there from before."""
    for name in (*SHARDS, INDEX):
        write(
            root / name,
            json.dumps({"weight_map": dict(zip("ab", SHARDS, strict=True))}) if name == INDEX else "1",
        )
    assert one.sync() is not None
    put(root / SHARDS[0], "2")
    kept = next_start(one, root, struck())
    assert {kept[name] for name in SHARDS} == {"1"}


@pytest.mark.parametrize("shards", [1, 2])
def test_shards_without_their_index_are_no_checkpoint(root: Path, one: Syncer, shards: int) -> None:
    for name in (*SHARDS, INDEX):
        write(root / f"step-1/{name}", json.dumps({"weight_map": {}}) if name == INDEX else "1")
    assert one.sync() is not None
    for name in SHARDS[:shards]:
        write(root / "step-2/config.json", "{}", at=None)
        put(root / f"step-2/{name}", "2")
    kept = next_start(one, root, struck())
    assert {path.split("/")[0] for path in kept} == {"step-1"}


def test_shards_without_their_first_index_are_no_checkpoint(root: Path, one: Syncer) -> None:
    """`save_pretrained` into the directory itself, cut while its index was being written."""
    for name in SHARDS:
        put(root / name, "1")
    write(root / INDEX, '{"weight_map": {', at=None)
    assert next_start(one, root, struck(INDEX)) == {}


def test_drafts_of_safetensors_and_empty_directories_are_in_no_version(root: Path, one: Syncer) -> None:
    """Each process that is struck leaves one: a file with a name by chance, or a directory just made."""
    write(root / "model.safetensors", BINARY)
    write(root / ".tmpx7Yq0B", BINARY)
    (root / "step-7").mkdir()
    made = one.sync()
    assert made is not None
    assert [entry.path for entry in made.entries] == ["model.safetensors"]


@pytest.mark.parametrize("place", ["", "step-1/"])
def test_a_checkpoint_of_dcp_with_its_metadata_is_whole(root: Path, one: Syncer, place: str) -> None:
    """Its runner was killed just after the save: nobody saw the files closed, the mark tells."""
    names = [f"{place}{name}" for name in ("__0_0.distcp", "__1_0.distcp")]
    for name in names:
        write(root / name, BINARY, at=None)
    write(root / f"{place}.metadata.tmp", BINARY, at=None).rename(root / f"{place}.metadata")
    assert next_start(one, root, unseen()).keys() == {*names, f"{place}.metadata"}


@pytest.mark.parametrize("done", range(3))
def test_a_checkpoint_of_dcp_without_its_metadata_is_none(root: Path, one: Syncer, done: int) -> None:
    for name in ("__0_0.distcp", "__1_0.distcp", ".metadata"):
        write(root / f"step-1/{name}", "1")
    assert one.sync() is not None
    for name in ("__0_0.distcp", "__1_0.distcp", ".metadata.tmp")[: done + 1]:
        write(root / f"step-2/{name}", "2", at=None)
    kept = next_start(one, root, struck())
    assert {path.split("/")[0] for path in kept} == {"step-1"}


def test_a_checkpoint_of_dcp_that_was_being_written_over_is_as_before(root: Path, one: Syncer) -> None:
    """The metadata are those of before until the end: only the times show that the parts are newer."""
    for name in ("__0_0.distcp", "__1_0.distcp", ".metadata"):
        write(root / f"same/{name}", "1")
    assert one.sync() is not None
    write(root / "same/__0_0.distcp", "2", at=None)
    kept = next_start(one, root, struck())
    assert set(kept.values()) == {"1"}


@pytest.mark.parametrize("torn_latest", [False, True])
def test_what_deepspeed_has_not_named_latest_is_none(root: Path, one: Syncer, torn_latest: bool) -> None:
    for name in ("mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"):
        write(root / f"global_step1/{name}", "1")
    write(root / "latest", "global_step1")
    assert one.sync() is not None
    write(root / "global_step2/mp_rank_00_model_states.pt", "2", at=None)
    if torn_latest:
        write(root / "global_step2/zero_pp_rank_0_mp_rank_00_optim_states.pt", "2", at=None)
        write(root / "latest", "", at=None)
    kept = next_start(one, root, struck("latest") if torn_latest else struck())
    assert kept["latest"] == "global_step1"
    assert {path.split("/")[0] for path in kept} - {"global_step2"} == {"global_step1", "latest"}
    assert torn_latest or "global_step2/mp_rank_00_model_states.pt" not in kept


def test_what_is_named_latest_is_kept_however_young(root: Path, one: Syncer) -> None:
    for step in (1, 2):
        for name in ("mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"):
            write(root / f"global_step{step}/{name}", f"{step}", at=None)
        write(root / "latest", f"global_step{step}", at=None)
    made = one.sync()
    assert made is not None
    kept = [entry.path for entry in made.entries if entry.kind == FILE]
    assert len(kept) == 5, kept


def test_the_checkpoint_of_the_sdk_is_the_one_that_its_link_names(root: Path) -> None:
    """A program that is ended between naming step-14 and moving the link resumes from step-13."""
    for step in (13, 14):
        write(root / f"step-{step}/model", BINARY, at=LONG_AGO + step)
    (root / "latest").symlink_to("step-13")
    first = syncer(root).sync()
    assert first is not None
    assert (round(first.saved_at - LONG_AGO), first.step) == (13, 13)
    assert read_manifest(DirectoryBlobs(root.parent / "store"), first.version) == first
    (root / "latest").unlink()
    second = syncer(root).sync()
    assert second is not None
    assert (round(second.saved_at - LONG_AGO), second.step) == (14, None)
