"""The errors of EC2 as those of the port: whether a machine may exist, whether another try may help."""

from __future__ import annotations

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)

from tarmac.model.burst.provider import AnswerLost, Refusal, RentRefused
from tarmac.model.errors import TarmacError, Unavailable
from tarmac.providers.ec2.errors import translated

AT = {"endpoint_url": "http://127.0.0.1:1", "error": "refused"}


def answer(code: str, status: int = 400, message: str = "no") -> ClientError:
    found = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(found, "RunInstances")  # type: ignore[arg-type]


def of_create(error: Exception) -> TarmacError:
    with pytest.raises(TarmacError) as raised, translated(refuses=True, changes=True):
        raise error
    return raised.value


@pytest.mark.parametrize(
    ("code", "status", "refusal"),
    [
        ("InsufficientInstanceCapacity", 500, Refusal.NO_CAPACITY),
        ("InsufficientFreeAddressesInSubnet", 400, Refusal.NO_CAPACITY),
        ("SpotMaxPriceTooLow", 400, Refusal.NO_CAPACITY),
        ("InstanceLimitExceeded", 400, Refusal.QUOTA),
        ("VcpuLimitExceeded", 400, Refusal.QUOTA),
        ("VolumeLimitExceeded", 400, Refusal.QUOTA),
        ("MaxSpotInstanceCountExceeded", 400, Refusal.QUOTA),
        ("Unsupported", 400, Refusal.UNKNOWN_SHAPE),
        ("InvalidInstanceType", 400, Refusal.UNKNOWN_SHAPE),
        ("AuthFailure", 401, Refusal.DENIED),
        ("UnauthorizedOperation", 403, Refusal.DENIED),
        ("OptInRequired", 403, Refusal.DENIED),
        ("InvalidAMIID.NotFound", 400, Refusal.INVALID),
        ("InvalidParameterValue", 400, Refusal.INVALID),
    ],
)
def test_codes_that_exclude_any_effect(code: str, status: int, refusal: Refusal) -> None:
    found = of_create(answer(code, status))
    assert isinstance(found, RentRefused)
    assert found.refusal is refusal
    assert code in str(found)


def test_a_wrong_value_may_be_the_type_of_the_machine() -> None:
    found = of_create(answer("InvalidParameterValue", message="Invalid value 'x9.large' for InstanceType."))
    assert isinstance(found, RentRefused)
    assert found.refusal is Refusal.UNKNOWN_SHAPE


@pytest.mark.parametrize(
    "error",
    [
        answer("RequestLimitExceeded", 503),
        answer("Throttling"),
        answer("Unavailable", 503),
        EndpointConnectionError(**AT),
    ],
    ids=str,
)
def test_errors_before_any_effect(error: Exception) -> None:
    assert type(of_create(error)) is Unavailable


@pytest.mark.parametrize(
    "error",
    [
        answer("InternalError", 500),
        answer("ServiceUnavailable", 503),
        answer("SomethingNew", 502),
        answer("IdempotentParameterMismatch"),
        ReadTimeoutError(**AT),
        ConnectionClosedError(**AT),
    ],
    ids=str,
)
def test_errors_after_a_possible_effect(error: Exception) -> None:
    """Reading has no effect: there, each is only a reason to try again."""
    assert type(of_create(error)) is AnswerLost
    with pytest.raises(Unavailable), translated():
        raise error


def test_no_or_wrong_credentials_are_denied_to_every_call() -> None:
    for error in (NoCredentialsError(), answer("AuthFailure", 401)):
        with pytest.raises(RentRefused) as refused, translated():
            raise error
        assert refused.value.refusal is Refusal.DENIED


def test_a_request_that_boto3_rejects_was_not_sent() -> None:
    found = of_create(ParamValidationError(report="UserData"))
    assert isinstance(found, RentRefused)
    assert found.refusal is Refusal.INVALID
