"""What only a provider on EC2 promises: zones, spot machines, tokens, pages, and errors of the account.

The proxy imitates what moto leaves out; the last tests show that it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from ec2_answers import Ec2Error
from ec2_proxy import KEY, Ec2Fault
from guides import page
from provider_harness import OWNER, Ec2Harness
from tarmac.model.burst.provider import AnswerLost, Refusal, RentRefused, ThingKind, ThingState
from tarmac.model.errors import InvalidInput, Unavailable

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("moto")]


@pytest.fixture
def ec2(moto_port: int) -> Iterator[Ec2Harness]:
    """An empty account."""
    made = Ec2Harness(moto_port)
    yield made
    made.close()


def requests(ec2: Ec2Harness) -> list[dict[str, str]]:
    """The parameters of all requests for machines."""
    return [given for action, given in ec2.account.calls if action == "RunInstances"]


def test_the_next_zone_is_tried_without_capacity(ec2: Ec2Harness) -> None:
    first, second = ec2.subnets
    ec2.knobs.capacity[f"{ec2.machine}@{first}"] = 1
    made = ec2.provider.create(ec2.request(machines=2))
    assert len(made) == 2
    assert [given["SubnetId"] for given in requests(ec2)] == [first, second]
    assert {each.inner_address for each in ec2.books if each.kind is ThingKind.MACHINE} == {second}
    again = ec2.provider.create(ec2.request(machines=2))
    assert {each.id for each in again} == {each.id for each in made}
    assert len(requests(ec2)) == 2


def test_no_capacity_in_one_zone_decides_over_an_unknown_type_in_another(ec2: Ec2Harness) -> None:
    first, second = ec2.subnets
    ec2.knobs.refusals[f"{ec2.machine}@{first}"] = Refusal.UNKNOWN_SHAPE
    ec2.knobs.refusals[f"{ec2.machine}@{second}"] = Refusal.NO_CAPACITY
    with pytest.raises(RentRefused) as refused:
        ec2.provider.create(ec2.request())
    assert refused.value.refusal is Refusal.NO_CAPACITY
    assert "InsufficientInstanceCapacity" in str(refused.value)


def test_a_quota_holds_in_every_zone(ec2: Ec2Harness) -> None:
    ec2.knobs.refusals[ec2.machine] = Refusal.QUOTA
    with pytest.raises(RentRefused):
        ec2.provider.create(ec2.request())
    assert len(requests(ec2)) == 1


def test_a_request_asks_for_what_keeps_money_safe(ec2: Ec2Harness) -> None:
    """All or none, terminated by its own shutdown, at most at the rate that was checked."""
    request = ec2.request(machines=2, spot=True)
    ec2.provider.create(request)
    (given,) = requests(ec2)
    assert (given["MinCount"], given["MaxCount"]) == ("2", "2")
    assert given["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert given["BlockDeviceMapping.1.Ebs.DeleteOnTermination"] == "true"
    assert given["MetadataOptions.HttpTokens"] == "required"
    options = "InstanceMarketOptions.SpotOptions."
    assert given["InstanceMarketOptions.MarketType"] == "spot"
    assert given[f"{options}SpotInstanceType"] == "one-time"
    assert given[f"{options}InstanceInterruptionBehavior"] == "terminate"
    assert float(given[f"{options}MaxPrice"]) == request.shape.rate
    tagged = {value for name, value in given.items() if name.endswith(".ResourceType")}
    assert tagged == {"instance", "volume", "spot-instances-request"}


def test_every_page_of_a_list_is_read(ec2: Ec2Harness) -> None:
    ec2.account.page_size = 5
    for number in range(4):
        ec2.provider.create(ec2.request(f"request-{number}", machines=3))
    assert len(ec2.machines()) == 12
    assert len(ec2.ours()) == 24


def test_a_slow_answer_is_a_lost_one(ec2: Ec2Harness) -> None:
    impatient = ec2.open(KEY, timeout="1s")
    ec2.account.fail("RunInstances", Ec2Fault(after=True, slow=ec2.account.release))
    with pytest.raises(AnswerLost):
        impatient.create(ec2.request())
    assert len(ec2.machines()) == 2
    ec2.account.fail("DescribeInstances", Ec2Fault(slow=ec2.account.release))
    with pytest.raises(Unavailable):
        impatient.list()


def test_an_internal_error_of_a_create_is_a_lost_answer(ec2: Ec2Harness) -> None:
    """EC2 does not say whether it had an effect; here it had."""
    error = Ec2Error(500, "InternalError", "An internal error has occurred")
    ec2.account.fail("RunInstances", Ec2Fault(error=error, after=True))
    with pytest.raises(AnswerLost):
        ec2.provider.create(ec2.request())
    assert len(ec2.machines()) == 2


def test_another_request_with_a_used_token_is_a_lost_answer(ec2: Ec2Harness) -> None:
    """EC2 has carried out the earlier one: a list has to decide what exists."""
    ec2.knobs.visible_after_s = 60.0
    ec2.provider.create(ec2.request(machines=2))
    with pytest.raises(AnswerLost, match="IdempotentParameterMismatch"):
        ec2.provider.create(ec2.request(machines=3))
    assert len([each for each in ec2.books if each.kind is ThingKind.MACHINE]) == 2


def test_a_token_holds_while_machines_are_invisible(ec2: Ec2Harness) -> None:
    ec2.knobs.visible_after_s = 60.0
    made = [ec2.provider.create(ec2.request()) for _ in range(2)]
    assert made[0] == made[1]
    assert len([each for each in ec2.books if each.kind is ThingKind.MACHINE]) == 2


def test_a_provider_that_cannot_be_reached_has_done_nothing(ec2: Ec2Harness) -> None:
    nowhere = ec2.open(KEY, url="http://127.0.0.1:1")
    for call in (nowhere.list, lambda: nowhere.create(ec2.request())):
        with pytest.raises(Unavailable):
            call()


def test_an_image_that_does_not_exist_is_a_fault_of_the_settings(ec2: Ec2Harness) -> None:
    other = ec2.open(KEY, image="ami-0123456789")
    with pytest.raises(RentRefused) as refused:
        other.create(ec2.request())
    assert refused.value.refusal is Refusal.INVALID
    assert [each.what for each in other.examine() if not each.ok] == ["image"]


def test_wrong_keys_are_named_by_a_check(ec2: Ec2Harness) -> None:
    findings = ec2.open("AKIAWRONG").examine()
    assert {each.ok for each in findings} == {False}
    assert all("AuthFailure" in each.text for each in findings)


def test_the_type_of_a_machine_may_not_exist(ec2: Ec2Harness) -> None:
    ec2.account.types.discard(ec2.machine)
    with pytest.raises(RentRefused) as refused:
        ec2.provider.create(ec2.request())
    assert refused.value.refusal is Refusal.UNKNOWN_SHAPE


def test_a_machine_that_cannot_be_deleted_keeps_no_other(ec2: Ec2Harness) -> None:
    made = ec2.provider.create(ec2.request(machines=3))
    error = Ec2Error(400, "OperationNotPermitted", "The instance may not be terminated. Modify its attribute")
    ec2.account.fail("TerminateInstances", Ec2Fault(error=error))
    with pytest.raises(Unavailable, match="OperationNotPermitted"):
        ec2.provider.delete(made)
    assert [each.id for each in ec2.books.left() if each.kind is ThingKind.MACHINE] == [made[0].id]


def test_the_page_lists_the_rights_that_are_needed(ec2: Ec2Harness) -> None:
    made = ec2.provider.create(ec2.request(spot=True))
    ec2.stranger(ThingKind.DISK, OWNER)
    ec2.stranger(ThingKind.ADDRESS, OWNER)
    ec2.provider.examine()
    ec2.provider.price(ec2.shape(spot=True))
    ec2.provider.delete([*made, *ec2.ours()])
    used = {action for action, _ in ec2.account.calls}
    documented = set(re.findall(r'"ec2:(\w+)"', page("operating/providers.md")))
    assert documented == used | {"CreateTags"}  # the tags of a request need it


def test_on_demand_machines_have_no_published_price(ec2: Ec2Harness) -> None:
    assert ec2.provider.price(ec2.shape()) is None


def test_a_machine_without_our_request_is_only_stopped_by_its_shutdown(ec2: Ec2Harness) -> None:
    """As EC2 does it by default: the imitation would show a request that does not say `terminate`."""
    stranger = ec2.stranger(ThingKind.MACHINE, None)
    ec2.account.shut_down(stranger)
    states = {each.id: each.state for each in ec2.provider.list()}
    assert states[stranger] is not ThingState.GONE
    assert [each.id for each in ec2.books.left()] == [stranger]


def test_settings_are_checked_without_access(ec2: Ec2Harness) -> None:
    for wrong in ({"subnets": "10.0.0.0/8"}, {"image": "ubuntu"}, {"disk_gb": "0"}, {"zone": "a"}):
        with pytest.raises(InvalidInput) as invalid:
            ec2.open(KEY, **wrong)
        assert invalid.value.hint
