"""Foreign systems, one folder for each: their files, words, displays, conventions and servers.

`registry` lists their dialects beside the native one. The rest of tarmac knows a system by its name in data
alone, and imports none of these folders.
"""
