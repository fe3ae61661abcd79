"""Images fetched from a registry or an archive: `node/container/pulling.py` and what it calls."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from images import BuiltImage, Entry, archive, build, registry, special
from small_bases import write_sif
from tarmac.node.container import failures
from tarmac.node.container.drivers import APPTAINER, AUTO, OWN, Facts, setting_for
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.images import Image, Images
from tarmac.node.container.pulling import Puller
from tarmac.node.container.reference import ALWAYS

LOGIN = ("ada", "lovelace")
CONTENT = os.urandom(200_000)
TWO = build(archive([("etc/a", b"1"), ("opt/big", CONTENT)]), archive([("etc/b", b"2")]), env=["A=1"])


def puller(directory: Path, lines: list[str] | None = None) -> Puller:
    return Puller(Images(str(directory)), (lines if lines is not None else []).append)


def shown(directory: Path, image: Image) -> dict[str, str]:
    """What each layer has, as names with contents."""
    found = {}
    for key in image.layers:
        layer = directory / "layers" / key
        for path in sorted(layer.rglob("*")):
            if path.is_file() and not path.is_symlink():
                found[str(path.relative_to(layer))] = path.read_bytes()[:9].decode("latin-1")
    return found


@pytest.mark.parametrize(("login", "tokens"), [(None, False), (None, True), (LOGIN, False), (LOGIN, True)])
def test_an_image_is_fetched_with_what_its_registry_asks_for(
    tmp_path: Path, login: tuple[str, str] | None, tokens: bool
) -> None:
    lines: list[str] = []
    with registry(images={"team/two:1": TWO}, login=login, tokens=tokens) as double:
        name = f"{double.address}/team/two:1"
        image = puller(tmp_path, lines).ensure(name, credentials=[":".join(login)] if login else ())
    assert (image.digest, image.env) == (TWO.digest, {"A": "1"})
    assert set(shown(tmp_path, image)) == {"etc/a", "etc/b", "opt/big"}
    assert lines[0].startswith(f"pulling {name}: ")
    assert TWO.digest in lines[-1]


def test_what_is_here_is_not_asked_for_again_but_where_that_is_said(tmp_path: Path) -> None:
    with registry(images={"two:1": TWO}) as double:
        name = f"{double.address}/two:1"
        first = puller(tmp_path).ensure(name)
        asked = len(double.requests)
        assert puller(tmp_path).ensure(name) == first == Images(str(tmp_path)).find(name)
        assert len(double.requests) == asked
        double.images["two:1"] = newer = build(archive([("etc/c", b"3")]))
        assert puller(tmp_path).ensure(name, pull=ALWAYS).digest == newer.digest
        assert puller(tmp_path).ensure(name).digest == newer.digest


def test_ten_at_once_fetch_each_layer_once(tmp_path: Path) -> None:
    with registry(images={"two:1": TWO}) as double, ThreadPoolExecutor(10) as pool:
        name = f"{double.address}/two:1"
        found = list(pool.map(lambda _: puller(tmp_path).ensure(name), range(10)))
    assert {image.digest for image in found} == {TWO.digest}
    layers = [path for path in double.pulls() if len(TWO.contents[path.rpartition("/")[2]]) > 0]
    config = max(set(layers), key=layers.count)
    assert sorted(layers.count(path) for path in set(layers) - {config}) == [1, 1]


def test_a_broken_connection_is_gone_on_with_where_it_broke(tmp_path: Path) -> None:
    with registry(images={"two:1": TWO}, break_at=50_000) as double:
        image = puller(tmp_path).ensure(f"{double.address}/two:1")
    layer = tmp_path / "layers" / image.layers[0]
    assert (layer / "opt/big").read_bytes() == CONTENT


def test_the_password_is_not_sent_to_where_layers_lie(tmp_path: Path) -> None:
    with (
        registry(images={"two:1": TWO}) as storage,
        registry(images={"two:1": TWO}, login=LOGIN, elsewhere=storage.address) as double,
    ):
        puller(tmp_path).ensure(f"{double.address}/two:1", credentials=[":".join(LOGIN)])
    assert storage.pulls()
    assert set(storage.seen) == {None}


@pytest.mark.parametrize(
    ("image", "credentials", "kind", "text"),
    [
        ("two:1", None, failures.CREDENTIALS, "is given to nobody without credentials"),
        ("two:1", "ada:wrong", failures.CREDENTIALS, "refuses the user 'ada'"),
        ("two:1", "nonsense", failures.CREDENTIALS, "user:password"),
        ("two:1", '{"auths": lovelace', failures.CREDENTIALS, "user:password"),
        ("two:2", ":".join(LOGIN), failures.UNKNOWN_TAG, "has no 2"),
        ("three:1", ":".join(LOGIN), failures.UNKNOWN_IMAGE, "there is no image"),
    ],
)
def test_what_is_wrong_is_told_apart(
    tmp_path: Path, image: str, credentials: str | None, kind: str, text: str
) -> None:
    """M6: an image that cannot be pulled, and why."""
    with registry(images={"two:1": TWO}, login=LOGIN) as double, pytest.raises(ImageProblem) as found:
        puller(tmp_path).ensure(f"{double.address}/{image}", credentials=[credentials] if credentials else ())
    assert found.value.kind == kind
    assert text in found.value.message
    assert "lovelace" not in str(found.value)


def test_a_registry_that_is_not_there(tmp_path: Path) -> None:
    with registry() as double:
        address = double.address
    with pytest.raises(ImageProblem, match="cannot be reached") as found:
        puller(tmp_path).ensure(f"{address}/two:1")
    assert found.value.kind == failures.UNREACHABLE


def test_other_bytes_than_the_digest_says_leave_no_layer(tmp_path: Path) -> None:
    first, second, _ = TWO.contents
    forged = BuiltImage(TWO.manifest, {**TWO.contents, second: TWO.contents[first]})
    with registry(images={"two:1": forged}) as double, pytest.raises(ImageProblem) as found:
        puller(tmp_path).ensure(f"{double.address}/two:1")
    assert found.value.kind in (failures.DAMAGED, failures.UNREACHABLE)
    (whole,) = (path for path in (tmp_path / "layers").iterdir() if path.suffix != ".lock")
    assert (whole / "opt/big").exists(), "of the first layer, which is what it says"


def test_an_image_for_another_machine_is_not_fetched(tmp_path: Path) -> None:
    foreign = build(archive([("a", b"1")]), architecture="mips")
    with registry(images={"foreign:1": foreign}) as double, pytest.raises(ImageProblem) as found:
        puller(tmp_path).ensure(f"{double.address}/foreign:1")
    assert found.value.kind == failures.ARCHITECTURE
    assert len(double.pulls()) == 1  # its configuration says so


def test_an_archive_is_an_image(tmp_path: Path) -> None:
    path = TWO.write_archive(tmp_path / "two.tar")
    image = puller(tmp_path / "images").ensure(str(path))
    assert set(shown(tmp_path / "images", image)) == {"etc/a", "etc/b", "opt/big"}
    (tmp_path / "broken.tar").write_bytes(b"no archive")
    with pytest.raises(ImageProblem, match="is no archive of an image"):
        puller(tmp_path / "images").ensure(str(tmp_path / "broken.tar"))
    with pytest.raises(ImageProblem, match="there is no image at"):
        puller(tmp_path / "images").ensure("/nowhere.tar")


def test_what_a_layer_removes_is_noted_for_the_overlay(tmp_path: Path) -> None:
    image = unpacked(tmp_path, [("opt/.wh.gone", b""), ("d/.wh..wh..opq", b""), ("d/new", b"1")])
    assert stat.S_ISCHR((image / "opt/gone").lstat().st_mode)
    assert (image / "opt/gone").lstat().st_rdev == 0
    assert os.getxattr(image / "d", "user.overlay.opaque") == b"y"


def test_no_layer_writes_outside_of_its_directory(tmp_path: Path) -> None:
    """The names and links of an image are a stranger's."""
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o711)
    (outside / "kept").write_text("kept")
    target = str(outside)
    image = unpacked(
        tmp_path,
        [
            ("../escaped", b"1"),
            (f"{target}/absolute", b"1"),
            ("link", special(tarfile.SYMTYPE, link=target)),
            ("link/through", b"1"),
            ("up", special(tarfile.SYMTYPE, link="../../../../../../..")),
            (f"up{target}/through", b"1"),
            ("first", special(tarfile.SYMTYPE, link="second")),
            ("kept", special(tarfile.LNKTYPE, link="link/through")),
            ("changed", special(tarfile.DIRTYPE, mode=0o777)),
            ("changed", special(tarfile.SYMTYPE, link=target)),
            ("device", special(tarfile.CHRTYPE)),
            ("pipe", special(tarfile.FIFOTYPE)),
        ],
    )
    assert [path.name for path in outside.iterdir()] == ["kept"]
    assert stat.S_IMODE(outside.stat().st_mode) == 0o711
    assert not list(tmp_path.glob("escaped"))
    assert (image / "escaped").exists()
    assert (image / target.lstrip("/") / "through").read_bytes() == b"1"
    assert not os.path.lexists(image / "device")
    assert not os.path.lexists(image / "pipe")


