"""Folders and files on disk: who owns them, how they are written atomically and verified when read."""

from attomaton.base.artifacts.arrays import (
    digest_arrays as digest_arrays,
    read_arrays as read_arrays,
    save_arrays as save_arrays,
    write_arrays as write_arrays,
)
from attomaton.base.artifacts.files import (
    digest_file as digest_file,
    explained as explained,
    identify_file as identify_file,
    write_file as write_file,
)
from attomaton.base.artifacts.folders import Building as Building, build_folder as build_folder
from attomaton.base.artifacts.manifests import (
    MANIFEST as MANIFEST,
    RUN as RUN,
    TRAINING as TRAINING,
    FolderKind as FolderKind,
    check_files as check_files,
    digest_record as digest_record,
    json_writer as json_writer,
    list_digests as list_digests,
    read_checked as read_checked,
    read_manifest as read_manifest,
    read_sealed as read_sealed,
    write_sealed as write_sealed,
)
from attomaton.base.artifacts.runs import (
    Run as Run,
    explained_run as explained_run,
    fill_run as fill_run,
    load_run as load_run,
    read_run as read_run,
    write_run as write_run,
)
from attomaton.base.artifacts.targets import (
    begins_with as begins_with,
    check_target as check_target,
    is_parquet as is_parquet,
    starts_with as starts_with,
    write_target as write_target,
)
from attomaton.base.artifacts.uploads import check_upload as check_upload, upload_folder as upload_folder
