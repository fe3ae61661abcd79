"""What becomes a version at the end of an attempt and while it runs (I14): all whole files, and no half."""

from __future__ import annotations

import io
import mmap
import os
import time
import zipfile
from pathlib import Path

import pytest

from tarmac.artifacts.versions.blobs import DirectoryBlobs
from tarmac.artifacts.versions.logs import LOG_S, Logs
from tarmac.artifacts.versions.manifest import Manifest, read_manifest
from tarmac.artifacts.versions.restore import mend
from tarmac.artifacts.versions.select_stable import Ending
from tarmac.artifacts.versions.sync import Place, Syncer

LONG_AGO = time.time() - 3600


def syncer(blobs: DirectoryBlobs, root: Path) -> Syncer:
    place = Place(run_id="r1", attempt=1, kind="checkpoint", rank=0, root=str(root), seen_at=(str(root),))
    return Syncer(blobs, place)


def write(path: Path, text: str, *, at: float = LONG_AGO) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))
    return path


def paths(manifest: Manifest | None) -> list[str]:
    return [entry.path for entry in manifest.entries] if manifest is not None else []


def ending(*torn: str) -> Ending:
    return Ending(at=time.time(), clean=False, torn=dict.fromkeys(torn, 0))


BINARY = "\0\1\2"


def test_a_file_cut_short_at_the_end_stays_as_it_was_and_holds_up_nothing(
    root: Path, blobs: DirectoryBlobs
) -> None:
    model = write(root / "model", BINARY + "whole")
    first = syncer(blobs, root).sync()
    assert first is not None
    write(model, BINARY, at=time.time())
    write(root / "other", "finished a moment ago", at=time.time())
    one = syncer(blobs, root)
    second = one.sync(ending("model"))
    assert second is not None
    assert (paths(second), one.left_out, second.left_out) == (["model", "other"], ("model",), ("model",))
    assert read_manifest(blobs, second.version) == second
    assert [entry.path for entry in one.put_back] == ["model"]
    mend(blobs, root, seen_at=str(root), torn=one.left_out, put_back=one.put_back)
    assert model.read_text() == BINARY + "whole"
    assert (root / ".torn/model").read_text() == BINARY
    assert syncer(blobs, root).sync() is None, "that is how it is kept"


def test_what_was_taken_between_the_death_of_its_writer_and_the_word_of_it_does_not_stand(
    root: Path, blobs: DirectoryBlobs
) -> None:
    model = write(root / "model", BINARY + "whole")
    new = write(root / "new", BINARY + "whole")
    one = syncer(blobs, root)
    assert one.sync() is not None
    for path in (model, new):
        write(path, BINARY, at=LONG_AGO + 1)
    new.rename(root / "newer")
    assert paths(one.sync()) == ["model", "newer"], "closed, and open nowhere: by the death of its writer"
    last = one.sync(ending("model", "newer"))
    assert last is not None
    assert (paths(last), one.left_out, last.size_bytes) == (["model"], ("model", "newer"), 8)
    mend(blobs, root, seen_at=str(root), torn=one.left_out, put_back=one.put_back)
    assert model.read_text() == BINARY + "whole"


def test_a_directory_taken_with_what_was_torn_in_it_does_not_stand_either(
    root: Path, blobs: DirectoryBlobs
) -> None:
    write(root / "run/checkpoint-1/model", BINARY)
    one = syncer(blobs, root)
    assert one.sync() is not None
    write(root / "run/checkpoint-2/model", BINARY + "half")
    assert "run/checkpoint-2/model" in paths(one.sync())
    last = one.sync(ending("run/checkpoint-2/model"))
    assert paths(last) == ["run", "run/checkpoint-1", "run/checkpoint-1/model"]
    assert one.left_out == ("run/checkpoint-2",)


def test_what_was_closed_before_the_end_is_kept_however_late_it_was(
    root: Path, blobs: DirectoryBlobs
) -> None:
    """torchrun always leaves with 1 after a signal: what was finished before is no less whole."""
    write(root / "epoch-3/model", "whole", at=time.time())
    made = syncer(blobs, root).sync(ending())
    assert paths(made) == ["epoch-3", "epoch-3/model"]


