"""The port `Provider` over one EC2 account in one region, by boto3. Opened by `kind`.

boto3 repeats nothing itself: the loops of rentals do, who know what an unanswered request may have done.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from tarmac.model.burst.provider import Refusal, RentedThing, RentRefused, RentRequest, ThingKind
from tarmac.model.burst.shapes import Shape
from tarmac.model.cluster import Finding
from tarmac.providers.accounts import counted, finding
from tarmac.providers.ec2 import things as answers
from tarmac.providers.ec2.errors import BUSY, code_of, translated
from tarmac.providers.ec2.settings import timeout_s

CONNECT_S = 10.0
NOTICE_S = 120.0
"""EC2 ends a spot instance two minutes after it said so."""

_GONE = ("InvalidInstanceID.NotFound", "InvalidVolume.NotFound", "InvalidAllocationID.NotFound")
_IN_USE = ("VolumeInUse", "IncorrectState", "InvalidIPAddress.InUse")
"""Things that end with their machine, or can be deleted after it."""

_ANOTHER_ZONE = (Refusal.NO_CAPACITY, Refusal.UNKNOWN_SHAPE)


class Ec2Provider:
    """The instances, volumes and addresses of an account."""

    def __init__(self, settings: Mapping[str, str], credentials: Callable[[], Mapping[str, str]]) -> None:
        self._settings = settings
        self._subnets = settings["subnets"].split(",")
        self._credentials = credentials

    def create(self, request: RentRequest) -> Sequence[RentedThing]:
        """Run instances in the first subnet that has them; those of an earlier try are returned."""
        refused: list[RentRefused] = []
        with translated(refuses=True):
            client = self._client()
            filters = [{"Name": "tag:tarmac-request", "Values": [request.id]}]
            instances = _instances(client, Filters=filters)
            disks = answers.disks_of(self._image(client), self._settings)
        for subnet in self._subnets if not instances else ():
            parameters = answers.run_request(self._settings, request, subnet, disks)
            try:
                with translated(refuses=True, changes=True):
                    instances = client.run_instances(**parameters)["Instances"]
                break
            except RentRefused as error:
                if error.refusal not in _ANOTHER_ZONE:
                    raise
                refused.append(error)
        if not instances:
            raise min(refused, key=lambda error: _ANOTHER_ZONE.index(error.refusal))
        return [answers.machine(each, {}) for each in instances]

    def list(self) -> Sequence[RentedThing]:
        """Every instance, volume and address of the region."""
        with translated():
            client = self._client()
            instances = _instances(client)
            volumes = client.get_paginator("describe_volumes").paginate()
            spot = any(each.get("InstanceLifecycle") == "spot" for each in instances)
            notices = _notices(client) if spot else {}
            return [
                *(answers.machine(each, notices) for each in instances),
                *(answers.disk(each) for page in volumes for each in page["Volumes"]),
                *(answers.address(each) for each in client.describe_addresses()["Addresses"]),
            ]

    def delete(self, things: Collection[RentedThing]) -> None:
        """Delete all of them, one by one: EC2 refuses a list with one unknown id as a whole."""
        with translated(changes=True):
            client = self._client()
            calls = {
                ThingKind.MACHINE: lambda each: client.terminate_instances(InstanceIds=[each]),
                ThingKind.DISK: lambda each: client.delete_volume(VolumeId=each),
                ThingKind.ADDRESS: lambda each: client.release_address(AllocationId=each),
            }
            failed = []
            for thing in sorted(things, key=lambda each: list(calls).index(each.kind)):
                try:
                    calls[thing.kind](thing.id)
                except ClientError as error:
                    if code_of(error) in BUSY:
                        raise
                    if code_of(error) not in (*_GONE, *_IN_USE):
                        failed.append(error)
            if failed:
                raise failed[0]

    def price(self, shape: Shape) -> float | None:
        """The highest spot price among the zones of the subnets; None for machines on demand."""
        if not shape.spot:
            return None
        with translated():
            client = self._client()
            asked = {"InstanceTypes": [shape.machine], "ProductDescriptions": ["Linux/UNIX"]}
            history = client.get_paginator("describe_spot_price_history")
            pages = history.paginate(**asked, StartTime=datetime.now(UTC))
            rows = [row for page in pages for row in page["SpotPriceHistory"]]
            zones = {each["AvailabilityZone"] for each in self._zones(client)}
        newest = {row["AvailabilityZone"]: row for row in sorted(rows, key=lambda row: row["Timestamp"])}
        return max((float(row["SpotPrice"]) for zone, row in newest.items() if zone in zones), default=None)

    def examine(self) -> Sequence[Finding]:
        """Whether the account can be listed, has the image and subnets, and may rent machines."""
        checks: dict[str, Callable[[Any], str]] = {
            "account": lambda _: counted(self.list()),
            "image": lambda client: str(self._image(client).get("Name")),
            "subnets": lambda client: ", ".join(each["AvailabilityZone"] for each in self._zones(client)),
            "permission": self._may_create,
        }
        return [finding(what, partial(self._text, check)) for what, check in checks.items()]

    def _text(self, check: Callable[[Any], str]) -> str:
        with translated():
            return check(self._client())

    def _may_create(self, client: Any) -> str:
        subnet = self._subnets[0]
        try:
            client.run_instances(
                ImageId=self._settings["image"], SubnetId=subnet, MinCount=1, MaxCount=1, DryRun=True
            )
        except ClientError as error:
            if code_of(error) != "DryRunOperation":
                raise
        return "machines can be created"

    def _image(self, client: Any) -> Any:
        images = client.describe_images(ImageIds=[self._settings["image"]])["Images"]
        if not images:
            raise RentRefused(Refusal.INVALID, f"EC2: there is no image {self._settings['image']}")
        return images[0]

    def _zones(self, client: Any) -> Any:
        return client.describe_subnets(SubnetIds=self._subnets)["Subnets"]

    def _client(self) -> Any:
        """boto3's client with the present credentials; it is shared by all threads."""
        settings, given = self._settings, self._credentials()
        keys = tuple(given.get(name) for name in ("access_key", "secret_key", "session_token"))
        return _connected(settings["region"], settings.get("url"), timeout_s(settings), keys)


@lru_cache(maxsize=8)
def _connected(region: str, url: str | None, answer_s: float, keys: tuple[str | None, ...]) -> Any:
    """A client; it takes a quarter of a second to make one."""
    once = {"total_max_attempts": 1, "mode": "standard"}
    config = Config(retries=once, connect_timeout=CONNECT_S, read_timeout=answer_s)
    return boto3.session.Session(*keys, region_name=region).client("ec2", endpoint_url=url, config=config)


def _instances(client: Any, **filters: Any) -> list[answers.Answer]:
    pages = client.get_paginator("describe_instances").paginate(**filters)
    found = (reservation for page in pages for reservation in page["Reservations"])
    return [instance for reservation in found for instance in reservation["Instances"]]


def _notices(client: Any) -> dict[str, float]:
    """When each spot instance ends that EC2 takes back, by its id."""
    marked = [{"Name": "status-code", "Values": ["marked-for-termination"]}]
    pages = client.get_paginator("describe_spot_instance_requests").paginate(Filters=marked)
    requests = [each for page in pages for each in page["SpotInstanceRequests"] if "InstanceId" in each]
    return {each["InstanceId"]: each["Status"]["UpdateTime"].timestamp() + NOTICE_S for each in requests}
