"""Files behind URLs are read and written as they are, whatever fails, or the error says why not."""

import hashlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import fsspec.config
import numpy as np
import pytest

from attomaton.base.errors import (
    MissingExtra,
    UnreadableSource,
    UnsupportedOption,
    UnwritablePlace,
)
from attomaton.base.remote import RemotePath, as_path, is_url, refuse_url
from attomaton.base.stores import S3_TRIES
from tests.base.remote.store import FAULTS, Faults, Proxy

BLOB = np.random.default_rng(5).bytes(300_000)


@pytest.fixture(params=["s3", "memory", "file"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> RemotePath:
    """An empty folder behind each kind of URL."""
    if request.param == "s3":
        return request.getfixturevalue("bucket") / "folder"
    if request.param == "file":
        return RemotePath(f"file://{tmp_path}/folder")
    return RemotePath(f"memory://{tmp_path.name}/folder")


def test_a_store_is_read_and_written_as_a_disk_is(folder: RemotePath, tmp_path: Path) -> None:
    assert not folder.is_dir()
    (folder / "b.bin").write_bytes(BLOB)
    (folder / "a.txt").write_bytes(b"to be")
    (folder / "below/c.txt").write_bytes(b"below")
    local = tmp_path / "local"
    local.write_bytes(BLOB[:70_000])
    (folder / "d.bin").upload(local)
    assert folder.is_dir()
    assert (folder / "a.txt").is_file()
    assert not (folder / "a.txt").is_dir()
    assert [place.name for place in sorted(folder.glob("*"))] == ["a.txt", "b.bin", "d.bin"]
    assert [path.listed.st_size for path in sorted(folder.glob("*.bin")) if path.listed] == [300_000, 70_000]
    assert (folder / "b.bin").read_bytes() == BLOB
    assert (folder / "d.bin").stat().st_size == 70_000
    (folder / "a.txt").write_bytes(b"or not to be")
    assert (folder / "a.txt").read_bytes() == b"or not to be"  # no listing or content is remembered
    (folder / "a.txt").unlink()
    (folder / "a.txt").unlink()
    assert not (folder / "a.txt").is_file()
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        (folder / "a.txt").read_bytes()


def test_ranges_are_those_of_the_bytes(folder: RemotePath) -> None:
    (folder / "b.bin").write_bytes(BLOB)
    rng = np.random.default_rng(3)
    with (folder / "b.bin").open("rb", ahead=4096) as file:
        for _ in range(40):
            start, length = int(rng.integers(0, 310_000)), int(rng.choice([1, 100, 5000, 100_000]))
            assert file.seek(start) == start
            assert file.read(length) == BLOB[start : start + length]
            assert file.tell() == max(start, min(start + length, len(BLOB)))
        assert file.seek(-8, os.SEEK_END) == len(BLOB) - 8
        assert file.read() == BLOB[-8:]
        assert not file.closed
    assert file.closed


def test_reading_takes_few_requests(bucket: RemotePath, proxy: Proxy) -> None:
    (bucket / "b.bin").write_bytes(BLOB)
    proxy.faults = Faults()
    assert (bucket / "b.bin").read_bytes() == BLOB
    assert [one.split()[0] for one in proxy.faults.requests] == ["HEAD", "GET"]
    proxy.faults = Faults()
    with (bucket / "b.bin").open("rb", ahead=1 << 17) as file:
        assert b"".join(file) == BLOB
    assert [one.split()[0] for one in proxy.faults.requests] == ["HEAD", "GET", "GET", "GET"]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_passes(bucket: RemotePath, proxy: Proxy, fault: str) -> None:
    place = bucket / "b.bin"
    proxy.faults = Faults(0.2 if fault == "stall" else 0.5, seed=11, only=(fault,), in_a_row=2)
    place.write_bytes(BLOB)
    with place.open("rb", ahead=1 << 16) as file:
        assert b"".join(iter(lambda: file.read(1 << 16), b"")) == BLOB
    assert [found.name for found in bucket.glob("*")] == ["b.bin"]
    assert place.stat().st_size == len(BLOB)
    assert proxy.faults.told[fault] > 0


def test_a_store_that_stays_down_is_named_after_a_few_tries(bucket: RemotePath, proxy: Proxy) -> None:
    (bucket / "a").write_bytes(b"to be")
    proxy.faults = Faults(1.0, only=("500",), in_a_row=1000)
    for deed in (bucket / "a").read_bytes, (bucket / "a").is_file, lambda: list(bucket.glob("*")):
        proxy.faults.told.clear()
        with pytest.raises(UnreadableSource, match=r"cannot be read: .*try again later"):
            deed()
        assert proxy.faults.told["500"] == S3_TRIES
    with pytest.raises(UnwritablePlace, match=r"cannot be written: .*try again later"):
        (bucket / "a").write_bytes(b"not to be")
    proxy.faults = Faults()
    assert (bucket / "a").read_bytes() == b"to be"


def test_an_object_that_is_replaced_is_not_mixed(bucket: RemotePath) -> None:
    (bucket / "a").write_bytes(bytes(100_000))
    [listed] = bucket.glob("a")
    with (bucket / "a").open("rb", ahead=4096) as file:
        assert file.read(10) == bytes(10)
        (bucket / "a").write_bytes(b"\1" * 100_000)
        file.seek(50_000)
        with pytest.raises(UnreadableSource, match="was replaced while it was read"):
            file.read(10)
    with pytest.raises(UnreadableSource, match="was replaced"):
        listed.open()


def test_what_is_forbidden_or_missing_is_said_at_once(bucket: RemotePath, proxy: Proxy) -> None:
    with pytest.raises(UnwritablePlace, match="no such bucket"):
        RemotePath("s3://bucket-that-is-not-there/a").write_bytes(b"")
    proxy.faults = Faults()
    with pytest.raises(FileNotFoundError, match="check the URL"):
        RemotePath("s3://bucket-that-is-not-there/a").read_bytes()
    assert len(proxy.faults.requests) <= 3
    with pytest.raises(UnsupportedOption, match="'rb'"):
        (bucket / "a").open("wb")


def test_missing_credentials_are_named(
    bucket: RemotePath, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": proxy.url})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    with pytest.raises(UnreadableSource, match=r"no credentials were found.*AWS_ACCESS_KEY_ID"):
        (bucket / "a").read_bytes()


def test_identities_change_with_the_content(folder: RemotePath) -> None:
    (folder / "a").write_bytes(b"to be")
    [listed] = folder.glob("a")
    before = (folder / "a").identify()
    assert before == listed.identify() == pickle.loads(pickle.dumps(listed)).identify()  # noqa: S301
    (folder / "b").write_bytes(b"to be")
    assert (folder / "b").identify() == before
    (folder / "a").write_bytes(b"to bee")
    assert (folder / "a").identify() != before
    if not folder.url.startswith("s3"):
        assert before == hashlib.sha256(b"to be").hexdigest()


@pytest.mark.parametrize(
    ("module", "url", "cure"),
    [
        ("fsspec", "s3://bucket/a", r"s3fs: pip install 'attomaton\[remote\]'"),
        ("fsspec", "memory://a", r"fsspec: pip install 'attomaton\[hf\]'"),
        ("s3fs", "s3://bucket/a", r"s3fs: pip install 'attomaton\[remote\]'"),
        ("gcsfs", "gs://bucket/a", "gcsfs: pip install gcsfs"),
    ],
)
def test_a_missing_library_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, url: str, cure: str
) -> None:
    from fsspec.registry import _registry

    for name in [one for one in sys.modules if one.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    for scheme in ("s3", "gs"):
        monkeypatch.delitem(_registry, scheme, raising=False)
    with pytest.raises(MissingExtra, match=cure):
        RemotePath(url).read_bytes()


def test_a_library_that_fails_to_import_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.registry import _registry

    for name in [one for one in sys.modules if one.partition(".")[0] in ("s3fs", "aiobotocore")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiobotocore", None)
    monkeypatch.delitem(_registry, "s3", raising=False)
    told = r"s3fs, which is installed but cannot be imported .*aiobotocore.*; reinstall it"
    with pytest.raises(MissingExtra, match=told):
        RemotePath("s3://bucket/a").read_bytes()


def test_urls_and_paths_are_told_apart() -> None:
    urls = [
        "s3://b/a",
        "gs://b",
        "memory://a",
        "file:///a",
        "simplecache::s3://b/a",
        "zip://a.txt::s3://b/c.zip",
    ]
    paths = ["a", "/a/b", "c:/a", "a b://c", "://a", "s3:/b/a"]
    assert all(map(is_url, urls))
    assert not any(map(is_url, paths))
    assert as_path(RemotePath("s3://b/a")) == as_path("s3://b/a") == RemotePath("s3://b") / "a"
    assert (as_path("s3://b/a.txt").name, as_path("s3://b/a.txt").suffix) == ("a.txt", ".txt")
    with pytest.raises(UnsupportedOption, match="give a folder on a disk of this machine"):
        refuse_url(Path("s3://b/work"), "the work folder")
    refuse_url(Path("c:work"), "the work folder")


def test_importing_attomaton_does_not_import_fsspec() -> None:
    code = "import sys, attomaton, attomaton.base.remote; sys.exit('fsspec' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
