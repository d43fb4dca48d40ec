"""Files in blocks, each with its own digest, so that a part of a file can be checked when it is read."""

import hashlib
from pathlib import Path
from typing import Any, BinaryIO

from attomaton.base.errors import CorruptRun
from attomaton.base.ranges import RangeReader

BLOCK_BYTES = 1 << 17  # bytes of a block; the last one may be smaller
BLOCK_DIGITS = 16  # hexadecimal digits kept of the SHA-256 of a block
# End of the message about a file that does not match the manifest of the opened run.
REPLACED = ", or was replaced after it was opened; load the run again, or write it again"


def entry_in_blocks(path: Path) -> dict[str, Any]:
    """The manifest entry of a file: digest, size and, under ``blocks``, the digests of its blocks."""
    whole = hashlib.sha256()
    digests = ""  # of all blocks, BLOCK_DIGITS digits each
    size = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            whole.update(block)
            digests += _digest_block(block)
            size += len(block)
    return {"sha256": whole.hexdigest(), "bytes": size, "blocks": digests}


class CheckedFile(RangeReader):
    """An open file that returns only blocks that match their digests."""

    def __init__(self, file: BinaryIO, entry: Any, name: str) -> None:
        self._n_bytes = int(entry["bytes"])
        self._digests = str(entry["blocks"])
        super().__init__(file, name, self._n_bytes)
        if len(self._digests) != BLOCK_DIGITS * -(-self._n_bytes // BLOCK_BYTES):
            raise CorruptRun(f"the manifest has an invalid list of blocks for {name}; write the run again")

    def read_range(self, length: int) -> bytes:
        # reads and checks the whole blocks that contain these bytes; the first of them begins at `start`
        first = self.position // BLOCK_BYTES
        last = (self.position + length - 1) // BLOCK_BYTES
        start = first * BLOCK_BYTES
        self.file.seek(start)
        blob = self.file.read(min((last + 1) * BLOCK_BYTES, self._n_bytes) - start)
        for number in range(first, last + 1):
            block = blob[number * BLOCK_BYTES - start : (number + 1) * BLOCK_BYTES - start]
            if _digest_block(block) != self._digests[BLOCK_DIGITS * number : BLOCK_DIGITS * (number + 1)]:
                raise CorruptRun(f"{self.name} was altered after it was written{REPLACED}")
        return blob[self.position - start : self.position - start + length]


def _digest_block(block: bytes) -> str:
    return hashlib.sha256(block).hexdigest()[:BLOCK_DIGITS]
