"""Nodes, their images, and the use of slots and devices. Joined to the application by `server.app`."""

from tarmac import api
from tarmac.api.operation import Query
from tarmac.model.abilities import KeptImage
from tarmac.model.people.usage import UsedSlots
from tarmac.server.http.routing import Call, Routes
from tarmac.server.records import node_record
from tarmac.server.service import Service


def add_node_routes(routes: Routes, service: Service) -> None:
    """Add the routes about nodes."""
    plane, images = service.plane, service.images
    _add_reservation_routes(routes, service)

    @routes.serve(api.NODES)
    def nodes(call: Call[api.NodesQuery]) -> list[api.Node]:
        """Return nodes, with their runs."""
        query = call.query
        choice = api.NodeChoice(cluster=query.cluster, pool=query.pool, shard=query.shard)
        return [node_record(report) for report in plane.nodes(call.actor, choice)]

    @routes.serve(api.REMOVE_IMAGE)
    def remove_image(call: Call[api.ImageQuery]) -> list[KeptImage]:
        """Remove an image, by name or digest, from every node that has it, and return the removed ones.

        409 while a run uses it.
        """
        query = call.query
        return list(images.remove(call.actor, query.image, cluster=query.cluster, node=query.node))

    @routes.serve(api.UTILIZATION)
    def utilization(call: Call) -> list[api.RunUtilization]:
        """Return the current utilization of live runs, by run; runs of a few seconds are not measured."""
        return plane.usage.utilization(call.actor)

    @routes.serve(api.DRAIN)
    def drain(call: Call[Query, api.DrainBody]) -> list[api.Node]:
        """Drain these nodes, all of them or none: they get no new work, and current runs continue."""
        found = plane.set_drained(call.actor, call.body, True, call.body.reason.strip())
        return [node_record(report) for report in found]

    @routes.serve(api.UNDRAIN)
    def undrain(call: Call[Query, api.NodeChoice]) -> list[api.Node]:
        """Assign work to these drained nodes again."""
        return [node_record(report) for report in plane.set_drained(call.actor, call.body, False)]

    @routes.serve(api.IMAGES)
    def every_image(call: Call[api.ImagesQuery]) -> api.ImageList:
        """Return the images on the nodes."""
        return images.all(call.actor, cluster=call.query.cluster, node=call.query.node)

    @routes.serve(api.USAGE)
    def usage(call: Call[api.UsageQuery]) -> list[UsedSlots]:
        """Return the usage in a range of time, by user, project, cluster and pool, and by day or month."""
        query = call.query
        return plane.usage.used_slots(call.actor, query.since, query.until, query.per)

    @routes.serve(api.USAGE_HISTORY)
    def usage_history(call: Call[api.UsageHistoryQuery]) -> list[api.SlotHistory]:
        """Return the mean number of slots in use over time, by pool."""
        return plane.usage.history(call.actor, call.query.since, call.query.steps)


def _add_reservation_routes(routes: Routes, service: Service) -> None:
    known = service.plane.reservations

    @routes.serve(api.RESERVATIONS)
    def reservations(call: Call) -> list[api.Reservation]:
        """Return the reservations of nodes that have not ended, by their begin."""
        return known.all(call.actor)

    @routes.serve(api.RESERVE)
    def reserve(call: Call[Query, api.ReserveBody]) -> api.Reservation:
        """Reserve these nodes for a time, all of them or none. Repeating it has no effect.

        409 if another reservation has the name, or one of the nodes at that time.
        """
        return known.make(call.actor, call.body)

    @routes.serve(api.RELEASE)
    def release(call: Call) -> api.Reservation:
        """End a reservation now, or cancel it, and return it."""
        return known.release(call.actor, call.reference)
