"""The answers of EC2 as rented things, and a request for machines as one of EC2's. Called by `adapter`."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.model.burst.provider import RentedThing, RentRequest, ThingKind, ThingState
from tarmac.providers.ec2.settings import disk_gb

Answer = Mapping[str, Any]

_GONE = ThingState.GONE
_MACHINES = {"pending": ThingState.PENDING, "running": ThingState.RUNNING, "terminated": _GONE}
"""The other states (shutting-down, stopping, stopped) lead to no running machine."""

_DISKS = {"creating": ThingState.PENDING, "deleting": ThingState.LEAVING, "deleted": _GONE}


def machine(instance: Answer, notices: Mapping[str, float]) -> RentedThing:
    """An instance; `notices` has the times at which spot instances end."""
    inner = instance.get("PrivateIpAddress")
    return RentedThing(
        id=instance["InstanceId"],
        state=_MACHINES.get(instance["State"]["Name"], ThingState.LEAVING),
        address=instance.get("PublicIpAddress") or inner,
        inner_address=inner,
        since=instance["LaunchTime"].timestamp(),
        notice_at=notices.get(instance["InstanceId"]),
        **_tags(instance),
    )


def disk(volume: Answer) -> RentedThing:
    """A volume."""
    return RentedThing(
        kind=ThingKind.DISK,
        id=volume["VolumeId"],
        state=_DISKS.get(volume["State"], ThingState.RUNNING),
        since=volume["CreateTime"].timestamp(),
        **_tags(volume),
    )


def address(found: Answer) -> RentedThing:
    """An elastic address."""
    kind, state = ThingKind.ADDRESS, ThingState.RUNNING
    return RentedThing(kind=kind, id=found["AllocationId"], state=state, **_tags(found))


def _tags(found: Answer) -> dict[str, Any]:
    tags = {each["Key"]: each["Value"] for each in found.get("Tags", ())}
    return {name: tags.get(f"tarmac-{name}") for name in ("owner", "request", "run")}


def run_request(
    settings: Mapping[str, str], request: RentRequest, subnet: str, disks: Sequence[Answer]
) -> dict[str, Any]:
    """The parameters of RunInstances in one subnet. Its token is the same for the same request there."""
    token = hashlib.sha256(f"{request.owner}/{request.id}/{subnet}".encode()).hexdigest()
    tags = [{"Key": key, "Value": value} for key, value in request.tags.items()]
    tagged = ["instance", "volume", *(["spot-instances-request"] if request.shape.spot else [])]
    found: dict[str, Any] = {
        "ClientToken": token,
        "ImageId": settings["image"],
        "InstanceType": request.shape.machine,
        "MinCount": request.machines,
        "MaxCount": request.machines,
        "SubnetId": subnet,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required"},
        "BlockDeviceMappings": disks,
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in tagged],
        "UserData": request.script,
    }
    if "security_groups" in settings:
        found["SecurityGroupIds"] = settings["security_groups"].split(",")
    if "profile" in settings:
        found["IamInstanceProfile"] = {"Name": settings["profile"]}
    if request.shape.spot:
        options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        if request.shape.currency == "USD" and request.shape.rate:  # caps and budgets were checked with it
            options["MaxPrice"] = f"{request.shape.rate:f}"
        found["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": options}
    return found


def disks_of(image: Answer, settings: Mapping[str, str]) -> Sequence[Answer]:
    """The disks of an image, each deleted with its machine; the first one has the size of the settings."""
    found = []
    for mapping in image.get("BlockDeviceMappings", ()):
        if "Ebs" in mapping:
            root = mapping["DeviceName"] == image.get("RootDeviceName")
            size = (root and disk_gb(settings)) or mapping["Ebs"].get("VolumeSize")
            disk = {"DeleteOnTermination": True, **({"VolumeSize": size} if size else {})}
            found.append({"DeviceName": mapping["DeviceName"], "Ebs": disk})
    return found
