"""Tokenizers of llama2.c (``tok512.bin`` and its like): tokens with scores, merged best score first.

The file is the length of the longest token, then of each token its score, its length and its bytes, all in
little-endian 32-bit numbers. Ids 0, 1 and 2 are unknown, begin and end; ids 3 to 258 are the 256 bytes.
"""

import base64
import binascii
import math
import re
import struct
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

from attomaton.base.errors import UnreadableSource
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.budgets import TOKEN_TEXT, VOCABULARY
from attomaton.corpora.tokenizers.encoders import name_all, ragged, show_bytes

LLAMA2C = "llama2.c"
FIRST_BYTE, BEGIN = 3, 1
LEAST_SCORE = -1e10
"""Pairs below are never merged."""

RESTORE = "restore the file"
_BYTE = re.compile(rb"<0x([0-9A-F]{2})>")


class Llama2cEncoder:
    """A tokenizer of llama2.c, from its file in base64.

    A text begins with a blank, as llama2.c writes it; no begin token is added.
    """

    def __init__(self, definition: str) -> None:
        try:
            content = base64.b64decode(definition, validate=True)
        except (ValueError, binascii.Error) as error:
            raise UnreadableSource("not the definition of a llama2.c tokenizer; give another file") from error
        self._tokens, self._scores = _parse(content)
        self._ids: dict[bytes, int] = {}
        for index, token in enumerate(self._tokens):
            self._ids.setdefault(token, index)
        if len(self._tokens) < FIRST_BYTE + 256 or b" " not in self._ids:
            raise UnreadableSource(f"it has no token for a blank, or none for every byte; {RESTORE}")

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int32]:
        """The texts as ids."""
        return ragged([self._merge(self._split(text)) for text in texts])

    def tokens(self) -> tuple[str, ...]:
        """The tokens as text; a byte that is no UTF-8 is shown like ``<0xE9>``."""
        return name_all({index: show_bytes(token) for index, token in enumerate(self._tokens)})

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids in a row, without the blank that it began with."""
        joined = b"".join(self._read(index) for index in ids)
        return joined.removeprefix(b" ").decode("utf-8", errors="replace")

    def _read(self, index: int) -> bytes:
        token = self._tokens[index] if 0 <= index < len(self._tokens) else b""
        byte = _BYTE.fullmatch(token) if FIRST_BYTE <= index < FIRST_BYTE + 256 else None
        return token if byte is None else bytes([int(byte[1], 16)])

    def _split(self, text: str) -> list[int]:
        """Characters, or the bytes of those that are no token."""
        found: list[int] = [self._ids[b" "]] if text else []
        for character in text:
            written = character.encode("utf-8", errors="replace")
            known = self._ids.get(written)
            found += [byte + FIRST_BYTE for byte in written] if known is None else [known]
        return found

    def _merge(self, ids: list[int]) -> list[int]:
        """Merge the pair whose token has the best score, the first of equals, until none is left.

        Pairs wait in a heap; one whose places have changed since is passed over.
        """
        after = [*range(1, len(ids)), None] if ids else []
        before: list[int | None] = [None, *range(len(ids) - 1)]
        there: list[int | None] = list(ids)

        def pair(place: int | None) -> tuple[float, int, int, int, int] | None:
            beside = None if place is None else after[place]
            if place is None or beside is None:
                return None
            left, right = there[place], there[beside]
            assert left is not None and right is not None  # noqa: S101, PT018  linked places hold a token
            made = self._ids.get(self._tokens[left] + self._tokens[right])
            return None if made is None else (-self._scores[made], place, made, left, right)

        waiting = [one for one in map(pair, range(len(ids))) if one is not None]
        heapify(waiting)
        while waiting:
            _, place, made, left, right = heappop(waiting)
            beside = after[place]
            if there[place] != left or beside is None or there[beside] != right:
                continue
            there[place], there[beside] = made, None
            after[place], last = after[beside], after[beside]
            if last is not None:
                before[last] = place
            for one in (pair(before[place]), pair(place)):
                if one is not None:
                    heappush(waiting, one)
        return [one for one in there if one is not None]


def _parse(content: bytes) -> tuple[list[bytes], list[float]]:
    """The tokens and their scores."""
    tokens: list[bytes] = []
    scores: list[float] = []
    place = 4
    while place < len(content):
        if place + 8 > len(content) or len(tokens) >= VOCABULARY:
            raise UnreadableSource(f"it ends inside token {len(tokens)}, or has too many; {RESTORE}")
        score, length = struct.unpack_from("<fi", content, place)
        place += 8 + length
        if not 0 <= length <= TOKEN_TEXT or place > len(content):
            raise UnreadableSource(f"token {len(tokens)} is said to have {length} bytes; {RESTORE}")
        if not math.isfinite(score) or score <= LEAST_SCORE:
            raise UnreadableSource(f"token {len(tokens)} has the score {score}; {RESTORE}")
        tokens.append(content[place - length : place])
        scores.append(score)
    return tokens, scores


def encode_by_definition(encoder: Llama2cEncoder, text: str) -> list[int]:
    """The same ids word for word: look at all pairs, merge the best, and again."""
    ids = encoder._split(text)  # pyright: ignore[reportPrivateUsage]
    known, tokens, scores = encoder._ids, encoder._tokens, encoder._scores  # pyright: ignore[reportPrivateUsage]
    while True:
        made = [known.get(tokens[left] + tokens[right]) for left, right in pairwise(ids)]
        found = [(-scores[one], place, one) for place, one in enumerate(made) if one is not None]
        if not found:
            return ids
        _, place, one = min(found)
        ids[place : place + 2] = [one]
