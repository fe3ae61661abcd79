"""Changes the rules of one pool of a described cluster. Called by the route about it."""

from collections.abc import Callable

from tarmac import api
from tarmac.control.permissions import Action, check
from tarmac.control.service import ControlPlane
from tarmac.control.state.event_bus import Wakeup
from tarmac.model.actor import Actor
from tarmac.model.cluster import Pool
from tarmac.model.codec import replace
from tarmac.model.errors import NotFound, Refused, suggestion


def set_pool(
    plane: ControlPlane, actor: Actor, name: str, pool: str, edit: Callable[[Pool], Pool]
) -> api.Cluster:
    """Change the rules durably; its runs stay where they are. Raises NotFound and Refused."""
    check(actor, Action.MANAGE)
    control, clusters = plane.control, plane.clusters
    with control.lock:
        control.look_at_clusters()
        known = [each.name for each in clusters.show(actor, name).pools]
        described = control.inventory.described(name)
        if pool not in known:
            hint = suggestion(pool, known, f"pools: {', '.join(known)}")
            raise NotFound(f"cluster {name} has no pool {pool!r}", hint=hint)
        if described is None:
            hint = "settings.toml describes the pools of a server's own cluster"
            raise Refused(f"the rules of {name}/{pool} are not changed here", hint=hint)
        rules = {each.name: each for each in described.pools}
        rules[pool] = edit(rules.get(pool) or Pool(name=pool, cluster=name))
        changed = replace(described, pools=tuple(rules.values()))
        clusters.check_kind(changed)
        control.store.put_cluster(changed)
        control.look_at_clusters()
    control.event_bus.notify(Wakeup.SCHEDULE)
    return clusters.show(actor, name)
