"""What `tarmac doctor` looks at: this machine, the programs on it, the server and its clusters."""
