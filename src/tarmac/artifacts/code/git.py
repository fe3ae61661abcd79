"""`RepositoryCodeStore`: git repositories as snapshots, named by their content like all others.

Wired in `server/wiring.py` over the store of directories. One commit is fetched without its history into a
cache, its files are written to a temporary directory and stored as a directory; submodules are fetched like
separate repositories, so that a repository's content can cause nothing that its URL could not.
"""

import configparser
import hashlib
import os
import posixpath
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from tarmac.artifacts.code.gitcache import Git, GitFailed, Repo, cached
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.ports import CodeStore, StagedCode
from tarmac.model.secret import SecretUse, SecretValues, no_secrets
from tarmac.model.spec import LocalDirectory, Repository
from tarmac.node.files import gitrules
from tarmac.node.files.gitrules import GitRules, Refused

DEFAULT_TIMEOUT_S = 1800.0
DEFAULT_LIMIT_BYTES = 1 << 30
MOST_ENTRIES = 500_000
MOST_SUBMODULES = 100
DEEPEST = 8
LARGEST_SHOWN = 5

_PARTIAL = ".partial-"
_GITLINK, _FILE = b"160000", b"blob"


@dataclass(slots=True)
class _Budget:
    """The remaining limits of one run's code."""

    bytes_left: int
    entries_left: int
    submodules_left: int


@dataclass
class RepositoryCodeStore:
    """Implements the ports `CodeStore` and `FetchesCode`; thread-safe. `directories` stores the snapshots."""

    directories: CodeStore
    root: Path
    _: KW_ONLY
    rules: GitRules
    timeout_s: float = DEFAULT_TIMEOUT_S
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    secrets: SecretValues = no_secrets

    def __post_init__(self) -> None:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for leftover in self.root.glob(f"{_PARTIAL}*"):  # of an interrupted server: a home has only one
            shutil.rmtree(leftover, ignore_errors=True)

    def stage(self, code: LocalDirectory | Repository) -> StagedCode:
        if isinstance(code, Repository):
            return self.fetch(code, lambda: True)
        return self.directories.stage(code)

    def check_sent(self, code: LocalDirectory) -> None:
        self.directories.check_sent(code)

    def fetch(
        self, code: Repository, proceed: Callable[[], bool], *, secret: SecretUse | None = None
    ) -> StagedCode:
        if secret is None:
            return self._fetch(code, proceed, self.rules, owner="")
        value = self.secrets([secret])[secret.name]
        with _key_in_memory(value) as path:
            rules = self.rules._replace(key=path)
            return self._fetch(code, proceed, rules, owner=hashlib.sha256(value.encode()).hexdigest())

    def _fetch(
        self, code: Repository, proceed: Callable[[], bool], rules: GitRules, *, owner: str
    ) -> StagedCode:
        """`owner` names the key: the cached content of one key is not given to runs with another."""
        url = gitrules.shown(code.url)
        git = Git(
            rules=rules,
            deadline=time.monotonic() + self.timeout_s,
            limit_bytes=self.limit_bytes,
            proceed=proceed,
            owner=owner,
        )
        budget = _Budget(self.limit_bytes, MOST_ENTRIES, MOST_SUBMODULES)
        try:
            with tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=self.root) as partial:
                tree = Path(partial) / "tree"
                tree.mkdir(mode=0o755)
                commit = self._place(git, code, tree, budget, depth=0)
                staged = self._snapshot(tree, f"{url} at {commit[:12]}")
        except Refused as refused:
            raise InvalidInput(str(refused)) from None
        except GitFailed as failed:
            hint = gitrules.hint_for(failed.lines)
            raise InvalidInput(f"git could not fetch {url}: {failed}", hint=hint) from None
        except OSError as error:
            raise Unavailable(f"what git fetched cannot be kept in {self.root}: {error.strerror}") from None
        return StagedCode(digest=staged.digest, commit=commit)

    def _snapshot(self, tree: Path, name: str) -> StagedCode:
        """The snapshot of the tree; problems are reported with the repository's own paths."""
        try:
            return self.directories.stage(LocalDirectory(path=str(tree), whole=True))
        except InvalidInput as refused:
            problems = [
                f"{(problem.file or '').removeprefix(f'{tree}/')} {problem.message}".strip()
                for problem in refused.problems
            ]
            raise InvalidInput(f"{name}: {'; '.join(problems)}") from None

    def _place(self, git: Git, code: Repository, tree: Path, budget: _Budget, *, depth: int) -> str:
        """Write the files of a repository into `tree`; returns their commit."""
        url = gitrules.check_url(code.url, git.rules)
        with cached(self.root, url, git) as repo:
            commit = _resolved(repo, code)
            repo.ensure(commit)
            links = _extract(git, repo.objects, commit, tree, budget)
        if code.submodules and links:
            urls = _submodule_urls(tree / ".gitmodules", url)
            for path, linked in links.items():
                if path in urls:
                    inner = Repository(url=urls[path], commit=linked, submodules=True)
                    self._submodule(git, inner, _inside(tree, path), budget, depth=depth + 1)
        return commit

    def _submodule(self, git: Git, code: Repository, tree: Path, budget: _Budget, *, depth: int) -> None:
        budget.submodules_left -= 1
        if budget.submodules_left < 0 or depth > DEEPEST:
            raise InvalidInput(f"it has more than {MOST_SUBMODULES} submodules, or nests them too deep")
        tree.mkdir(parents=True, exist_ok=True)
        try:
            self._place(git, code, tree, budget, depth=depth)
        except (Refused, GitFailed) as problem:
            raise InvalidInput(f"its submodule {tree.name!r}: {problem}") from None


