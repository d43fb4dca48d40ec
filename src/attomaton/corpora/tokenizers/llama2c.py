"""Run tokenizers of llama2.c, from their ``.bin`` files: a score and a text for each token."""

import base64
import binascii
import math
import re
import struct
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from attomaton.base.errors import UnreadableSource
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.budgets import TOKEN_TEXT, VOCABULARY_SIZE
from attomaton.corpora.tokenizers.encoders import RESTORE_TOKENIZER, name_all, ragged, show_bytes

LLAMA2C = "llama2.c"
FIRST_BYTE = 3  # the id of the byte 0; the ids of the 256 bytes are consecutive
# A file begins with the length of the longest token. Then each token has a score, a length, and its bytes.
HEADER_BYTES = 4
TOKEN_HEADER = struct.Struct("<fi")
LEAST_SCORE = -1e10  # pairs with lower scores are never merged
_BYTE = re.compile(rb"<0x([0-9A-F]{2})>")


class Llama2cEncoder:
    """A tokenizer of llama2.c, from a base64-encoded file; texts get a space at the start, but no BOS."""

    def __init__(self, definition: str) -> None:
        try:
            content = base64.b64decode(definition, validate=True)
        except (ValueError, binascii.Error) as error:
            raise UnreadableSource("this is not a tokenizer of llama2.c; give another file") from error
        self._tokens, self._scores = _parse_tokens(content)
        self._ids: dict[bytes, int] = {}
        for index, token in enumerate(self._tokens):
            self._ids.setdefault(token, index)
        if len(self._tokens) < FIRST_BYTE + 256 or b" " not in self._ids:
            raise UnreadableSource(f"the space, or some byte, is not a token; {RESTORE_TOKENIZER}")

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int32]:
        return ragged([self._merge(self._characters(text)) for text in texts])

    def tokens(self) -> tuple[str, ...]:
        return name_all({index: show_bytes(token) for index, token in enumerate(self._tokens)})

    def decode(self, ids: Sequence[int]) -> str:
        joined = b"".join(self._bytes_of(index) for index in ids)
        return joined.removeprefix(b" ").decode("utf-8", errors="replace")

    def _bytes_of(self, index: int) -> bytes:
        token = self._tokens[index] if 0 <= index < len(self._tokens) else b""
        byte = _BYTE.fullmatch(token) if FIRST_BYTE <= index < FIRST_BYTE + 256 else None
        return token if byte is None else bytes([int(byte[1], 16)])

    # The ids of the characters; a character that is not a token becomes its bytes.
    def _characters(self, text: str) -> list[int]:
        ids: list[int] = [self._ids[b" "]] if text else []
        for character in text:
            encoded = character.encode("utf-8", errors="replace")
            index = self._ids.get(encoded)
            ids += [byte + FIRST_BYTE for byte in encoded] if index is None else [index]
        return ids

    # Merge the pair whose token has the best score, the first one in a tie, until no pair is left.
    # The ids form a linked list: a merged token is at the position of its left id, and the position of the
    # right id is empty. Pairs wait in a heap; pairs that have changed since are skipped.
    def _merge(self, ids: list[int]) -> list[int]:
        following = [*range(1, len(ids)), None] if ids else []
        previous: list[int | None] = [None, *range(len(ids) - 1)]
        current: list[int | None] = list(ids)  # None where a token was merged into the one before

        # (−score, position, merged id, left id, right id), if the two ids at a position make a token.
        def pair_at(position: int | None) -> tuple[float, int, int, int, int] | None:
            after = None if position is None else following[position]
            if position is None or after is None:
                return None
            left, right = current[position], current[after]
            assert left is not None and right is not None  # noqa: S101, PT018  linked entries hold a token
            merged = self._ids.get(self._tokens[left] + self._tokens[right])
            return None if merged is None else (-self._scores[merged], position, merged, left, right)

        waiting = [pair for pair in map(pair_at, range(len(ids))) if pair is not None]
        heapify(waiting)
        while waiting:
            _, position, merged, left, right = heappop(waiting)
            after = following[position]
            if current[position] != left or after is None or current[after] != right:
                continue  # one of the two was merged with another token
            current[position] = merged
            current[after] = None
            later = following[after]
            following[position] = later
            if later is not None:
                previous[later] = position
            for pair in (pair_at(previous[position]), pair_at(position)):
                if pair is not None:
                    heappush(waiting, pair)
        return [index for index in current if index is not None]


# The bytes and the score of each token in a file, by id.
def _parse_tokens(content: bytes) -> tuple[list[bytes], list[float]]:
    tokens: list[bytes] = []
    scores: list[float] = []
    offset = HEADER_BYTES
    while offset < len(content):
        if offset + TOKEN_HEADER.size > len(content) or len(tokens) >= VOCABULARY_SIZE:
            raise UnreadableSource(f"token {len(tokens)} is cut off, or one too many; {RESTORE_TOKENIZER}")
        score, length = TOKEN_HEADER.unpack_from(content, offset)
        offset += TOKEN_HEADER.size + length
        if not 0 <= length <= TOKEN_TEXT or offset > len(content):
            raise UnreadableSource(f"token {len(tokens)} has a length of {length} bytes; {RESTORE_TOKENIZER}")
        if not math.isfinite(score) or score <= LEAST_SCORE:
            raise UnreadableSource(f"token {len(tokens)} has the score {score}; {RESTORE_TOKENIZER}")
        tokens.append(content[offset - length : offset])
        scores.append(score)
    return tokens, scores
