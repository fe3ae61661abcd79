"""The local engine: attempts as processes of this machine, which can stand for many nodes."""
