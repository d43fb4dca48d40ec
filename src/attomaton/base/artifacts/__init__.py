"""Folders and files on disk: who owns them, how they are written atomically and verified when read."""

from attomaton.base.artifacts.arrays import digest_arrays, read_arrays, save_arrays, write_arrays
from attomaton.base.artifacts.files import digest_file, explained, identify_file, write_file
from attomaton.base.artifacts.folders import Building, build_folder
from attomaton.base.artifacts.manifests import (
    MANIFEST,
    RUN,
    TRAINING,
    FolderKind,
    check_files,
    digest_record,
    json_writer,
    list_digests,
    read_checked,
    read_manifest,
    read_sealed,
    write_sealed,
)
from attomaton.base.artifacts.runs import Run, explained_run, fill_run, load_run, read_run, write_run
from attomaton.base.artifacts.targets import begins_with, check_target, is_parquet, starts_with, write_target
from attomaton.base.artifacts.uploads import check_upload, upload_folder

__all__ = [
    "MANIFEST",
    "RUN",
    "TRAINING",
    "Building",
    "FolderKind",
    "Run",
    "begins_with",
    "build_folder",
    "check_files",
    "check_target",
    "check_upload",
    "digest_arrays",
    "digest_file",
    "digest_record",
    "explained",
    "explained_run",
    "fill_run",
    "identify_file",
    "is_parquet",
    "json_writer",
    "list_digests",
    "load_run",
    "read_arrays",
    "read_checked",
    "read_manifest",
    "read_run",
    "read_sealed",
    "save_arrays",
    "starts_with",
    "upload_folder",
    "write_arrays",
    "write_file",
    "write_run",
    "write_sealed",
    "write_target",
]
