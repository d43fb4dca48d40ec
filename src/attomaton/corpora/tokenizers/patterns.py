"""What a tiktoken ranks file leaves out: the pattern that splits the text, and the special tokens.

They are known by the name of the file; a test holds them to what the library itself has.
"""

from collections.abc import Mapping
from dataclasses import dataclass

END_OF_TEXT = "<|endoftext|>"
END_OF_PROMPT = "<|endofprompt|>"

_GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
_CL100K = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
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
    """A pattern, how many ranks there are, and the special tokens with their ids."""

    pattern: str
    n_ranks: int
    special: Mapping[str, int]


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
"""Name of a ranks file, without its ending → what it leaves out."""
