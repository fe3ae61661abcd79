"""The one wire: frames, and calls and streams over a connection. Standard library alone."""