def test_where_nobody_saw_the_end_what_was_renamed_is_whole_and_what_was_just_written_is_not(
    root: Path, blobs: DirectoryBlobs
) -> None:
    """No watches are left, or too much happened at once: then times must tell."""
    (root / "in place").write_bytes(b"\0half")
    (root / "draft").write_bytes(b"\0whole")
    before = (root / "draft").stat()
    while (root / "draft").stat().st_ctime_ns <= before.st_mtime_ns:
        (root / "draft").rename(root / "renamed")
        (root / "renamed").rename(root / "draft")
    (root / "draft").rename(root / "renamed")
    write(root / "earlier", BINARY)
    unseen = Ending(at=time.time(), clean=False)
    assert paths(syncer(blobs, root).sync(unseen)) == ["earlier", "renamed"]


def test_an_input_that_was_being_written_over_is_put_back(root: Path, blobs: DirectoryBlobs) -> None:
    """Before the run has a version of its own: else its next attempt would start at 0."""
    model = write(root / "model", BINARY + "whole")
    given = syncer(blobs, root).sync()
    assert given is not None
    place = Place(run_id="r2", attempt=1, kind="checkpoint", rank=0, root=str(root), seen_at=(str(root),))
    one = Syncer(blobs, place, inputs=[given])
    write(model, BINARY + "half", at=time.time())
    assert paths(one.sync(ending("model"))) == ["model"]
    mend(blobs, root, seen_at=str(root), torn=one.left_out, put_back=one.put_back)
    assert model.read_text() == BINARY + "whole"


def test_half_a_checkpoint_of_several_files_leaves_out_all_of_it_and_no_other(
    root: Path, blobs: DirectoryBlobs
) -> None:
    for number in (50, 100):
        write(root / f"run/checkpoint-{number}/model", BINARY)
        write(root / f"run/checkpoint-{number}/deep/optimizer", BINARY)
    one = syncer(blobs, root)
    made = one.sync(ending("run/checkpoint-100/deep/optimizer"))
    assert one.left_out == ("run/checkpoint-100",)
    assert {path.split("/")[1] for path in paths(made) if "/" in path} == {"checkpoint-50"}
    mend(blobs, root, seen_at=str(root), torn=one.left_out, put_back=one.put_back)
    assert sorted(path.name for path in (root / "run").iterdir()) == ["checkpoint-50"]


def test_a_file_beside_others_of_its_kind_is_left_out_alone(root: Path, blobs: DirectoryBlobs) -> None:
    """In run_1 lie checkpoints: it is none itself."""
    for step in (1, 2, 3):
        write(root / f"run_1/model_{step}.pt", BINARY)
    made = syncer(blobs, root).sync(ending("run_1/model_3.pt"))
    assert paths(made) == ["run_1", "run_1/model_1.pt", "run_1/model_2.pt"]


LOGS = {
    "events.out.tfevents.1": BINARY,
    "study.db": "SQLite format 3\0" + BINARY,
    "study.db-wal": BINARY,
}
NO_LOGS = {
    "train.log": "step 1\nst",
    "metrics.jsonl": '{"step": 1}\n{"st',
    "model.pt": BINARY,
    "state.json": '{"step": 1,\n "loss"',
    "empty": "",
}


def test_a_log_cut_short_is_kept_as_far_as_it_goes(root: Path, blobs: DirectoryBlobs) -> None:
    for name, text in {**LOGS, **NO_LOGS}.items():
        write(root / name, text)
    one = syncer(blobs, root)
    made = one.sync(ending(*LOGS, *NO_LOGS))
    assert set(paths(made)) == set(LOGS)
    assert set(one.left_out) == set(NO_LOGS)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize("closes", [False, True], ids=["held open", "written over"])
def test_text_is_a_log_once_it_was_held_open_and_only_grew(
    root: Path, blobs: DirectoryBlobs, closes: bool
) -> None:
    """A checkpoint of text may begin with the same lines each time; but its program closes it in between."""
    clock = Clock()
    place = Place(run_id="r1", attempt=1, kind="checkpoint", rank=0, root=str(root), seen_at=(str(root),))
    one = Syncer(blobs, place, logs=Logs(str(root), clock))
    text = root / "text"
    file = text.open("w")
    for step in range(3):
        if closes:
            file.close()
            file = text.open("w")
        file.write("a line\n" * (step + 1))
        file.flush()
        made = one.sync()
        clock.now_s += LOG_S
    assert paths(made) == ([] if closes else ["text"])
    file.write("a line\nhalf")
    file.close()
    last = one.sync(ending("text"))
    assert (one.left_out, paths(last)) == ((("text",), []) if closes else ((), ["text"]))


