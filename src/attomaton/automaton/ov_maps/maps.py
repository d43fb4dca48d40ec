"""Maps of written tokens: the token that a head writes where it reads a token, in one or several ways.

A head attends to a *key*: a token together with the way in which it is read. In way w the token x writes
``table[w, x]``, and its key is w · n_tokens + x. With one way, keys are tokens. With the two ways identity
and successor, a position with the token x offers two keys: the first writes x, the second the token that most
often follows x. An *unknown word* of a new text, which the vocabulary does not contain, comes after the
vocabulary in both numberings: word i is token n_tokens + i and key n_keys + i. It writes itself.
"""

# `find_writing` makes a `Writing` from what a user gives; the methods of `Writing` translate tokens and keys.

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from attomaton.base import errors
from attomaton.base.borders import trusted
from attomaton.base.errors import UnreadableSource
from attomaton.base.options import show
from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Bool, Int32, Integers
from attomaton.corpora.samples import MAX_TOKENS, Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.vocabulary import name_token
from attomaton.graphs.bags import Bags
from attomaton.graphs.grouping import order_pairs
from attomaton.graphs.writing import check_writes, count_successors

IDENTITY_MAP, SUCCESSOR_MAP = "identity", "successor"
NAMED_MAPS = (IDENTITY_MAP, SUCCESSOR_MAP, f"{IDENTITY_MAP}+{SUCCESSOR_MAP}")

# Values of `writes`: a name, an array of written tokens (n_tokens,), or a mapping of tokens.
Writes = str | Integers | Sequence[int] | Mapping[Any, Any]


@dataclass(frozen=True, eq=False, repr=False)
class Writing:
    """The token that each token writes in each way of reading it: ``table``, shape (n_ways, n_tokens).

    ``name`` is the name of the map: ``"successor"``, ``"identity+successor"`` or ``"given"``.
    """

    table: Int32
    name: str = "given"

    def __post_init__(self) -> None:
        rows: Any = np.asarray(self.table)
        if rows.ndim != 2 or not len(rows):
            raise errors.MismatchedParts(
                f"the table of written tokens has shape {rows.shape}; give an array of shape (n_ways, "
                "n_tokens), with one row for each way of reading"
            )
        n_tokens = rows.shape[1]
        if rows.size > MAX_TOKENS:
            raise errors.TokenOutOfRange(
                f"{len(rows)} ways to read {n_tokens:,} tokens make {rows.size:,} keys, and the limit is "
                f"{MAX_TOKENS:,}; give fewer rows in writes"
            )
        checked = [check_writes(row, n_tokens) for row in rows]
        object.__setattr__(self, "table", np.array(checked, np.int32).reshape(rows.shape))

    def __repr__(self) -> str:
        ways = "1 way" if self.n_ways == 1 else f"{self.n_ways} ways"
        return f"Writing({self.name}: {ways}, {self.n_tokens:,} tokens)"

    @property
    def n_ways(self) -> int:
        """The number of ways to read a token."""
        return len(self.table)

    @property
    def n_tokens(self) -> int:
        """The size of the vocabulary."""
        return self.table.shape[1]

    @property
    def n_keys(self) -> int:
        """The number of keys: one for each way and token."""
        return self.table.size

    @cached_property
    def offered(self) -> Bool:
        """Which keys contexts offer, shape (n_ways, n_tokens): those that no earlier way makes redundant."""
        repeated = [(self.table[:row] == self.table[row]).any(axis=0) for row in range(self.n_ways)]
        return ~np.array(repeated).reshape(self.table.shape)

    def token_of(self, keys: Integers) -> Int32:
        """The token x or n_tokens + i that each key w · n_tokens + x or n_keys + i reads."""
        unknown = keys - (self.n_keys - self.n_tokens)
        return np.where(keys >= self.n_keys, unknown, keys % max(self.n_tokens, 1)).astype(np.int32)

    def write(self, keys: Integers) -> Int32:
        """The token that each key writes; an unknown word writes itself."""
        if not self.n_keys:
            return self.token_of(keys)
        written = self.table.ravel()[np.minimum(keys, self.n_keys - 1)]
        return np.where(keys < self.n_keys, written, self.token_of(keys)).astype(np.int32)

    def read(self, samples: Samples) -> Samples:
        """The samples with each position replaced by the keys that it offers; labels remain tokens."""
        if self.n_ways == 1:
            return samples
        values, position = self._keys_of(samples.values)
        offsets = offsets_of(np.bincount(position, minlength=len(samples.values)))
        return trusted(
            Samples,
            values=values,
            starts=offsets[samples.starts],
            stops=offsets[samples.stops],
            labels=samples.labels,
            n_tokens=samples.n_tokens + self.n_keys - self.n_tokens,
        )

    def read_bags(self, bags: Bags) -> Bags:
        """The bags with each token replaced by the keys that it offers."""
        if self.n_ways == 1:
            return bags
        keys, row = self._keys_of(bags.token)
        sample = bags.sample[row]
        order = order_pairs(sample, keys, max(len(bags.samples), MAX_TOKENS))
        return Bags(self.read(bags.samples), sample[order], keys[order], bags.multiplicity[row[order]])

    # The keys that each token offers, later ways first, and the index of the token of each key.
    def _keys_of(self, tokens: Int32) -> tuple[Int32, Any]:
        # Rows are tokens. Columns are ways in descending order, so the last column is the first way.
        in_vocabulary = tokens < self.n_tokens
        is_offered = np.zeros((len(tokens), self.n_ways), bool)
        is_offered[in_vocabulary] = self.offered.T[tokens[in_vocabulary], ::-1]
        keys = np.arange(self.n_ways)[::-1] * self.n_tokens + tokens[:, None].astype(np.int64)
        # an unknown word offers one key, in the column of the first way: token n_tokens + i, key n_keys + i
        is_offered[~in_vocabulary, -1] = True
        keys[~in_vocabulary, -1] += self.n_keys - self.n_tokens
        return keys[is_offered].astype(np.int32), np.flatnonzero(is_offered) // self.n_ways

    def name_keys(self, vocabulary: Vocabulary | None) -> Vocabulary | None:
        """A vocabulary of keys, with the names of :class:`KeyNames`; None if tokens have no texts."""
        if vocabulary is None or self.n_ways == 1:
            return vocabulary
        name = KeyNames(self, lambda token: name_token(vocabulary, token))
        return Vocabulary(tuple(map(name, range(self.n_keys))))