@pytest.mark.parametrize(
    "entries",
    [
        [("x", special(tarfile.LNKTYPE, link="/etc/passwd"))],
        [("a", special(tarfile.SYMTYPE, link="b")), ("b", special(tarfile.SYMTYPE, link="a")), ("a/c", b"1")],
    ],
)
def test_links_that_lead_nowhere_are_damage(tmp_path: Path, entries: list[tuple[str, Entry]]) -> None:
    with pytest.raises(ImageProblem) as found:
        unpacked(tmp_path, entries)
    assert found.value.kind == failures.DAMAGED


def test_no_file_of_an_image_is_run_as_somebody_else(tmp_path: Path) -> None:
    raised = special(tarfile.REGTYPE, mode=0o6755)
    image = unpacked(tmp_path, [("su", raised), ("wide", special(tarfile.DIRTYPE, mode=0o6777))])
    assert stat.S_IMODE((image / "su").stat().st_mode) == 0o755
    assert stat.S_IMODE((image / "wide").stat().st_mode) & 0o6000 == 0


def test_an_image_in_use_stays_and_shared_layers_do(tmp_path: Path) -> None:
    base = archive([("base", b"1")])
    images = Images(str(tmp_path))
    one, two = (
        puller(tmp_path).ensure(
            str(build(base, archive([(name, b"1")])).write_archive(tmp_path / f"{name}.tar"))
        )
        for name in ("one", "two")
    )
    use = images.use(one.digest)
    assert not images.remove(one.digest)
    os.close(use)
    assert images.remove(one.digest)
    assert images.by_digest(one.digest) is None
    assert images.remove(one.digest)
    assert images.all() == [two]
    assert set(shown(tmp_path, two)) == {"base", "two"}
    assert not (tmp_path / "layers" / one.layers[1]).exists()


