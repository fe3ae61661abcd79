"""What a session leads to, as `relay` sees it: a command or a connection."""

from __future__ import annotations

from typing import NamedTuple, Optional, Protocol


class Ending(NamedTuple):
    """How the far end came to its end: by an exit code, a signal, or neither, with words for people."""

    exit_code: Optional[int] = None
    signal: Optional[int] = None
    message: Optional[str] = None


class FarEnd(Protocol):
    """`input` takes bytes, `outputs` give them, each as frames of its kind; all are descriptors."""

    input: Optional[int]
    outputs: dict[int, bytes]

    def ending(self) -> Optional[Ending]:
        """How it ended; None while it goes on."""
        ...

    def resize(self, rows: int, columns: int) -> None:
        """The near end's terminal has another size."""
        ...

    def signal(self, number: int) -> None:
        """The near end sends a signal."""
        ...

    def close_input(self) -> None:
        """The near end sends nothing more."""
        ...

    def close_output(self, handle: int) -> None:
        """Nothing more comes from one of `outputs`."""
        ...

    def hang_up(self) -> None:
        """The near end is gone: end all of it. Takes as long as that takes."""
        ...
