"""How quick tarmac is, beside its peers on the same machine. Run by `make bench`; see README.md."""
