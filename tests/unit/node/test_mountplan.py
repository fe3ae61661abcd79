"""Which mounts make literal paths true, planned on disks that exist only here."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.node.kernel.mountplan import DIRECTORY, FILE, LINK, Bind, Cover, Disk, plan_mounts


class FakeDisk(Disk):
    """A disk as a table of absolute paths; `links` lead to other paths."""

    def __init__(
        self, *directories: str, files: Sequence[str] = (), links: dict[str, str] | None = None
    ) -> None:
        self.kinds = {"/": DIRECTORY, **dict.fromkeys(directories, DIRECTORY), **dict.fromkeys(files, FILE)}
        self.links = links or {}

    def kind(self, path: str) -> str | None:
        return self.kinds.get(self.real(path))

    def entries(self, path: str) -> Sequence[tuple[str, str]]:
        inside = [
            (name, kind)
            for name, kind in [*self.kinds.items(), *((link, LINK) for link in self.links)]
            if name != "/" and (name.rpartition("/")[0] or "/") == path
        ]
        return [(name.rpartition("/")[2], kind) for name, kind in inside]

    def real(self, path: str) -> str:
        for link, target in self.links.items():
            if path == link or path.startswith(f"{link}/"):
                return target + path[len(link) :]
        return path


CHECKPOINTS = Bind("/home/a/checkpoint", "/mnt/checkpoints")
CRUD = Bind("/home/a/crud", "/mnt/crud")
SOURCES = ("/home", "/home/a", "/home/a/checkpoint", "/home/a/crud")


def test_a_target_that_exists_is_only_bound() -> None:
    plan = plan_mounts([CHECKPOINTS], FakeDisk(*SOURCES, "/mnt", "/mnt/checkpoints"))
    assert plan.covers == ()
    assert plan.binds == (CHECKPOINTS,)


def test_missing_targets_share_a_cover_that_shows_all_there_was() -> None:
    disk = FakeDisk(*SOURCES, "/mnt", "/mnt/usb", files=["/mnt/readme"], links={"/mnt/link": "/home"})
    plan = plan_mounts([CHECKPOINTS, CRUD], disk)
    assert plan.covers == (
        Cover(
            "/mnt",
            (("usb", DIRECTORY), ("readme", FILE), ("link", LINK)),
            (("checkpoints", DIRECTORY), ("crud", DIRECTORY)),
        ),
    )
    assert plan.binds == (CHECKPOINTS, CRUD)
    assert plan.refused == ()


def test_files_and_deep_targets() -> None:
    disk = FakeDisk("/mnt", files=["/x/parameters.yaml"])
    wish = Bind("/x/parameters.yaml", "/mnt/config/parameters.yaml")
    assert plan_mounts([wish], disk).covers == (Cover("/mnt", (), (("config/parameters.yaml", FILE),)),)


def test_outer_covers_come_before_inner_ones() -> None:
    disk = FakeDisk(*SOURCES, "/mnt", "/mnt/nfs", "/mnt/nfs/deep")
    plan = plan_mounts([Bind("/home/a/crud", "/mnt/nfs/deep/new"), CHECKPOINTS], disk)
    assert [cover.directory for cover in plan.covers] == ["/mnt", "/mnt/nfs/deep"]


def test_a_linked_parent_is_covered_where_it_really_is() -> None:
    plan = plan_mounts([CHECKPOINTS], FakeDisk(*SOURCES, "/media", links={"/mnt": "/media"}))
    assert [cover.directory for cover in plan.covers] == ["/media"]


def test_what_cannot_be_is_refused_with_the_reason_and_the_rest_holds() -> None:
    disk = FakeDisk(*SOURCES, "/mnt", files=["/mnt/crud"])
    wishes = [
        CHECKPOINTS,
        CRUD,
        Bind("/home/a/none", "/mnt/none"),
        Bind("/home/a/crud", "/mnt/crud/below"),
    ]
    plan = plan_mounts(wishes, disk)
    assert plan.binds == (CHECKPOINTS,)
    assert dict(plan.refused) == {
        "/mnt/crud": "/mnt/crud is a file, /home/a/crud a directory",
        "/mnt/none": "/home/a/none does not exist",
        "/mnt/crud/below": "/mnt/crud is not a directory",
    }


def test_a_target_at_the_root_of_the_disk_covers_the_root_first() -> None:
    """I8: /data exists on few machines; the attempt gets a root of its own."""
    disk = FakeDisk(*SOURCES, "/mnt", "/usr", links={"/bin": "/usr"})
    data = Bind("/home/a/crud", "/data/set", read_only=True)
    plan = plan_mounts([CHECKPOINTS, data], disk)
    assert plan.refused == ()
    assert plan.binds == (CHECKPOINTS, data)
    shown = (("home", DIRECTORY), ("mnt", DIRECTORY), ("usr", DIRECTORY), ("bin", LINK))
    assert plan.covers == (
        Cover("/", shown, (("data/set", DIRECTORY),)),
        Cover("/mnt", (), (("checkpoints", DIRECTORY),)),
    )


def test_a_crowded_directory_is_not_covered() -> None:
    crowd = [f"/mnt/{number}" for number in range(501)]
    plan = plan_mounts([CHECKPOINTS], FakeDisk(*SOURCES, "/mnt", *crowd))
    assert plan.covers == ()
    assert plan.refused == (("/mnt/checkpoints", "/mnt has more than 500 entries"),)


def test_a_wish_inside_an_earlier_target_makes_that_target_show_both() -> None:
    """I8: the content of a dataset at /data itself, and again at /data/ID, which it does not have."""
    disk = FakeDisk("/mnt", "/d", "/d/train", "/e", files=["/d/readme"])
    at_data = Bind("/d", "/data", read_only=True)
    inside = Bind("/d", "/data/one", read_only=True)
    beside = Bind("/e", "/data/two", read_only=True)
    plan = plan_mounts([at_data, inside, beside], disk)
    assert plan.refused == ()
    assert plan.binds == (inside, beside)
    root, data = plan.covers
    assert root == Cover(
        "/", (("mnt", DIRECTORY), ("d", DIRECTORY), ("e", DIRECTORY)), (("data", DIRECTORY),)
    )
    shown = (("train", DIRECTORY), ("readme", FILE))
    assert data == Cover("/data", shown, (("one", DIRECTORY), ("two", DIRECTORY)), "/d", True)


def test_what_is_there_inside_an_earlier_target_is_only_bound() -> None:
    disk = FakeDisk("/d", "/d/one", "/e", "/data")
    wishes = [Bind("/d", "/data", read_only=True), Bind("/e", "/data/one", read_only=True)]
    plan = plan_mounts(wishes, disk)
    assert (plan.covers, plan.binds, plan.refused) == ((), tuple(wishes), ())


def test_the_outer_of_two_wishes_holds_where_the_inner_one_cannot() -> None:
    """A crowded dataset, one that is a single file, and a directory that is written to."""
    crowd = [f"/d/{number}" for number in range(501)]
    at_data, inside = Bind("/d", "/data", read_only=True), Bind("/d", "/data/one", read_only=True)
    plan = plan_mounts([at_data, inside], FakeDisk("/data", "/d", *crowd))
    assert plan.binds == (at_data,)
    assert plan.refused == (("/data/one", "/d has more than 500 entries"),)
    plan = plan_mounts([at_data, inside], FakeDisk("/data", files=["/d"]))
    assert plan.binds == (inside,)
    assert plan.refused == (("/data", "/d is a file, and /data/one lies below it"),)
    written = Bind("/d", "/data")
    plan = plan_mounts([written, inside], FakeDisk("/data", "/d"))
    assert (plan.covers, plan.binds) == ((), (written,))
    assert plan.refused == (("/data/one", "/d has no one"),)