def test_what_was_cleared_and_grew_again_is_no_log(root: Path, blobs: DirectoryBlobs) -> None:
    """It begins with what was there before; that it was cleared shows that it was written over."""
    table = write(root / "table.csv", "a,b\n1,2\n")
    assert syncer(blobs, root).sync() is not None
    write(table, "a,b\n1,2\n3,", at=time.time())
    one = syncer(blobs, root)
    assert one.sync(Ending(at=time.time(), clean=False, torn={"table.csv": 0})) is None
    assert [entry.path for entry in one.put_back] == ["table.csv"]
    assert one.sync(Ending(at=time.time(), clean=False, torn={"table.csv": 8})) is not None


def test_a_checkpoint_before_stays_where_the_only_one_is_half_written(
    root: Path, blobs: DirectoryBlobs
) -> None:
    """Its program had removed it already, or moved on within seconds: there is none else."""
    for name in ("step-70/model", "model_70.pt"):
        write(root / name, BINARY + "70")
    assert syncer(blobs, root).sync() is not None
    (root / "step-70/model").unlink()
    (root / "step-70").rmdir()
    (root / "model_70.pt").rename(root / "model_71.pt")
    for name in ("step-71/model", "model_71.pt"):
        write(root / name, BINARY, at=time.time())
    write(root / "other", "new")
    one = syncer(blobs, root)
    last = one.sync(ending("step-71/model", "model_71.pt"))
    assert paths(last) == ["model_70.pt", "other", "step-70", "step-70/model"]
    mend(blobs, root, seen_at=str(root), torn=one.left_out, put_back=one.put_back)
    assert (root / "step-70/model").read_text() == (root / "model_70.pt").read_text() == BINARY + "70"
    assert last is not None
    assert last.saved_at == pytest.approx(LONG_AGO), "that is what the next attempt goes on from"


def test_a_save_that_failed_is_no_checkpoint(root: Path, blobs: DirectoryBlobs) -> None:
    """The disk was full: its program closed the file itself, and left with an error."""
    (root / "last.pt").write_bytes(archive())
    os.utime(root / "last.pt", (LONG_AGO, LONG_AGO))
    assert syncer(blobs, root).sync() is not None
    (root / "last.pt").write_bytes(archive(cut=30))
    (root / "new.json").write_text('{"step": 1,')
    one = syncer(blobs, root)
    assert one.sync() is None
    assert one.sync(ending()) is None
    assert one.left_out == ("last.pt", "new.json")
    assert [entry.path for entry in one.put_back] == ["last.pt"]


def test_an_empty_file_is_no_checkpoint(root: Path, blobs: DirectoryBlobs) -> None:
    """The disk was full: nothing was written, and its program closed the file. A mark may be empty."""
    for name, text in {"model_38.pt": BINARY, "model_39.pt": "", "DONE": ""}.items():
        write(root / name, text)
    one = syncer(blobs, root)
    assert paths(one.sync()) == ["DONE", "model_38.pt"]
    assert one.left_out == ("model_39.pt",)


def archive(*, cut: int = 0) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("data", b"\0" * 1000)
    return file.getvalue()[: len(file.getvalue()) - cut]


def tensors(*, cut: int = 0) -> bytes:
    header = b'{"w": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}}'
    whole = len(header).to_bytes(8, "little") + header + b"\0" * 8
    return whole[: len(whole) - cut]


def test_a_format_that_shows_that_all_is_there_settles_a_doubt(root: Path, blobs: DirectoryBlobs) -> None:
    """Its writer was struck in the moment in which it closed the file: before, or after?"""
    changed = bytearray(archive())
    changed[100] = 1
    files = {"a.pt": archive(), "b.pt": archive(cut=1), "c.pt": bytes(changed)}
    files |= {"a.safetensors": tensors(), "b.safetensors": tensors(cut=1), "x.bin": b"\2" + b"\0" * 7 + b"[]"}
    files |= {"a.json": b'{\n"step": 6}\n', "b.json": b'{\n"step": 6', "empty": b"", "latest": b"step-6"}
    for name, content in files.items():
        (root / name).write_bytes(content)
    made = syncer(blobs, root).sync(ending(*files))
    assert paths(made) == ["a.json", "a.pt", "a.safetensors", "latest"]


