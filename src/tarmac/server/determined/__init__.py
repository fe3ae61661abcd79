"""The gateway: the API of Determined's master for its unmodified command and library (PyPI `determined`).

It has its own listener, enabled by a setting (`[determined] listen`). It translates to the control plane, and
its only data are the numbers of experiments and trials (`model.numbering`).

Modules:

- `gateway.py`: the common state of all routes. `calls.py`: a request in the form of a route, and the
  declaration of routes. `route_list.py`: all routes; `application.py` serves them. `tokens.py`, `peers.py`:
  the identity of callers.
- Routes by subject, one file for each, named `SUBJECT_api` and with a tuple `ROUTES` that `route_list.py`
  joins: `login_api.py`, `master_api.py`, and so on, for the command. Routes for code *inside* a run
  (rendezvous, preemption; metrics, progress, checkpoints; context, task logs) are in files of the same kind
  beside them, with `Access.TASK`.
- Forms of answers, in files named `SUBJECT_records`. Pure: they convert a record of tarmac into a dict in
  Determined's form.
- `numbering.py`: maps Determined's whole numbers to ids of tarmac, and back.
"""
