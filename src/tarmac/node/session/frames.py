"""Kinds of frames (`node.wire.frames`) between the two ends of a session. Used by both, and by the server.

The near end is a person's program, the far end runs beside the worker. An empty INPUT, OUTPUT or ERRORS is
the end of that stream. The near end sends no more input than it has room for: `FIRST_ROOM_BYTES`, plus the
amounts of ROOM frames, which the far end sends after passing input on. So a signal never waits behind the
input of a command that does not read.
"""

WORKER = b"w"  # to the far end, first: JSON {"pid", "token", "runs_as"}: the worker of the session
OPEN = b"o"  # to the far end, second: JSON, the kind of session (see `serving`)
INPUT = b"i"  # to the far end: bytes
RESIZE = b"r"  # to the far end: JSON {"rows", "columns"}
SIGNAL = b"s"  # to the far end: JSON {"number"}
PING = b"p"  # either way: empty; keeps a silent connection open
OPENED = b"O"  # from the far end, first: JSON {"notices"}: it has begun
FAILED = b"F"  # instead of OPENED, from the far end or the server, which lost it: JSON {"message", "hint"}
OUTPUT = b"1"  # from the far end: bytes
ERRORS = b"2"  # from the far end: bytes
ROOM = b"+"  # from the far end: JSON {"bytes"}
ENDED = b"E"  # from the far end, last: JSON {"exit_code", "signal", "message"}

PIECE_BYTES = 1 << 15
"""The maximum content of a frame of input or output: a signal waits behind one at most."""

FIRST_ROOM_BYTES = 1 << 18
PING_S = 15.0
