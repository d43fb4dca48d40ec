"""Files read block by block: any read gives the bytes that were written, or refuses the file by its name."""

import io
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from attomaton.base.artifacts import blocks
from attomaton.base.artifacts.blocks import CheckedFile, entry_in_blocks
from attomaton.base.errors import CorruptRun

SIZE = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("blocks")


@pytest.fixture(autouse=True, scope="module")
def _small_blocks():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(blocks, "BLOCK_BYTES", SIZE)
        yield


def write(folder: Path, blob: bytes) -> tuple[Path, dict]:
    path = folder / "file"
    path.write_bytes(blob)
    return path, entry_in_blocks(path)


def opened(path: Path, entry: dict) -> CheckedFile:
    return CheckedFile(path.open("rb", buffering=0), entry, str(path))


moves = st.tuples(st.sampled_from([io.SEEK_SET, io.SEEK_CUR, io.SEEK_END]), st.integers(-40, 40))
reads = st.lists(st.tuples(moves, st.integers(-1, 40) | st.none()), max_size=12)


@given(blob=st.binary(max_size=60), asked=reads)
def test_it_reads_as_any_file_does(folder, blob, asked):
    plain = io.BytesIO(blob)
    with opened(*write(folder, blob)) as file:
        assert (file.readable(), file.seekable(), file.writable()) == (True, True, False)
        for (whence, offset), size in asked:
            start = {io.SEEK_SET: 0, io.SEEK_CUR: plain.tell(), io.SEEK_END: len(blob)}[whence]
            plain.seek(max(0, start + offset))
            assert file.seek(offset, whence) == plain.tell() == file.tell()
            assert file.read(size) == plain.read(size)
        file.seek(0)
        held = bytearray(len(blob) + 3)
        assert file.readinto(held) == len(blob)
        assert bytes(held[: len(blob)]) == blob


@given(blob=st.binary(min_size=1, max_size=60), data=st.data())
def test_an_altered_block_is_refused_and_the_others_are_given(folder, blob, data):
    path, entry = write(folder, blob)
    where, bit = data.draw(st.integers(0, len(blob) - 1)), data.draw(st.integers(0, 7))
    altered = bytearray(blob)
    altered[where] ^= 1 << bit
    path.write_bytes(altered)
    with opened(path, entry) as file:
        for number in range(-(-len(blob) // SIZE)):
            file.seek(SIZE * number)
            if number == where // SIZE:
                with pytest.raises(
                    CorruptRun, match=rf"{path} was altered .* or was replaced .*load the run again"
                ):
                    file.read(1)
            else:
                assert file.read(SIZE) == blob[SIZE * number : SIZE * (number + 1)]


@given(blob=st.binary(min_size=1, max_size=60), data=st.data())
def test_a_file_that_is_cut_short_or_grew_gives_no_other_bytes(folder, blob, data):
    path, entry = write(folder, blob)
    path.write_bytes(blob[: data.draw(st.integers(0, len(blob) - 1))])
    with opened(path, entry) as file, pytest.raises(CorruptRun, match="was altered"):
        file.read()
    path.write_bytes(blob + b"more")
    with opened(path, entry) as file:
        assert file.read() == blob


@pytest.mark.parametrize("wrong", [{"blocks": ""}, {"blocks": "0" * 17}, {"bytes": 99}])
def test_a_manifest_that_lists_other_blocks_is_refused(folder, wrong):
    path, entry = write(folder, b"0123456789")
    with path.open("rb") as file, pytest.raises(CorruptRun, match="has an invalid list of blocks for it"):
        CheckedFile(file, {**entry, **wrong}, "it")
