"""Upload a finished folder to an object store: every file atomically, the manifest last.

A store cannot rename folders, so the order of the writes ensures consistency: write a marker that lists our
files, remove an earlier manifest, replace the files, write the manifest, remove the marker. Without a
manifest there is no run. After an interrupted upload, the marker says which files the next one may replace.
"""

# `build_at` is the entry for writers, to this machine or to a URL. A *stock* lists the files that we wrote in
# a folder (`ownership`); names are relative to it, with "/" between their parts.

import tempfile
from collections.abc import Collection, Generator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from secrets import token_hex

from attomaton.base.artifacts import manifests
from attomaton.base.artifacts.folders import Building, build_folder
from attomaton.base.artifacts.ownership import INNER, SIDE_RECORDS, listed_names, take_stock
from attomaton.base.errors import CorruptRun, UnwritablePlace
from attomaton.base.remote import RemotePath, as_path

# The record of an unfinished upload: which files of the folder are ours.
UPLOAD_MARKER = "attomaton-upload.json"


def upload_folder(folder: Path, url: str | RemotePath, *, overwrite: bool = False) -> RemotePath:
    """Upload a folder that attomaton wrote to a URL; return the new path."""
    stock = take_stock(folder) if folder.is_dir() else None
    if stock is None or not all((folder / name).is_file() for name in stock.listed):
        raise CorruptRun(f"{folder} is not a complete folder of attomaton; write it again")
    remote = check_upload(url, overwrite=overwrite)
    uploaded = [path.relative_to(folder).as_posix() for path in stock.files]
    present = set(remote.names_below())
    replaced = _owned_names(remote) & present  # our files of an earlier run, which are replaced or removed
    foreign = sorted((present - replaced - {UPLOAD_MARKER}).intersection(uploaded))
    if foreign:
        raise UnwritablePlace(f"{remote / foreign[0]} is not a file of attomaton; choose another URL")
    # A program that uploads at the same time overwrites the marker, and so the token, which is read again.
    token = token_hex(8)
    marker = {"kind": "upload", "token": token, "files": sorted(replaced.union(uploaded))}
    (remote / UPLOAD_MARKER).write_bytes(manifests.encode_record(manifests.seal(marker)))
    (remote / manifests.MANIFEST).unlink()  # from here on, readers find no run
    for name in sorted(replaced.difference(uploaded) - {manifests.MANIFEST}):
        (remote / name).unlink()
    for name in (name for name in uploaded if name != manifests.MANIFEST):
        (remote / name).upload(folder / name)
    if (manifests.read_sealed(remote / UPLOAD_MARKER) or {}).get("token") != token:
        raise UnwritablePlace(f"another program is uploading to {remote}; choose another URL")
    (remote / manifests.MANIFEST).upload(folder / manifests.MANIFEST)
    (remote / UPLOAD_MARKER).unlink()
    return remote


@contextmanager
def build_at(
    target: str | PathLike[str] | RemotePath,
    kind: manifests.FolderKind,
    files: Collection[str],
    *,
    overwrite: bool,
    resumable: bool = False,
) -> Generator[Building]:
    """Build a folder on this machine, as :func:`.folders.build_folder` does, or at a URL.

    For a URL it is built in a temporary folder and uploaded when it is complete; it cannot be resumed.
    """
    path = as_path(target)
    if isinstance(path, Path):
        with build_folder(path, kind, files, overwrite=overwrite, resumable=resumable) as building:
            yield building
        return
    check_upload(path, overwrite=overwrite)
    with tempfile.TemporaryDirectory(prefix="attomaton-") as name:
        local = Path(name, "run")
        with build_folder(local, kind, files, overwrite=False) as building:
            yield building
        upload_folder(local, path, overwrite=overwrite)


def check_upload(url: str | RemotePath, *, overwrite: bool = False) -> RemotePath:
    """Refuse, before any work, a URL to which a folder cannot be uploaded."""
    remote = as_path(url)
    if not isinstance(remote, RemotePath) or remote.is_web:
        raise UnwritablePlace(f"{url} is not the URL of an object store; give one such as s3://bucket/run")
    if manifests.read_sealed(remote / manifests.MANIFEST) is not None:
        if not overwrite:
            raise UnwritablePlace(
                f"{remote} contains an earlier run; choose another URL, or replace it with --overwrite "
                "(in Python: overwrite=True)"
            )
        return remote
    if manifests.was_sealed(remote / manifests.MANIFEST):
        raise UnwritablePlace(
            f"{remote / manifests.MANIFEST} was altered, so attomaton does not know which files it may "
            "replace; choose another URL, or remove all files there"
        )
    if manifests.read_sealed(remote / UPLOAD_MARKER) is None:
        names = remote.names_below()
        if names:
            raise UnwritablePlace(f"{remote} already contains files ({names[0]!r}); choose an empty folder")
    return remote


# The names of our files in a folder of a store, from its manifest, that of a training in it, and the marker.
def _owned_names(remote: RemotePath) -> set[str]:
    marker = manifests.read_sealed(remote / UPLOAD_MARKER) or {}
    names = listed_names({"files": marker.get("files", ())})
    manifest = manifests.read_sealed(remote / manifests.MANIFEST)
    if manifest is not None:
        names |= listed_names(manifest) | {manifests.MANIFEST, *SIDE_RECORDS}
        training = manifests.read_sealed(remote / INNER / manifests.MANIFEST)
        if training:
            names |= {f"{INNER}/{name}" for name in listed_names(training) | {manifests.MANIFEST}}
    return names
