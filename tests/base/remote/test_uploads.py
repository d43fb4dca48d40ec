"""Folders sent to a store: whole or not at all, and nobody else's files are touched."""

import random
from pathlib import Path

import pytest

import attomaton as at
from attomaton.base.artifacts import MANIFEST, check_files, read_checked, read_manifest, upload_folder
from attomaton.base.artifacts.uploads import UPLOAD_MARKER
from attomaton.base.errors import CorruptRun, UnreadableSource, UnwritablePlace
from attomaton.base.remote import RemotePath
from attomaton.corpora.readers.sources import is_run_folder
from tests.base.remote.store import Faults, Proxy


@pytest.fixture(params=["s3", "memory", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> RemotePath:
    """Where a run may go, behind each kind of URL."""
    if request.param == "s3":
        return request.getfixturevalue("bucket") / "run"
    return RemotePath(f"{request.param}://{tmp_path}/remote/run")


def write_run(folder: Path, ids: list[int]) -> Path:
    at.learn(ids, window=3, out=folder)
    return folder


def assert_same(place: RemotePath, folder: Path) -> None:
    names = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    assert place.names_below() == names
    for name in names:
        assert (place / name).read_bytes() == (folder / name).read_bytes()


def test_a_run_is_sent_whole_and_replaced_only_when_asked(place: RemotePath, tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", [0, 1, 0, 2, 0, 1])
    other = write_run(tmp_path / "other", [0, 1, 2, 1, 0, 1, 2, 2])
    assert upload_folder(one, place.url) == place
    assert_same(place, one)
    assert is_run_folder(place)
    manifest = read_manifest(place)
    assert len(check_files(place, manifest["files"], again="learn again")) == len(manifest["files"])
    with pytest.raises(UnwritablePlace, match=r"contains an earlier run.*overwrite"):
        upload_folder(other, place)
    assert_same(place, one)
    (place / "notes.txt").write_bytes(b"mine")
    upload_folder(other, place, overwrite=True)
    assert (place / "notes.txt").read_bytes() == b"mine"
    (place / "notes.txt").unlink()
    assert_same(place, other)


def test_what_an_earlier_run_alone_had_goes_and_nothing_else(bucket: RemotePath, tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", [0, 1, 0, 2, 0, 1])
    upload_folder(one, bucket / "run")
    manifest = read_manifest(one)
    extra = {**manifest["files"], "edges-00001.parquet": {"sha256": "", "bytes": 0}}
    from attomaton.base.artifacts.manifests import encode_record, seal

    (bucket / "run/edges-00001.parquet").write_bytes(b"")
    (bucket / "run/manifest.json").write_bytes(encode_record(seal({**manifest, "files": extra})))
    upload_folder(one, bucket / "run", overwrite=True)
    assert_same(bucket / "run", one)


def test_files_of_others_are_refused(bucket: RemotePath, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [0, 1, 0, 2, 0, 1])
    (bucket / "theirs/a.txt").write_bytes(b"theirs")
    with pytest.raises(UnwritablePlace, match="already contains files"):
        upload_folder(run, bucket / "theirs", overwrite=True)
    assert (bucket / "theirs").names_below() == ["a.txt"]
    (bucket / "altered/manifest.json").write_bytes((run / MANIFEST).read_bytes().replace(b'"run"', b'"rum"'))
    with pytest.raises(UnwritablePlace, match="was altered"):
        upload_folder(run, bucket / "altered", overwrite=True)
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "nothing"):
        with pytest.raises(CorruptRun, match="not a complete folder"):
            upload_folder(folder, bucket / "new")
    for url in ("https://example.org/run", str(tmp_path / "other")):
        with pytest.raises(UnwritablePlace, match="not the URL of an object store"):
            upload_folder(run, url)
    assert (bucket / "new").names_below() == []


class Cut(Exception):
    """The moment at which an upload is killed."""


@pytest.mark.parametrize("replacing", [False, True])
def test_an_upload_that_is_cut_short_is_no_run_and_goes_on(
    replacing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = write_run(tmp_path / "one", [0, 1, 0, 2, 0, 1])
    other = write_run(tmp_path / "other", [0, 1, 2, 1, 0, 1, 2, 2])
    left = [0]

    def counted(deed):
        def wrapped(self, *arguments):
            if left[0] == 0:
                raise Cut
            left[0] -= 1
            return deed(self, *arguments)

        return wrapped

    whole = 0
    for moment in range(40):
        place = RemotePath(f"memory://{tmp_path}/{replacing}/{moment}")
        if replacing:
            upload_folder(one, place)
        with monkeypatch.context() as patched:
            left[0] = moment
            for name in ("write_bytes", "upload", "unlink"):
                patched.setattr(RemotePath, name, counted(getattr(RemotePath, name)))
            try:
                upload_folder(other, place, overwrite=replacing)
                whole += 1
            except Cut:
                pass
        if is_run_folder(place):  # the old one, or the new one
            found = read_manifest(place)
            check_files(place, found["files"], again="learn again")
        upload_folder(other, place, overwrite=is_run_folder(place))
        assert_same(place, other)
    assert 0 < whole < 40


def test_faults_change_nothing(bucket: RemotePath, proxy: Proxy, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [0, 1, 0, 2, 0, 1])
    proxy.faults = Faults(0.2, seed=2, only=("500", "503", "reset"))
    upload_folder(run, bucket / "run")
    assert sum(proxy.faults.told.values()) > 2
    proxy.faults = Faults()
    assert_same(bucket / "run", run)
    proxy.faults = Faults(1.0, only=("500",), in_a_row=10_000)
    # not: there is nothing, write away
    with pytest.raises(UnreadableSource, match=r"Internal Server Error.*try again later"):
        upload_folder(run, bucket / "run", overwrite=True)
    with pytest.raises(
        UnreadableSource, match=r"Internal Server Error.*try again later"
    ):  # not: the run is corrupt
        read_manifest(bucket / "run")
    with pytest.raises(UnreadableSource, match=r"Internal Server Error.*try again later"):
        read_checked(bucket / "run" / "coverage.json", "")


def test_two_uploads_at_once_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "run", [0, 1, 0, 2, 0, 1])
    place = RemotePath(f"memory://{tmp_path}/run")
    send = RemotePath.upload
    begun = []

    def upload(self: RemotePath, file: Path) -> None:
        if not begun:
            begun.append(1)
            upload_folder(run, place)
        send(self, file)

    monkeypatch.setattr(RemotePath, "upload", upload)
    with pytest.raises(UnwritablePlace, match="another program is uploading"):
        upload_folder(run, place)
    assert not (place / UPLOAD_MARKER).is_file()
    assert_same(place, run)


def test_files_of_a_run_are_read_in_ranges(place: RemotePath, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [0, 1, 0, 2, 0, 1])
    upload_folder(run, place)
    blob = (run / "edges-00000.parquet").read_bytes()
    rng = random.Random(1)  # noqa: S311
    with (place / "edges-00000.parquet").open("rb") as file:
        for _ in range(10):
            start = rng.randrange(len(blob))
            assert file.seek(start) == file.tell() == start
            assert file.read(64) == blob[start : start + 64]
        assert not file.closed
    assert file.closed
