"""What goes wrong behind a URL: faults that pass are waited for, the others are named at once.

Every store has errors of its own, and fsspec hands many of them through. They are told apart here by what
they say: the status that a server gave, the number of the operating system, the library that raised them.
"""

import errno
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from attomaton.base.errors import AttomatonError, UnreadableSource, UnwritablePlace

T = TypeVar("T")

PASSING = frozenset(
    getattr(errno, name)
    for name in (
        "EIO", "EREMOTEIO", "EBUSY", "EAGAIN", "EINTR", "EPIPE", "ETIMEDOUT", "ECONNABORTED", "ECONNREFUSED",
        "ECONNRESET", "EHOSTUNREACH", "ENETDOWN", "ENETRESET", "ENETUNREACH",
    )
    if hasattr(errno, name)
)  # fmt: skip
"""Numbers of the operating system, as stores give them too, behind which a second try may go well."""

STAYING = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
"""Errors that stay, whether or not they have a number."""

LIBRARIES = frozenset(["aiobotocore", "aiohttp", "azure", "botocore", "fsspec", "gcsfs", "google", "http",
                       "huggingface_hub", "httpx", "requests", "s3fs", "urllib3"])  # fmt: skip
"""Whose errors come from a store or the way to it; those of all others are mistakes in a program."""

CREDENTIALS = (
    "for s3:// set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; for gs:// set "
    "GOOGLE_APPLICATION_CREDENTIALS; for what is open to all, FSSPEC_S3_ANON=true or FSSPEC_GS_TOKEN=anon"
)


class NothingThere(UnreadableSource, FileNotFoundError):
    """There is no file behind a URL."""


@dataclass(frozen=True)
class Patience:
    """How often something is tried, and how long to wait between: twice as long each time, up to a limit."""

    tries: int = 8
    first_pause: float = 0.25
    longest_pause: float = 8.0

    def pauses(self, spread: float = 0.5) -> Iterator[float]:
        """Seconds before the second try, the third …; ``spread`` keeps many readers from knocking at once."""
        for number in range(self.tries - 1):
            pause = min(self.first_pause * 2**number, self.longest_pause)
            yield pause * (1 + spread * random.random())  # noqa: S311  not a secret


PATIENCE = Patience()


def persist(deed: Callable[[], T], url: str, *, writing: bool = False) -> T:
    """What a deed returns, which is done again as long as it fails for the moment and patience lasts."""
    pauses = PATIENCE.pauses()
    while True:
        try:
            return deed()
        except AttomatonError:
            raise
        except Exception as error:
            if not is_fault(error):
                raise
            pause = next(pauses, None) if passes(error) else None
            if pause is None:
                raise explain(error, url, writing=writing) from error
            time.sleep(pause)


def is_fault(error: BaseException) -> bool:
    """Whether an error comes from a store or the way to it, and not from a mistake in a program."""
    room = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError) or room in LIBRARIES


def passes(error: BaseException) -> bool:
    """Whether a fault may be gone at the next try."""
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    if _lacks_credentials(error) or _expired(error):
        return False
    status = _status(error)
    if status is not None:
        return (status >= 500 and status != 501) or status in (408, 425, 429)
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in PASSING
    return not isinstance(error, STAYING)


def explain(error: BaseException, url: str, *, writing: bool = False) -> AttomatonError:
    """The error that says what cannot be read or written, why, and what to do."""
    kind = UnwritablePlace if writing else UnreadableSource
    reason = " ".join(str(error).split()) or type(error).__name__
    what = f"{url} cannot be {'written' if writing else 'read'}"
    if isinstance(error, FileNotFoundError):
        if writing:
            return kind(f"{what}: there is no such bucket or folder ({reason}); make it, or check the URL")
        return NothingThere(f"{what}: there is no such file, folder or bucket; check the URL")
    if _lacks_credentials(error):
        return kind(f"{what}: no credentials were found ({reason}); {CREDENTIALS}")
    if _expired(error):
        return replaced(url)
    if isinstance(error, PermissionError) or _status(error) in (401, 403):
        return kind(
            f"{what}: access is denied ({reason}); check which account is used, and what it may do there"
        )
    if passes(error):
        return kind(
            f"{what}: the store failed {PATIENCE.tries} times, at last with {type(error).__name__} "
            f"({reason}); try again later, and check the network and the URL"
        )
    return kind(f"{what}: {type(error).__name__} ({reason}); check the URL and the access")


def replaced(url: str) -> UnreadableSource:
    """The error for an object that is another than it was a moment ago."""
    return UnreadableSource(
        f"{url} was replaced while it was read; wait until it is written, and run it again"
    )


def _lacks_credentials(error: BaseException) -> bool:
    name = type(error).__name__
    return "Credential" in name or name == "ProfileNotFound"


def _expired(error: BaseException) -> bool:
    """Whether a range was asked of an object that has been replaced since it was opened."""
    return type(error).__name__ == "FileExpired"


def _status(error: BaseException) -> int | None:
    """The status of the answer that an error tells of, if it does."""
    for one in (error, error.__cause__):
        response = getattr(one, "response", None)
        if isinstance(response, dict):  # of S3, also behind an error that was translated
            return cast("dict[str, Any]", response).get("ResponseMetadata", {}).get("HTTPStatusCode")
    given: Any = getattr(error, "status", None) or getattr(error, "code", None)
    return int(given) if isinstance(given, int | str) and str(given).isdecimal() else None