def test_what_is_made_anew_where_something_was_removed_hides_it(tmp_path: Path) -> None:
    """In either order, and through a link of the same layer."""
    image = unpacked(
        tmp_path,
        [
            (".wh.first", b""),
            ("first/new", b"1"),
            ("second/new", b"1"),
            (".wh.second", b""),
            ("link", special(tarfile.SYMTYPE, link="/opt")),
            ("link/.wh.gone", b""),
            ("link/.wh...", b""),
        ],
    )
    assert os.getxattr(image / "first", "user.overlay.opaque") == b"y"
    assert os.getxattr(image / "second", "user.overlay.opaque") == b"y"
    assert stat.S_ISCHR((image / "opt/gone").lstat().st_mode)
    assert sorted(path.name for path in image.iterdir()) == ["first", "link", "opt", "second"]


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_headers_that_would_fill_the_memory_are_refused(tmp_path: Path, kind: bytes) -> None:
    """A stranger's layer says that a name is of gigabytes, which compress to nothing."""
    header = special(kind)
    header.name, header.size = "long", 8 * 1024**3
    layer = header.tobuf(tarfile.GNU_FORMAT) + bytes(1024)
    path = build(layer).write_archive(tmp_path / "image.tar")
    with pytest.raises(ImageProblem, match="has a header of 8,589,934,592 bytes") as found:
        puller(tmp_path / "images").ensure(str(path))
    assert found.value.kind == failures.DAMAGED


def test_what_is_said_to_be_larger_than_the_disk_is_not_begun(tmp_path: Path) -> None:
    """A sparse file of a petabyte is a few bytes in its layer."""
    path = build(sparse(10**15)).write_archive(tmp_path / "image.tar")
    with pytest.raises(
        ImageProblem, match=r"has a file of 953,674,316\.4 MiB, more than the disk of"
    ) as found:
        puller(tmp_path / "images").ensure(str(path))
    assert found.value.kind == failures.DISK_FULL


