"""`tarmac images`: list the nodes' container images, fetch some before runs need them, and remove them.

A pull is a run that ends when its image is on the node: it works on every cluster, with the secrets, the
queue and the messages of runs.
"""

import json
import sys

import click

from tarmac import api
from tarmac.cli.dialogue import answer, connect, print_list, remark, wants_json
from tarmac.cli.following import follow_submitted
from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import complete_node, repeated, together
from tarmac.cli.views.amounts import age, size
from tarmac.cli.views.runview import DIGEST_CHARACTERS
from tarmac.cli.views.table import Column, Table
from tarmac.client import Client
from tarmac.model.abilities import KeptImage

IMAGES: Table[KeptImage] = (
    Column("CLUSTER", lambda image, _: image.cluster, optional=True),
    Column("NODE", lambda image, _: image.node),
    Column("IMAGE", lambda image, _: image.name, flexible=True),
    Column("DIGEST", lambda image, _: image.digest[:DIGEST_CHARACTERS]),
    Column("SIZE", lambda image, _: size(image.size_bytes), right=True),
    Column("ON DISK", lambda image, _: size(image.disk_bytes), right=True, optional=True),
    Column("USED", lambda image, now: "in use" if image.in_use else age(image.used_at, now), right=True),
)


place_options = together(
    click.option("--cluster", metavar="NAME", help="Only on nodes of this cluster."),
    click.option("--node", metavar="NAME", shell_complete=complete_node, help="Only on this node."),
)


@click.group(cls=Subcommands)
def images() -> None:
    """List, pull and remove the container images on the nodes."""


@images.command()
@place_options
def ls(*, cluster: str | None, node: str | None) -> None:
    """List the images that nodes have: name, digest, size, and when a run last used them."""
    found = connect().images(cluster=cluster, node=node)
    for name, trouble in found.troubles.items() if not wants_json() else ():
        remark(f"cluster {name} gives no answer: {trouble}")
    empty = "no image is here; tarmac images pull IMAGE fetches one, and so does a run that names it"
    if node is not None:
        empty = f"node {node} has no image of its own; tarmac images ls shows all, tarmac nodes the nodes"
    print_list("images", found.images, IMAGES, empty=empty, document=found)


@images.command()
@click.argument("image", metavar="IMAGE")
@click.option("--cluster", metavar="NAME", help="On the nodes of this cluster; else on those of the server.")
@repeated("--node", "nodes", shell_complete=complete_node, help="Only on this node; may be repeated.")
@click.option("--secret", metavar="NAME", help="The secret with the credentials for its registry.")
def pull(*, image: str, cluster: str | None, nodes: tuple[str, ...], secret: str | None) -> None:
    """Fetch an image, also where a node has an older one of that name.

    It is done by a small run on each node, which waits for no slots. Ctrl-C leaves it to go on.

    \b
    tarmac images pull ubuntu:24.04
    tarmac images pull registry.example.org/team/train:3 --secret team-registry
    """
    client = connect()
    places = nodes or _nodes_to_fill(client, cluster)
    runs = [_submit(client, image, cluster=cluster, node=node, secret=secret) for node in places]
    sys.exit(max((follow_submitted(client, run) for run in runs), default=0))


@images.command()
@click.argument("image", metavar="IMAGE")
@place_options
def rm(*, image: str, cluster: str | None, node: str | None) -> None:
    """Remove an image, by name or digest, from all nodes; refused while a run uses it."""
    gone = connect().remove_image(image, cluster=cluster, node=node)
    lines = [f"{each.name} is gone from {each.node or f'cluster {each.cluster}'}" for each in gone]
    answer({"images": gone}, "\n".join(lines))


def _nodes_to_fill(client: Client, cluster: str | None) -> list[str | None]:
    """Every node that keeps images of its own; None: any node, because they share images."""
    if cluster is None:
        return [None]
    own = [node.name for node in client.nodes(cluster=cluster) if node.own_disk]
    return [*own] or [None]


def _submit(
    client: Client, image: str, *, cluster: str | None, node: str | None, secret: str | None
) -> api.Run:
    """Submit a run that only starts in the image."""
    body = {
        "name": "pull",
        "command": ["true"],
        "environment": {"pull": "always"},
        "labels": {"image": "pull"},
        **({"cluster": cluster} if cluster else {}),
        **({"hostnames": [node]} if node else {}),
        **({"secrets": [{"name": secret, "as": "registry"}]} if secret else {}),
    }
    return client.submit(json.dumps(body), filename="pull.yaml", directory="/", overrides={"image": image})
