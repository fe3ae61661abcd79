"""Limits, credits and their ledger. Joined to the application by `server.app`."""

from tarmac import api
from tarmac.api.operation import Query
from tarmac.model.people.limits import CreditAccount, CreditEntry, Limit
from tarmac.server.http.routing import Call, Routes
from tarmac.server.service import Service


def add_limit_routes(routes: Routes, service: Service) -> None:
    """Add the routes about limits and credits."""
    limits = service.plane.limits

    @routes.serve(api.LIMITS)
    def every_limit(call: Call) -> list[Limit]:
        """Return the limits of users, projects and pools; null: no limit."""
        return limits.limits(call.actor)

    @routes.serve(api.SET_LIMITS)
    def set_limits(call: Call[Query, api.LimitBody]) -> Limit:
        """Change the limits of a user, a project, a pool, or of several of these together.

        Only an administrator may. 404 for an unknown pool, and where there is nothing to unset.
        """
        return limits.set(call.actor, call.body)

    @routes.serve(api.CREDITS)
    def credits(call: Call) -> list[CreditAccount]:
        """Return the accounts of credits; a user or project without one uses no credits."""
        return limits.accounts(call.actor)

    @routes.serve(api.GRANT_CREDITS)
    def grant(call: Call[Query, api.GrantBody]) -> CreditAccount:
        """Grant credits, or correct an account. Only an administrator may.

        404 for a correction of a user or project without an account.
        """
        return limits.grant(call.actor, call.body)

    @routes.serve(api.CREDIT_ENTRIES)
    def entries(call: Call[api.LedgerQuery]) -> list[CreditEntry]:
        """Return a page of the ledger, the newest entries first. No entry is ever changed or removed."""
        return limits.ledger(call.actor, call.query)
