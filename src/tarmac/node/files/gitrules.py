"""Safe calls of git with untrusted names: the allowed URLs and references, and an isolated configuration.

Called by the hook `setup` on nodes and by the server to fetch code. git uses no configuration of a
user or of the machine, no hook, no credential helper, no prompt; names cannot become options; other
transports are refused.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Mapping, NamedTuple, Optional, Sequence

SAFE_TRANSPORTS = ("https", "ssh")
TRANSPORTS = ("https", "ssh", "http", "file")
"""All transports that a setting may allow: `http` is not encrypted, `file` reads this machine."""

NO_PROGRESS_S = 60
"""Seconds after which git and ssh end a connection that transfers almost nothing."""

LONGEST_URL = 2048


class GitRules(NamedTuple):
    """A machine's settings: transports, and the deploy key and known hosts for ssh."""

    transports: tuple[str, ...] = SAFE_TRANSPORTS
    key: Optional[str] = None
    known: Optional[str] = None


class Refused(Exception):
    """A name or URL that git must not get; the text gives the name and the reason."""


def check_url(url: str, rules: GitRules) -> str:
    """The URL, if it can only be a repository over an allowed transport; raises Refused."""
    if len(url) > LONGEST_URL or not _PRINTABLE.fullmatch(url):
        raise Refused("the URL of the repository has blanks, control characters or no end")
    if holds_secret(url):
        raise Refused(f"the URL {shown(url)} contains a password or token: give the machine a deploy key")
    transport = transport_of(url)
    if transport is None:
        raise Refused(f"{shown(url)} is not the URL of a git repository")
    if transport not in rules.transports:
        raise Refused(f"{shown(url)}: git may not use {transport!r} here, only {', '.join(rules.transports)}")
    return url


def check_reference(name: str) -> str:
    """The name of a branch or tag, if it cannot be anything else; raises Refused."""
    if not _REFERENCE.fullmatch(name) or ".." in name or "@{" in name or name.endswith((".lock", "/", ".")):
        raise Refused(f"{name!r:.80} is not the name of a branch or tag")
    return name


def check_commit(name: str) -> str:
    """A commit, long or short, in lower case; raises Refused."""
    if not _COMMIT.fullmatch(name):
        raise Refused(f"{name!r:.80} is not a commit of 4 to 64 hexadecimal digits")
    return name.lower()


def is_whole(commit: str) -> bool:
    """Whether the name of a commit has its full length (SHA-1 or SHA-256)."""
    return len(commit) in (40, 64)


def transport_of(url: str) -> Optional[str]:
    """The transport of a URL in one of the known forms."""
    found = _URL.fullmatch(url)
    if found is None:
        return "ssh" if _SCP.fullmatch(url) else None
    return found[1]


def holds_secret(url: str) -> bool:
    """Whether a password or token precedes the host."""
    return _SECRET.match(url) is not None


def shown(url: str) -> str:
    """A URL for display: without the part before the host, if that may be a secret."""
    return without_secrets(url)


def argv(*arguments: str) -> list[str]:
    """The argv of git with options against configuration that the environment cannot disable."""
    settings = (
        "core.hooksPath=/dev/null",
        "core.fsmonitor=false",
        "core.attributesFile=/dev/null",
        "core.autocrlf=false",
        "credential.helper=",
        "http.lowSpeedLimit=1000",
        f"http.lowSpeedTime={NO_PROGRESS_S}",
        "gc.auto=0",
        "maintenance.auto=false",
        "advice.detachedHead=false",
        "init.defaultBranch=main",
        "submodule.recurse=false",
        "protocol.version=2",
    )
    return ["git", *(word for setting in settings for word in ("-c", setting)), *arguments]


def environment(rules: GitRules, around: Mapping[str, str]) -> dict[str, str]:
    """The environment of git; from `around` it takes only variables for programs and proxies."""
    return {
        **{name: around[name] for name in _PASSED_ON if name in around},
        "HOME": "/nonexistent",  # no ~/.gitconfig, ~/.netrc, ~/.config/git; ssh asks the account instead
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "SSH_ASKPASS": "/bin/false",
        "SSH_ASKPASS_REQUIRE": "never",
        "GIT_ALLOW_PROTOCOL": ":".join(rules.transports),
        "GIT_SSH_VARIANT": "ssh",
        "GIT_SSH_COMMAND": " ".join(shlex.quote(word) for word in ssh_argv(rules)),
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_TEMPLATE_DIR": "",
        "GIT_FLUSH": "1",
    }