def test_zeros_take_no_room(tmp_path: Path) -> None:
    """An empty log of accounts with large numbers, or a bomb: read as it is, and not written."""
    content = bytes(3 * 1024**2) + b"end" + bytes(5 * 1024**2)
    for layer in (archive([("log/last", content)]), sparse(8 * 1024**2)):
        path = build(layer).write_archive(tmp_path / f"{len(layer)}.tar")
        image = puller(tmp_path / "images").ensure(str(path))
        directory = tmp_path / "images/layers" / image.layers[0]
        (file,) = (path for path in directory.rglob("*") if path.is_file())
        assert file.read_bytes() == (content if file.name == "last" else bytes(8 * 1024**2))
        assert file.stat().st_blocks * 512 <= 1024**2


def sparse(size: int) -> bytes:
    """A layer with one file of that size that has nothing in it."""
    entry = tarfile.TarInfo("sparse")
    said = {"major": "1", "minor": "0", "name": "sparse", "realsize": str(size)}
    entry.pax_headers = {f"GNU.sparse.{name}": value for name, value in said.items()}
    body = f"1\n{size}\n0\n".encode().ljust(512, b"\0")
    entry.size, written = len(body), io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(entry, io.BytesIO(body))
    return written.getvalue()


@pytest.mark.parametrize("number", [-5, 2**40])
def test_an_owner_that_no_system_has_is_damage(tmp_path: Path, number: int) -> None:
    entry = special(tarfile.DIRTYPE)
    entry.uid, entry.pax_headers = number, {"uid": str(number)}
    path = build(archive([("odd", entry)])).write_archive(tmp_path / "image.tar")
    if os.geteuid() != 0:
        puller(tmp_path / "images").ensure(str(path))  # which cannot give files away
        return
    with pytest.raises(ImageProblem) as found:
        puller(tmp_path / "images").ensure(str(path))
    assert found.value.kind == failures.DAMAGED


def test_a_mirror_is_asked_first_and_the_registry_for_what_it_lacks(tmp_path: Path) -> None:
    """Credentials without the name of a registry are for the one that the image names."""
    login = ":".join(LOGIN)
    with registry(images={"hub/library/two:1": TWO}) as near, registry(images={"one:1": TWO}) as far:
        mirrors = {"docker.io": f"{near.address}/hub", far.address: near.address}
        by_mirror = Puller(Images(str(tmp_path / "a")), lambda _: None, mirrors=mirrors)
        image = by_mirror.ensure("two:1", credentials=[login])
        assert (image.name, image.digest) == ("two:1", TWO.digest)
        assert set(near.seen) == {None}
        assert Images(str(tmp_path / "a")).find("docker.io/library/two:1") == image
        lines: list[str] = []
        further = Puller(Images(str(tmp_path / "b")), lines.append, mirrors=mirrors)
        assert further.ensure(f"{far.address}/one:1").digest == TWO.digest
        assert f"its mirror {near.address} does not have it" in lines[0]
        with pytest.raises(ImageProblem, match=r"no 2; and of its mirror: there is no image"):
            further.ensure(f"{far.address}/one:2")


def test_an_image_of_apptainer_is_used_unchanged_and_by_apptainer_alone(tmp_path: Path) -> None:
    """K2: nothing is unpacked or stored; without Apptainer the error says that it is missing."""
    path = str(write_sif(tmp_path / "image.sif", tmp_path))
    images = Images(str(tmp_path / "images"))
    image = puller(tmp_path / "images").ensure(path)
    assert (image.digest, image.layers) == ("", (path,))
    assert images.find(path) == image
    assert images.listing() == []
    with_it = Facts({APPTAINER: "/usr/bin/apptainer"}, root=False)
    assert setting_for(path, AUTO, with_it) == APPTAINER
    assert setting_for(str(tmp_path), OWN, with_it) == OWN
    with pytest.raises(ImageProblem, match="containers here are made by own"):
        setting_for(path, OWN, with_it)
    with pytest.raises(ImageProblem, match="neither apptainer nor singularity is installed") as missing:
        setting_for(path, AUTO, Facts({}, root=False))
    assert missing.value.hint is not None
    assert "name the image of a registry" in missing.value.hint


def unpacked(directory: Path, entries: list[tuple[str, Entry]]) -> Path:
    """The directory of the one layer of an image with these entries."""
    path = build(archive(entries)).write_archive(directory / "image.tar")
    image = puller(directory / "images").ensure(str(path))
    return directory / "images" / "layers" / image.layers[0]
