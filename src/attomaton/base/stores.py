"""Object stores and other file systems of fsspec: open them, and explain their errors.

The library of each store retries transient errors.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, cast

from attomaton.base import errors

CREDENTIALS = (
    "for s3:// set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; for gs:// set "
    "GOOGLE_APPLICATION_CREDENTIALS; for public data, FSSPEC_S3_ANON=true or FSSPEC_GS_TOKEN=anon"
)
S3_TRIES = 8  # with pauses of half a minute in all
_SHARED = ("s3://", "s3a://", "gs://", "gcs://")  # stores whose file system all threads share
# Scheme of a URL → the library that fsspec needs for it, and how to install it.
_STORES = {
    **dict.fromkeys(("s3", "s3a"), ("the library s3fs", "'attomaton[remote]'")),
    **dict.fromkeys(("gs", "gcs"), ("the library gcsfs", "gcsfs")),
    **dict.fromkeys(("abfs", "az"), ("the library adlfs", "adlfs")),
}


class NothingThere(errors.UnreadableSource, FileNotFoundError):
    """There is no file at a URL."""


@contextmanager
def reaching(url: str, *, writing: bool = False) -> Generator[None]:
    """Explain the errors of a store: what cannot be read or written, why, and what to do."""
    try:
        yield
    except errors.AttomatonError:
        raise
    except Exception as error:  # each store has errors of its own
        raise _explain(error, url, writing=writing) from error


# An error of a store as one of ours. Errors of botocore and of s3fs are known by their names, so that neither
# library is imported here.
def _explain(error: Exception, url: str, *, writing: bool) -> errors.AttomatonError:
    kind = errors.UnwritablePlace if writing else errors.UnreadableSource
    reason = " ".join(str(error).split())
    name = type(error).__name__
    failure = f"{url} cannot be {'written' if writing else 'read'}"
    if isinstance(error, FileNotFoundError) and writing:
        return kind(f"{failure}: no such bucket or folder ({reason}); create it, or check the URL")
    if isinstance(error, FileNotFoundError):
        return NothingThere(f"{failure}: there is no such file, folder or bucket; check the URL")
    if "Credential" in name or name == "ProfileNotFound":
        return kind(f"{failure}: no credentials were found ({reason}); {CREDENTIALS}")
    if name == "FileExpired":  # a range was requested of an object that was replaced since it was opened
        return replaced_error(url)
    if isinstance(error, PermissionError):
        return kind(f"{failure}: access is denied ({reason}); check the account and its permissions")
    return kind(f"{failure}: {name} ({reason}); check the URL and your access, or try again later")


def replaced_error(url: str) -> errors.UnreadableSource:
    return errors.UnreadableSource(f"{url} was replaced while it was read; run this again later")


def open_system(url: str) -> tuple[Any, str]:
    """The file system of a URL and the path in it; listings are not cached, so new files are seen."""
    scheme = url.partition("://")[0].rpartition("::")[2].lower()  # the last one, if schemes are chained
    if scheme not in _STORES:
        with errors.needing("a URL"):
            import fsspec
    try:
        import fsspec.core

        options = {"use_listings_cache": False, **_store_options(scheme)}
        if url.startswith(_SHARED):
            system = _shared_system(scheme, repr(sorted(options.items())), os.getpid())
            return system, str(system._strip_protocol(url))
        system, path = cast("Any", fsspec.core).url_to_fs(url, **options)
    except ImportError as error:
        raise _missing_library(error, scheme, url) from error
    except ValueError as error:
        raise errors.UnreadableSource(f"{url} cannot be opened: {error}; check the URL") from error
    return system, str(path)


# How to install the library of a store, or to reinstall it if it is there but cannot be imported.
def _missing_library(error: ImportError, scheme: str, url: str) -> errors.MissingExtra:
    library, install = _STORES.get(scheme, (f"another library ({error})", "it"))
    cause = error.__cause__ or error  # fsspec adds a sentence of its own before it
    absent = str(getattr(cause, "name", None)).partition(".")[0]
    if scheme in _STORES and absent not in ("fsspec", library.split()[-1]):
        return errors.MissingExtra(
            f"{url} needs {library}, which is installed but cannot be imported ({cause}); reinstall it: pip "
            f"install --force-reinstall {install}"
        )
    return errors.MissingExtra(f"{url} needs {library}: pip install {install}")


# The other arguments are only keys of the cache: options may change, and a fork needs its own connections.
# The file system of a large store, which all threads share; otherwise each would open connections.
@lru_cache(maxsize=16)
def _shared_system(scheme: str, _options_as_text: str, _process: int) -> Any:
    import fsspec

    return cast("Any", fsspec).filesystem(scheme, use_listings_cache=False, **_store_options(scheme))


# The options of a store: local folders are created as needed, and S3 is retried more often.
def _store_options(scheme: str) -> dict[str, Any]:
    if scheme in ("file", "local"):
        return {"auto_mkdir": True}
    if scheme not in ("s3", "s3a"):
        return {}
    import fsspec.config

    configured: dict[str, Any] = cast("Any", fsspec.config).conf.get(scheme, {})
    tries = {"retries": {"total_max_attempts": S3_TRIES, "mode": "standard"}}
    return {**configured, "config_kwargs": {**tries, **configured.get("config_kwargs", {})}}
