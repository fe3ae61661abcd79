"""Strong Compute ISC's experiment launch files (TOML): the reader, its variables and its words."""
