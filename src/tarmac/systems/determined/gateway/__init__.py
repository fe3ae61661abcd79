"""The gateway: the API of Determined's master for its unmodified command and library (PyPI `determined`).

It has its own listener, enabled by a setting (`[determined] listen`). It translates to the control plane, and
its only data are the numbers of experiments and trials (`model.numbering`).

Modules:

- `gateway.py`: the common state of all routes, and the map of Determined's whole numbers to ids of tarmac.
  `calls.py`: a request in the form of a route, the declaration of routes, the notation of values.
  `application.py`: all routes, and how they are served. `tokens.py`: the identity of callers.
- `routes/`: the routes by subject, each file with a tuple `ROUTES` that `application.py` joins. Those for
  code *inside* a run (rendezvous, preemption, metrics, checkpoints, task logs) have `Access.TASK`; the others
  are for the command.
- `records.py`: forms of answers that several routes share. Pure: they convert a record of tarmac into a dict
  in Determined's form.
"""
