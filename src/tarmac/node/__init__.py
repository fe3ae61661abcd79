"""What travels: the runner, the hooks around it and the SDK inside a run.

Goes to machines where tarmac is not installed: standard library alone, Python 3.9 and later, imports
no other package of ours.
"""