def ssh_argv(rules: GitRules) -> list[str]:
    """The argv of ssh for git: no prompts, known hosts only, no forwarding, no other command."""
    options = [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        "UpdateHostKeys=no",
        "ClearAllForwardings=yes",
        "ForwardAgent=no",
        "ForwardX11=no",
        "PermitLocalCommand=no",
        "ProxyCommand=none",
        "ControlMaster=no",
        "ControlPath=none",
        "ConnectTimeout=20",
        f"ServerAliveInterval={NO_PROGRESS_S // 4}",
        "ServerAliveCountMax=4",
        "LogLevel=ERROR",
    ]
    if rules.known is not None:
        options += [f"UserKnownHostsFile={_ssh_path(rules.known)}", f"GlobalKnownHostsFile={os.devnull}"]
    key: Sequence[str] = ()
    if rules.key is not None:
        options += ["IdentitiesOnly=yes", "IdentityAgent=none"]
        key = ("-i", rules.key)
    return ["ssh", "-F", os.devnull, *(f"-o{option}" for option in options), *key]


def without_secrets(line: str) -> str:
    """A line of git's or pip's output, without the secrets before a host in its URLs."""
    return _CREDENTIALS.sub(_masked, line)


def _masked(found: re.Match[str]) -> str:
    """Mask the part before a host, except an account's name for SSH."""
    transport, rest = found[1], found[2]
    return found[0] if transport == "ssh://" and ":" not in rest else f"{transport}***@"


def hint_for(lines: Sequence[str]) -> Optional[str]:
    """The remedy for a failure in git's last lines, if known."""
    text = "\n".join(lines)
    for sign, hint in _HINTS:
        if sign in text:
            return hint
    return None


_HINTS = (
    (
        "Host key verification failed",
        "the host is not among the known hosts: add its key (ssh-keyscan HOST, checked against what the host "
        "publishes) to the file that the setting git_known_hosts_file_path names",
    ),
    (
        "Permission denied (publickey",
        "the key is not accepted: keep a deploy key by `tarmac secret set NAME --as git`, and give it to the "
        "run by `--secret NAME`, or name one for all in the setting git_private_ssh_key_file_path",
    ),
    (
        "could not read Username",
        "the repository is private, or there is none: use its SSH URL with a deploy key",
    ),
    ("not found", "there is no such repository, or it is private: use its SSH URL with a deploy key"),
    ("Could not resolve host", "no machine of that name is known here"),
    ("transport '", "git may not use that transport here"),
)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE")
_PASSED_ON = ("PATH", "TMPDIR", *_PROXIES, *map(str.upper, _PROXIES), *_CERTIFICATES, "SSH_AUTH_SOCK")
_PRINTABLE = re.compile(r"[!-~]+")
_CREDENTIALS = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z0-9+.-]{1,100}://)([^/@\s'\"]*)@")
_SECRET = re.compile(r"[A-Za-z0-9+.-]+://[^/@]*:[^/@]*@|https?://[^/@]+@")
_MACHINE = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
_USER = r"[A-Za-z0-9_][A-Za-z0-9._-]*@"
_PATH = r"[A-Za-z0-9._~/%+-]+"
_URL = re.compile(rf"(https?|ssh|file)://(?:{_USER})?(?:{_MACHINE}(?::[0-9]{{1,5}})?)?/{_PATH}")
_SCP = re.compile(rf"(?:{_USER}{_MACHINE}:(?!//)|{_MACHINE}:(?!/))(?!-){_PATH}")
_REFERENCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+@-]{0,254}")
_COMMIT = re.compile(r"[0-9a-fA-F]{4,64}")


def _ssh_path(path: str) -> str:
    """A path as a value of an ssh option, where blanks separate and `%` is special."""
    return '"' + path.replace("%", "%%") + '"'
