"""Nodes, their images, and the use of slots and devices. Joined to the application by `server.app`."""

from tarmac import api
from tarmac.api.operation import Query
from tarmac.model.abilities import KeptImage
from tarmac.model.people.usage import UsedSlots
from tarmac.server.http.routing import Call, Handlers, serve
from tarmac.server.records import node_record


class NodeHandlers(Handlers):
    """The routes about nodes."""

    @serve(api.RESERVATIONS)
    def reservations(self, call: Call) -> list[api.Reservation]:
        """Return the reservations of nodes that have not ended, by their begin."""
        return self.plane.reservations.all(call.actor)

    @serve(api.RESERVE)
    def reserve(self, call: Call[Query, api.ReserveBody]) -> api.Reservation:
        """Reserve these nodes for a time, all of them or none. Repeating it has no effect.

        409 if another reservation has the name, or one of the nodes at that time.
        """
        return self.plane.reservations.make(call.actor, call.body)

    @serve(api.RELEASE)
    def release(self, call: Call) -> api.Reservation:
        """End a reservation now, or cancel it, and return it."""
        return self.plane.reservations.release(call.actor, call.reference)

    @serve(api.NODES)
    def nodes(self, call: Call[api.NodesQuery]) -> list[api.Node]:
        """Return nodes, with their runs."""
        query = call.query
        choice = api.NodeChoice(cluster=query.cluster, pool=query.pool, shard=query.shard)
        return [node_record(report) for report in self.plane.nodes(call.actor, choice)]

    @serve(api.REMOVE_IMAGE)
    def remove_image(self, call: Call[api.ImageQuery]) -> list[KeptImage]:
        """Remove an image, by name or digest, from every node that has it, and return the removed ones.

        409 while a run uses it.
        """
        query = call.query
        return list(
            self.service.images.remove(call.actor, query.image, cluster=query.cluster, node=query.node)
        )

    @serve(api.UTILIZATION)
    def utilization(self, call: Call) -> list[api.RunUtilization]:
        """Return the current utilization of live runs, by run; runs of a few seconds are not measured."""
        return self.plane.usage.utilization(call.actor)

    @serve(api.DRAIN)
    def drain(self, call: Call[Query, api.DrainBody]) -> list[api.Node]:
        """Drain these nodes, all of them or none: they get no new work, and current runs continue."""
        found = self.plane.set_drained(call.actor, call.body, True, call.body.reason.strip())
        return [node_record(report) for report in found]

    @serve(api.UNDRAIN)
    def undrain(self, call: Call[Query, api.NodeChoice]) -> list[api.Node]:
        """Assign work to these drained nodes again."""
        return [node_record(report) for report in self.plane.set_drained(call.actor, call.body, False)]

    @serve(api.IMAGES)
    def every_image(self, call: Call[api.ImagesQuery]) -> api.ImageList:
        """Return the images on the nodes."""
        return self.service.images.all(call.actor, cluster=call.query.cluster, node=call.query.node)

    @serve(api.USAGE)
    def usage(self, call: Call[api.UsageQuery]) -> list[UsedSlots]:
        """Return the usage in a range of time, by user, project, cluster and pool, and by day or month."""
        query = call.query
        return self.plane.usage.used_slots(call.actor, query.since, query.until, query.per)

    @serve(api.USAGE_HISTORY)
    def usage_history(self, call: Call[api.UsageHistoryQuery]) -> list[api.SlotHistory]:
        """Return the mean number of slots in use over time, by pool."""
        return self.plane.usage.history(call.actor, call.query.since, call.query.steps)
