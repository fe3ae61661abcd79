"""Limits, credits and their ledger. Joined to the application by `server.app`."""

from tarmac import api
from tarmac.api.operation import Query
from tarmac.model.people.limits import CreditAccount, CreditEntry, Limit
from tarmac.server.http.routing import Call, Handlers, serve


class LimitHandlers(Handlers):
    """The routes about limits and credits."""

    @serve(api.LIMITS)
    def every_limit(self, call: Call) -> list[Limit]:
        """Return the limits of users, projects and pools; null: no limit."""
        return self.plane.limits.limits(call.actor)

    @serve(api.SET_LIMITS)
    def set_limits(self, call: Call[Query, api.LimitBody]) -> Limit:
        """Change the limits of a user, a project, a pool, or of several of these together.

        Only an administrator may. 404 for an unknown pool, and where there is nothing to unset.
        """
        return self.plane.limits.set(call.actor, call.body)

    @serve(api.CREDITS)
    def credits(self, call: Call) -> list[CreditAccount]:
        """Return the accounts of credits; a user or project without one uses no credits."""
        return self.plane.limits.accounts(call.actor)

    @serve(api.GRANT_CREDITS)
    def grant(self, call: Call[Query, api.GrantBody]) -> CreditAccount:
        """Grant credits, or correct an account. Only an administrator may.

        404 for a correction of a user or project without an account.
        """
        return self.plane.limits.grant(call.actor, call.body)

    @serve(api.CREDIT_ENTRIES)
    def entries(self, call: Call[api.LedgerQuery]) -> list[CreditEntry]:
        """Return a page of the ledger, the newest entries first. No entry is ever changed or removed."""
        return self.plane.limits.ledger(call.actor, call.query)
