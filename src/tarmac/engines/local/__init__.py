"""The local engine: attempts as processes of this machine, which can represent many nodes."""
