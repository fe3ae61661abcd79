"""The gateway: what the unmodified command and library of Determined (PyPI `determined`) ask of their master.

A listener of its own, on when a setting asks for it (`[determined] listen`). It translates to the control
plane and keeps nothing of its own but the numbers of experiments and trials (`model.numbering`).

Where what stands:

- `gateway.py`: what every route works with. `calls.py`: a request as a route sees it, and how routes are
  declared. `route_list.py`: every route there is; `application.py` serves them. `tokens.py`, `peers.py`: who
  calls.
- Routes by subject, one file for each, named `SUBJECT_api` and with a tuple `ROUTES` that `route_list.py`
  joins: `login_api.py`, `master_api.py`, and so on: what the command asks. What code *inside* a run asks
  (rendezvous, preemption; metrics, progress, checkpoints; context, task logs) goes into files of the same
  kind beside them, with `Access.TASK`.
- Shapes of answers, in files named `SUBJECT_records`. Pure: a record of tarmac in, a dict as Determined has
  it out.
- `numbering.py`: from Determined's whole numbers to ids of tarmac, and back.
"""
