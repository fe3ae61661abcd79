"""The far end of a session, in the view of `relay`: a command or a connection."""

from __future__ import annotations

from typing import NamedTuple, Optional, Protocol


class Ending(NamedTuple):
    """The end of the far end: an exit code, a signal, or neither, with a message for people."""

    exit_code: Optional[int] = None
    signal: Optional[int] = None
    message: Optional[str] = None


class FarEnd(Protocol):
    """`input` takes bytes, `outputs` supply them, each as frames of its kind; all are descriptors."""

    input: Optional[int]
    outputs: dict[int, bytes]

    def ending(self) -> Optional[Ending]:
        """How the far end ended; None while it runs."""
        ...

    def resize(self, rows: int, columns: int) -> None:
        """Resize the near end's terminal."""
        ...

    def signal(self, number: int) -> None:
        """Pass on a signal of the near end."""
        ...

    def close_input(self) -> None:
        """Close the input after the near end's last byte."""
        ...

    def close_output(self, handle: int) -> None:
        """Close one of `outputs` at its end."""
        ...

    def hang_up(self) -> None:
        """End everything after the near end left. Blocks until that is done."""
        ...