def _resolved(repo: Repo, code: Repository) -> str:
    """The full name of the requested commit: a commit takes precedence over a branch."""
    if code.commit is None:
        return repo.tip(gitrules.check_reference(code.branch) if code.branch is not None else None)
    commit = gitrules.check_commit(code.commit)
    return commit if gitrules.is_whole(commit) else repo.whole(commit)


def _extract(git: Git, objects: Path, commit: str, tree: Path, budget: _Budget) -> dict[str, str]:
    """Write the files of a commit; returns its submodules by path. Raises InvalidInput beyond the limits."""
    links: dict[str, str] = {}
    sizes: list[tuple[int, str]] = []
    for mode, kind, name, size_bytes, path in _entries(
        git.run("ls-tree", "-r", "-l", "-z", "--full-tree", commit, around=objects)
    ):
        if mode == _GITLINK:
            links[path] = name
        elif kind == _FILE:
            sizes.append((size_bytes, path))
    budget.entries_left -= len(sizes)
    budget.bytes_left -= sum(size_bytes for size_bytes, _ in sizes)
    if budget.entries_left < 0:
        raise InvalidInput(f"it has more than the {MOST_ENTRIES:,} files allowed")
    if budget.bytes_left < 0:
        largest = ", ".join(
            f"{path} ({size_bytes / 2**20:,.1f} MiB)"
            for size_bytes, path in sorted(sizes, key=lambda item: (-item[0], item[1]))[:LARGEST_SHOWN]
        )
        raise InvalidInput(
            f"its files are more than the {git.limit_bytes / 2**20:,.0f} MiB of code allowed; "
            f"the largest: {largest}"
        )
    variables = {"GIT_INDEX_FILE": f"{tree}.index", "GIT_WORK_TREE": str(tree), "GIT_DIR": str(objects)}
    git.run("read-tree", commit, around=tree, variables=variables)
    git.run("checkout-index", "--all", "--force", "--quiet", around=tree, variables=variables)
    Path(f"{tree}.index").unlink()
    return links


def _entries(listing: bytes) -> Iterator[tuple[bytes, bytes, str, int, str]]:
    """(mode, kind, object, size, path) of each line of ls-tree."""
    for line in listing.split(b"\0"):
        about, _, path = line.partition(b"\t")
        if path:
            mode, kind, name, size = about.split()
            yield mode, kind, name.decode(), int(size) if size.isdigit() else 0, os.fsdecode(path)


def _submodule_urls(path: Path, parent: str) -> Mapping[str, str]:
    """The URLs of the submodules by path; raises InvalidInput for an unreadable file."""
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#", ";"))
    try:
        if path.is_symlink():
            raise ValueError("it is a link")
        text = path.read_text(encoding="utf-8")
        parser.read_string("\n".join(line.strip() for line in text.splitlines()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, configparser.Error):
        raise InvalidInput("its .gitmodules cannot be read") from None
    found = {}
    for section in parser.sections():
        place, url = (parser.get(section, key, fallback="").strip('"') for key in ("path", "url"))
        if place and url:
            found[place] = joined(parent, url) if url.startswith(("./", "../")) else url
    return found


def joined(parent: str, relative: str) -> str:
    """A URL relative to that of its repository, resolved as git does."""
    base = parent.rstrip("/")
    while relative.startswith(("./", "../")):
        if relative.startswith("./"):
            relative = relative[2:]
            continue
        relative = relative[3:]
        cut = max(base.rfind("/"), base.rfind(":"))
        base = base[: cut if base[cut] == "/" else cut + 1] if cut >= 0 else base
    return base + relative if base.endswith(":") else f"{base}/{relative}"


def _inside(tree: Path, path: str) -> Path:
    """The path of a submodule inside the tree; raises InvalidInput."""
    clean = posixpath.normpath(path)
    place = tree / clean
    if (
        clean.startswith(("/", "../"))
        or clean in ("..", ".")
        or tree.resolve() not in place.resolve().parents
    ):
        raise InvalidInput(f"its submodule {path!r} would lie outside")
    return place


@contextmanager
def _key_in_memory(key: str) -> Iterator[str]:
    """A path at which this user's processes can read the key, until the block or this process ends."""
    descriptor = os.memfd_create("deploy-key", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)  # ssh refuses a key that others can read
        file.write(key.rstrip("\n") + "\n")  # and a key without a final newline
        file.flush()
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
