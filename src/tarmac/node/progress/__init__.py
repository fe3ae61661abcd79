"""What can be seen of workers from outside: output, checkpoints, and whether they are whole."""
