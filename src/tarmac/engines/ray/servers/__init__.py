"""Starting a Ray cluster on machines that only SSH reaches, and ending it: `tarmac cluster up` and `down`."""
