"""`tarmac ui`: open the page of the server in a browser, or print its address."""

import os
import webbrowser

from tarmac.cli.dialogue import answer, connect, remark
from tarmac.cli.lazy import command
from tarmac.cli.options import flag

_REMOTE = ("SSH_CONNECTION", "SSH_TTY")


@command()
@flag("--print", "only_print", help="Print the address, and open no browser.")
def ui(*, only_print: bool) -> None:
    """Open the page of the server in a browser.

    The address of your own server admits one browser, without a password, for a minute.
    """
    found = connect().page_address()
    address, _, port = found.url.partition("://")[2].partition("/")[0].rpartition(":")
    if found.expires_at is not None and any(name in os.environ for name in _REMOTE):
        remark(f"from another machine: ssh -L {port}:{address}:{port}, and open the address with localhost")
    elif not only_print:
        webbrowser.open(found.url)
    answer(found, found.url)
