"""Run tokenizers of tiktoken, from their ranks files (``.tiktoken``).

A ranks file has a line for each token: its bytes in base64, and its rank, which is the id. The file has
neither the pattern that splits a text nor the special tokens; both follow from the name of the file.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attomaton.base.errors import UnreadableSource, UnsupportedOption, needing
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.budgets import TOKEN_TEXT, brief
from attomaton.corpora.tokenizers import encoders

TIKTOKEN = "tiktoken"
RANK_DIGITS = 9  # of a rank: Python converts longer numbers slowly
END_OF_TEXT = "<|endoftext|>"
END_OF_PROMPT = "<|endofprompt|>"

# How a text is split before tokens are merged, as tiktoken itself defines it for each scheme.
_GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
_CL100K = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_O200K = "|".join(
    [
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


@dataclass(frozen=True)
class Scheme:
    """The splitting pattern, the number of ranks, and the special tokens with their ids."""

    pattern: str
    n_ranks: int
    special: Mapping[str, int]


# The name of a ranks file, without the suffix → what the file lacks.
SCHEMES = {
    "r50k_base": Scheme(_GPT2, 50256, {END_OF_TEXT: 50256}),
    "p50k_base": Scheme(_GPT2, 50280, {END_OF_TEXT: 50256}),
    "cl100k_base": Scheme(
        _CL100K,
        100256,
        {
            END_OF_TEXT: 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            END_OF_PROMPT: 100276,
        },
    ),
    "o200k_base": Scheme(_O200K, 199998, {END_OF_TEXT: 199999, END_OF_PROMPT: 200018}),
}


class TiktokenEncoder:
    """A ranks file, run by the library ``tiktoken``.

    ``definition`` is JSON with the name of a scheme (``"scheme"``) and the text of the ranks file
    (``"ranks"``).
    """

    def __init__(self, definition: str) -> None:
        with needing("a .tiktoken file"):
            import tiktoken
        try:
            stored = json.loads(definition)
            name = str(stored["scheme"])
            content = str(stored["ranks"])
        except (ValueError, RecursionError, TypeError, LookupError) as error:
            raise UnreadableSource("this is not a ranks file; give another file") from error
        if name not in SCHEMES:
            raise UnsupportedOption(
                f"the pattern that splits text is unknown for a ranks file named {brief(name)!r}; rename "
                f"the file to one of {', '.join(sorted(SCHEMES))}, or give a tokenizer.json"
            )
        scheme = SCHEMES[name]
        # A special token may have an id between ranks (50256 in p50k_base), and one id may be unused (100256
        # in cl100k_base).
        rank_limit = scheme.n_ranks + len(scheme.special) + 1
        self._ranks = parse_ranks(content, rank_limit)
        if len(self._ranks) != scheme.n_ranks:
            raise UnreadableSource(
                f"the file has {len(self._ranks):,} ranks, but {name} has {scheme.n_ranks:,}; "
                f"{encoders.RESTORE_TOKENIZER}"
            )
        self._special = dict(scheme.special)
        shared = set(self._ranks.values()) & set(self._special.values())
        if shared:
            fault = f"rank {min(shared)} is the id of a special token"
            raise UnreadableSource(f"{fault}; {encoders.RESTORE_TOKENIZER}")
        with encoders.running("not a ranks file"):
            self._encoding = tiktoken.Encoding(
                name, pat_str=scheme.pattern, mergeable_ranks=self._ranks, special_tokens=self._special
            )

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int32]:
        """The texts as ids: ``(offsets, ids)``, text ``i`` is ``ids[offsets[i]:offsets[i + 1]]``."""
        with encoders.running("the tokenizer has no ids for part of the text"):
            lists = [self._encoding.encode_ordinary(text) for text in texts]
        return encoders.ragged(lists)

    def tokens(self) -> tuple[str, ...]:
        """The tokens in the order of their ids; bytes that are not UTF-8 are written as ``<0xE2>``."""
        names = {index: encoders.show_bytes(token) for token, index in self._ranks.items()}
        return encoders.name_all({**names, **{index: token for token, index in self._special.items()}})

    def decode(self, ids: Sequence[int]) -> str:
        texts = {index: token.encode() for token, index in self._special.items()}
        texts.update({index: token for token, index in self._ranks.items()})
        return b"".join(texts.get(index, b"") for index in ids).decode("utf-8", errors="replace")


def parse_ranks(content: str, rank_limit: int) -> dict[bytes, int]:
    """The rank of each token in the text of a ranks file; all must be different, and below ``rank_limit``."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        token, rank = _parse_line(line, number, rank_limit)
        if token in ranks:
            raise _bad_line(number, "repeats a token")
        ranks[token] = rank
    if any(bytes([byte]) not in ranks for byte in range(256)):  # then some texts could not be written
        raise UnreadableSource(f"some single byte has no rank; {encoders.RESTORE_TOKENIZER}")
    if len(set(ranks.values())) < len(ranks):
        raise UnreadableSource(f"two tokens have the same rank; {encoders.ANOTHER_TOKENIZER}")
    return ranks


# The token and the rank in a line of a ranks file, which has this number; a rank must be below `rank_limit`.
def _parse_line(line: str, number: int, rank_limit: int) -> tuple[bytes, int]:
    fields = line.split()
    try:
        token = base64.b64decode(fields[0], validate=True)
    except (ValueError, binascii.Error) as error:
        raise _bad_line(number, "is not a token in base64 with its rank") from error
    if len(fields) != 2 or not token or not (fields[1].isascii() and fields[1].isdigit()):
        raise _bad_line(number, "is not a token in base64 with its rank")
    if len(token) > TOKEN_TEXT:
        raise _bad_line(number, f"has a token of {len(token):,} bytes, more than {TOKEN_TEXT:,}")
    if len(fields[1]) > RANK_DIGITS or int(fields[1]) >= rank_limit:
        raise _bad_line(number, f"has the rank {brief(fields[1])}, not below {rank_limit:,}")
    return token, int(fields[1])


def _bad_line(number: int, fault: str) -> UnreadableSource:
    return UnreadableSource(f"line {number} {fault}; {encoders.RESTORE_TOKENIZER}")
