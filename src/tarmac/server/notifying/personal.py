"""The subscriptions of people to all of their own runs. Called by the routes of accounts."""

from tarmac.api.account_operations import PersonalSubscription, SubscriptionBody
from tarmac.control.permissions import Action, check
from tarmac.control.state.event_bus import Wakeup
from tarmac.dialects.native.notify import MOST_SUBSCRIPTIONS, named_receiver
from tarmac.model.actor import Actor
from tarmac.model.errors import NotFound, Refused
from tarmac.model.notification import DEFAULT_WAIT_S, Occasion, Receiver, Subscription
from tarmac.server.service import Service


def subscriptions(service: Service, actor: Actor, user: str | None = None) -> list[PersonalSubscription]:
    """The subscriptions of the actor, or for an administrator of another user, without whole URLs."""
    if user not in (None, actor.user):
        check(actor, Action.MANAGE)
    return [
        PersonalSubscription(receiver=str(each.receiver), on=each.on, waiting_s=each.waiting_s)
        for each in service.plane.control.store.notifications.subscriptions().get(user or actor.user, ())
    ]


def subscribe(service: Service, actor: Actor, body: SubscriptionBody) -> list[PersonalSubscription]:
    """Subscribe the actor to their own runs, or end subscriptions; returns those that the actor has now."""
    control, new = service.plane.control, _read(service, actor, body)
    with control.lock:
        known = control.store.notifications.subscriptions().get(actor.user, ())
        gone = [new.receiver] if new else [to for each in known if _matches(to := each.receiver, body.to)]
        kept = [each for each in known if each.receiver not in gone]
        if not (new or gone or body.to is None):
            hint = "tarmac notifications ls lists yours"
            raise NotFound(f"you have no subscription {body.to!r:.80}", hint=hint)
        if len(kept) >= MOST_SUBSCRIPTIONS:
            raise Refused(f"you have {len(kept)} subscriptions, the most", hint="tarmac notifications unset")
        control.store.notifications.subscribe(actor.user, [*kept, *([new] if new else [])])
        control.subscriptions.refresh(control.run_cache())
    control.event_bus.notify(Wakeup.NOTIFY)
    return subscriptions(service, actor)


def _read(service: Service, actor: Actor, body: SubscriptionBody) -> Subscription | None:
    """The new subscription of a request; raises InvalidInput for a receiver that cannot or may not be."""
    waiting = () if body.waiting_s is None else (Occasion.WAITING,)
    on, sender = tuple(dict.fromkeys((*body.on, *waiting))), service.plane.sender
    if not on:
        return None
    receiver = service.secrets.scoped(named_receiver(body.to or "", body.channel), actor)
    if sender is not None:
        sender.check(receiver)
    return Subscription(receiver=receiver, on=on, waiting_s=body.waiting_s or DEFAULT_WAIT_S)


def _matches(receiver: Receiver, to: str | None) -> bool:
    """Whether a text is a receiver's address, as `set` takes it or as answers show it; None is every one."""
    return to in (None, receiver.address, str(receiver), f"${{{{ secrets.{receiver.address} }}}}")
