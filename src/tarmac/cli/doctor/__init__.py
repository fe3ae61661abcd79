"""The checks of `tarmac doctor`: this machine, its programs, the server and its clusters."""
