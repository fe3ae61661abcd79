"""The errors of EC2 as those of the port, by their effect and by the chances of another try.

Called by `adapter`. The codes are those of Amazon's list of error codes for EC2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore import exceptions as aws

from tarmac.model.burst.provider import AnswerLost, Refusal, RentRefused
from tarmac.model.errors import TarmacError, Unavailable

_NOT_SENT = (aws.ConnectTimeoutError, aws.EndpointConnectionError, aws.ProxyConnectionError, aws.SSLError)
_NO_ACCESS = (aws.NoCredentialsError, aws.PartialCredentialsError)
BUSY = ["RequestLimitExceeded", "Throttling", "ThrottlingException", "EC2ThrottledException", "Unavailable"]
_DENIED = (
    *("AccessDenied", "AuthFailure", "Blocked", "ExpiredToken", "IncompleteSignature", "OptInRequired"),
    *("InvalidClientTokenId", "MissingAuthenticationToken", "RequestExpired", "SignatureDoesNotMatch"),
    "UnauthorizedOperation",
)
_UNKNOWN = ("InvalidInstanceType", "Unsupported", "UnsupportedOperation")
_EARLIER = "IdempotentParameterMismatch"
"""An earlier request with this token was carried out."""


@contextmanager
def translated(*, refuses: bool = False, changes: bool = False) -> Iterator[None]:
    """Raise the errors of calls as those of the port.

    `refuses`: they serve a create, whose wrong parameters are a refusal. `changes`: without an answer that
    excludes it, they may have had an effect.
    """
    try:
        yield
    except (aws.BotoCoreError, aws.ClientError) as error:
        raise _failure(error, refuses=refuses, changes=changes) from None


def code_of(error: aws.ClientError) -> str:
    """The code of an answer."""
    return str(error.response["Error"].get("Code", ""))


def _failure(error: Exception, *, refuses: bool, changes: bool) -> TarmacError:
    text = f"EC2: {error}"
    unknown = AnswerLost(text) if changes else Unavailable(text)
    if isinstance(error, aws.ClientError):
        code = code_of(error)
        refusal = _refusal(code, text)
        if code in BUSY:
            return Unavailable(text)
        if refusal is Refusal.DENIED or (refusal is not None and refuses):
            return RentRefused(refusal, text)
        if error.response["ResponseMetadata"].get("HTTPStatusCode", 500) >= 500 or code == _EARLIER:
            return unknown
        return RentRefused(Refusal.INVALID, text) if refuses else Unavailable(text)
    if isinstance(error, _NO_ACCESS):
        return RentRefused(Refusal.DENIED, text)
    if isinstance(error, aws.ParamValidationError):
        return RentRefused(Refusal.INVALID, text)
    return Unavailable(text) if isinstance(error, _NOT_SENT) else unknown


def _refusal(code: str, text: str) -> Refusal | None:
    """The refusal of a code that excludes any effect; None for other codes."""
    if code.startswith("Insufficient") or code == "SpotMaxPriceTooLow":
        return Refusal.NO_CAPACITY
    if code in _DENIED:
        return Refusal.DENIED
    if code.endswith("LimitExceeded") or code == "MaxSpotInstanceCountExceeded":
        return Refusal.QUOTA
    unknown = code in _UNKNOWN or (code == "InvalidParameterValue" and "InstanceType" in text)
    return Refusal.UNKNOWN_SHAPE if unknown else None