@dataclass(frozen=True)
class KeyNames:
    """Names a key ``"x → y"``, or ``"x"`` if there is only one way or the token writes itself."""

    writing: Writing
    name: Callable[[int], str]

    def __call__(self, key: int) -> str:
        keys = np.array([key])
        read = int(self.writing.token_of(keys)[0])
        written = int(self.writing.write(keys)[0])
        name = self.name(read)
        return name if read == written or self.writing.n_ways == 1 else f"{name} → {self.name(written)}"


def check_named(writes: Any) -> Writes:
    """The argument `writes` itself; a text must be the name of a map."""
    if isinstance(writes, str) and writes not in NAMED_MAPS:
        raise errors.UnsupportedOption(
            f"writes is {show(writes)}; give {', '.join(NAMED_MAPS[:-1])} or {NAMED_MAPS[-1]}, an array of "
            "written tokens, or a mapping of tokens to tokens"
        )
    return writes


def read_map(path: str) -> dict[str, str | int]:
    """A map of tokens to tokens from a JSON file."""
    try:
        record: Any = json.loads(Path(path).read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnreadableSource(
            f"writes is {show(path)}, neither one of {', '.join(NAMED_MAPS)} nor a file that can be read "
            f"({reason}); give one of these names, or a JSON file that maps tokens to tokens"
        ) from error
    except ValueError as error:
        raise UnreadableSource(f"{path} is not JSON ({error}); write a map of tokens to tokens") from error
    if not isinstance(record, dict) or not all(map(_is_token, cast("dict[str, Any]", record).values())):
        raise UnreadableSource(f'{path} does not map tokens to tokens; write JSON such as {{"a": "b"}}')
    return cast("dict[str, str | int]", record)


def _is_token(token: Any) -> bool:
    # a text or an id; True and False are ints in Python, but not ids
    return isinstance(token, str | int) and not isinstance(token, bool)


def find_writing(writes: Writes, samples: Samples, vocabulary: Vocabulary | None = None) -> Writing:
    """The map that a user names or gives; samples and vocabulary are those of the corpus."""
    tokens = np.arange(samples.n_tokens, dtype=np.int32)
    if isinstance(writes, str):
        check_named(writes)
        ways = {IDENTITY_MAP: lambda: tokens, SUCCESSOR_MAP: lambda: count_successors(samples)}
        return Writing(np.array([ways[name]() for name in writes.split("+")]), writes)
    if isinstance(writes, Mapping):
        return Writing(check_writes(_number_writes(writes, vocabulary), samples.n_tokens)[None])
    table: Any = np.asarray(writes)
    if table.ndim == 1:
        table = table[None]  # one way
    # one row for each way; `check_writes` refuses an array of another shape
    rows = table if table.ndim == 2 and len(table) else [table]
    return Writing(np.array([check_writes(row, samples.n_tokens) for row in rows]))


def _number_writes(writes: Mapping[Any, Any], vocabulary: Vocabulary | None) -> dict[int, int]:
    # a map of ids; a pair is left out if the text that it reads is not in the corpus
    if not any(isinstance(token, str) for pair in writes.items() for token in pair):
        return dict(writes)
    if vocabulary is None:
        if all(str(token).isdecimal() for pair in writes.items() for token in pair):
            return {int(read): int(written) for read, written in writes.items()}
        raise errors.UnknownToken("writes maps texts, but the corpus has no vocabulary; map token ids")
    ids = vocabulary.ids
    pairs = {str(read): str(written) for read, written in writes.items() if str(read) in ids}
    missing = [(read, written) for read, written in pairs.items() if written not in ids]
    if missing:
        read, written = missing[0]
        raise errors.UnknownToken(
            f"writes maps {show(read)} to {show(written)}, a token that is not in the corpus ({len(missing)} "
            "such pairs); leave these pairs out"
        )
    return {ids[read]: ids[written] for read, written in pairs.items()}
