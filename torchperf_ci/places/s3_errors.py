"""What S3's refusals mean, and what to do about each."""

from __future__ import annotations

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError
from botocore.exceptions import ConnectionError as UnreachableError

from torchperf_ci.places.s3_client import OutOfTimeError

S3_ERRORS = (ClientError, BotoCoreError, OutOfTimeError)

_EXPIRED = "the credentials have expired: renew them, or give a role, whose credentials are renewed in time"
_WRONG = "the credentials are wrong: correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give a role"
_REGION = "the bucket lies in another region: give its region"
_BUSY = "the service is overloaded: try again later"
_ADVICE = {
    "AccessDenied": "the credentials in use are not allowed {action} there: grant it, or give a role that has it",
    "NoSuchBucket": "there is no such bucket: create it, or correct its name",
    "NoSuchKey": "there is no such object",
    "InvalidAccessKeyId": _WRONG,
    "SignatureDoesNotMatch": _WRONG,
    "ExpiredToken": _EXPIRED,
    "InvalidToken": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "RequestTimeTooSkewed": "the clock of this machine is wrong: set it",
    "PermanentRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "NotImplemented": "this S3 knows no conditional put, without which writers overwrite each other: use another",
    "SlowDown": _BUSY,
    "ServiceUnavailable": _BUSY,
    "InternalError": _BUSY,
}
_ANONYMOUS = (
    "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give a role to assume"
)


def code(error: Exception) -> str:
    """S3's word for the error, ``PreconditionFailed`` say; empty for what is no answer of S3."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def is_refusal(error: Exception) -> bool:
    """Whether the credentials in use are not allowed to do that."""
    return code(error) in {"AccessDenied", "403"}


def explain(error: Exception, where: str, action: str, *, anonymous: bool) -> str:
    """One sentence: where ``action`` (``s3:PutObject``) failed, why, and what to do."""
    if isinstance(error, ClientError):
        advice = _ADVICE.get("AccessDenied" if is_refusal(error) else code(error), "").format(action=action)
        if anonymous and is_refusal(error):
            advice = _ANONYMOUS
        message = error.response.get("Error", {}).get("Message", "").rstrip(".")
        return f"{where}: {action} was refused: {code(error)} ({message}){'; ' if advice else ''}{advice}"
    if isinstance(error, OutOfTimeError):
        return f"{where}: not done when the time was up; try again later, or allow more time"
    if isinstance(error, NoCredentialsError):
        return f"{where}: {_ANONYMOUS}"
    if isinstance(error, (HTTPClientError, UnreachableError)):
        return f"{where}: cannot be reached: {error}; check the network, its proxy, and AWS_ENDPOINT_URL"
    return f"{where}: {error}"