def test_what_was_appended_to_is_kept_with_all_that_came(root: Path, blobs: DirectoryBlobs) -> None:
    history = write(root / "history", BINARY)
    assert syncer(blobs, root).sync() is not None
    write(history, BINARY * 2, at=time.time())
    made = syncer(blobs, root).sync(Ending(at=time.time(), clean=False, torn={"history": len(BINARY)}))
    assert made is not None
    assert made.size_bytes == 2 * len(BINARY)


def test_a_directory_that_still_gets_files_waits_for_a_moment_and_earlier_ones_do_not(
    root: Path, blobs: DirectoryBlobs
) -> None:
    """Each file is closed, but who writes one after the other may not be through."""
    for number in (1, 2):
        write(root / f"step-{number}/shard-0", "whole", at=time.time())
    one = syncer(blobs, root)
    assert paths(one.sync()) == ["step-1", "step-1/shard-0"]
    assert (one.left_out, one.restless) == (("step-2",), True)
    os.utime(root / "step-2/shard-0", (LONG_AGO, LONG_AGO))
    made = one.sync()
    assert "step-2/shard-0" in paths(made)
    assert (one.left_out, made.left_out if made else None) == ((), ())


def test_a_file_that_is_mapped_to_be_changed_is_being_written(root: Path, blobs: DirectoryBlobs) -> None:
    path = root / "model"
    path.write_bytes(b"\0" * 8192)
    os.utime(path, (LONG_AGO, LONG_AGO))
    with path.open("r+b") as file:
        space = mmap.mmap(file.fileno(), 8192)
    assert paths(syncer(blobs, root).sync()) == []
    space.close()
    assert paths(syncer(blobs, root).sync()) == ["model"]


@pytest.mark.parametrize("seen", [True, False], ids=["somebody saw it", "nobody saw it"])
def test_where_all_that_was_ever_taken_is_torn_the_last_version_holds_nothing(
    root: Path, blobs: DirectoryBlobs, seen: bool
) -> None:
    """The first save was cut short, and a sync took it before the word of it: nobody may be given that."""
    model = root / "model"
    model.write_text(BINARY)
    one = syncer(blobs, root)
    assert paths(one.sync()) == ["model"], "closed, and open nowhere: by the death of its writer"
    end = ending("model") if seen else Ending(at=time.time(), clean=False)
    last = one.sync(end)
    assert last is not None
    assert (paths(last), last.left_out, last.version.number) == ([], ("model",), 2)
    mend(blobs, root, seen_at=str(root), torn=one.left_out, put_back=one.put_back)
    assert not model.exists()
    assert syncer(blobs, root).sync() is None


def test_where_nobody_saw_the_end_what_a_version_took_just_before_it_does_not_stand(
    root: Path, blobs: DirectoryBlobs
) -> None:
    """Nor does a sync know who closed a file; it may run between the death of the writer and the end."""
    model = write(root / "model", BINARY + "whole")
    one = syncer(blobs, root)
    whole = one.sync()
    model.write_text(BINARY + "half")
    assert one.sync() is not None
    last = one.sync(Ending(at=time.time(), clean=False))
    assert whole is not None
    assert last is not None
    assert last.entries == whole.entries
    assert [entry.path for entry in one.put_back] == ["model"]


def test_until_something_is_saved_on_an_older_version_the_newest_stands(
    root: Path, blobs: DirectoryBlobs
) -> None:
    model = write(root / "model", BINARY + "old", at=LONG_AGO)
    old = syncer(blobs, root).sync()
    write(model, BINARY + "new", at=LONG_AGO + 60)
    new = syncer(blobs, root).sync()
    assert old is not None
    assert new is not None
    write(model, BINARY + "old", at=LONG_AGO)
    place = Place(run_id="r1", attempt=3, kind="checkpoint", rank=0, root=str(root), seen_at=(str(root),))
    one = Syncer(blobs, place, older=old)
    assert one.sync() is None
    write(root / "events.out.tfevents.1", "a log")
    assert one.sync(ending()) is None
    assert one.last is not None
    assert one.last.version == old.version
    write(model, BINARY + "newer", at=LONG_AGO + 120)
    third = one.sync()
    assert third is not None
    assert third.version.number == new.version.number + 1
