"""The tokens that each token writes when it is read, in one or several ways; contexts as keys.

A head attends to a *key*: a token, together with the way in which it is read. In way w the token x writes
``table[w, x]``; its key is w · n_tokens + x. With one way keys are tokens. With the two ways identity and
successor a position that holds x offers two keys: one writes x, the other the token that most often follows
x.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from attomaton.base.borders import trusted
from attomaton.base.errors import (
    MismatchedParts,
    TokenOutOfRange,
    UnknownToken,
    UnreadableSource,
    UnsupportedOption,
)
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
"""The named maps."""

Writes = str | Integers | Sequence[int] | Mapping[Any, Any]
"""Values of ``writes``: a name, an array of written tokens (n_tokens,), or a mapping of tokens."""


@dataclass(frozen=True, eq=False, repr=False)
class Writing:
    """The tokens that each token writes when it is read.

    Attributes
    ----------
    table : int32 array, shape (n_ways, n_tokens)
        The token that each token writes, in each way.
    name : str
        Its name: ``"successor"``, ``"identity+successor"`` or ``"given"``.
    """

    table: Int32
    name: str = "given"

    def __post_init__(self) -> None:
        rows: Any = np.asarray(self.table)
        if rows.ndim != 2 or not len(rows):
            raise MismatchedParts(
                f"the table of written tokens has shape {rows.shape}; give (n_ways, n_tokens)"
            )
        n_tokens = rows.shape[1]
        if rows.size > MAX_TOKENS:
            raise TokenOutOfRange(
                f"{len(rows)} ways for {n_tokens:,} tokens make {rows.size:,} keys; the limit is "
                f"{MAX_TOKENS:,}: give fewer ways"
            )
        checked = [check_writes(row, n_tokens) for row in rows]
        object.__setattr__(self, "table", np.array(checked, np.int32).reshape(rows.shape))

    def __repr__(self) -> str:
        ways = "1 way" if self.n_ways == 1 else f"{self.n_ways} ways"
        return f"Writing({self.name}: {ways}, {self.n_tokens:,} tokens)"

    @property
    def n_ways(self) -> int:
        """The number of ways in which a token can be read."""
        return len(self.table)

    @property
    def n_tokens(self) -> int:
        """Size of the vocabulary."""
        return self.table.shape[1]

    @property
    def n_keys(self) -> int:
        """The number of keys: n_ways · n_tokens."""
        return self.table.size

    @cached_property
    def offered(self) -> Bool:
        """Which keys contexts offer, shape (n_ways, n_tokens): those that write a new token."""
        earlier = [(self.table[:row] == self.table[row]).any(axis=0) for row in range(self.n_ways)]
        return ~np.array(earlier).reshape(self.table.shape)

    def token_of(self, keys: Integers) -> Int32:
        """The token that each key reads; keys of at least ``n_keys`` are unknown words."""
        beyond = keys >= self.n_keys
        return np.where(beyond, keys - (self.n_keys - self.n_tokens), keys % max(self.n_tokens, 1)).astype(
            np.int32
        )

    def write(self, keys: Integers) -> Int32:
        """The token that each key writes; an unknown word is written as itself."""
        if not self.n_keys:
            return self.token_of(keys)
        written = self.table.ravel()[np.minimum(keys, self.n_keys - 1)]
        return np.where(keys < self.n_keys, written, self.token_of(keys)).astype(np.int32)

    def read(self, samples: Samples) -> Samples:
        """The samples with each position as the keys that it offers, the query last; labels stay tokens."""
        if self.n_ways == 1:
            return samples
        values, position = self._keys_of(samples.values)
        counts = np.bincount(position, minlength=len(samples.values))
        offsets = offsets_of(counts)
        return trusted(
            Samples,
            values=values,
            starts=offsets[samples.starts],
            stops=offsets[samples.stops],
            labels=samples.labels,
            n_tokens=samples.n_tokens + self.n_keys - self.n_tokens,
        )

    def read_bags(self, bags: Bags) -> Bags:
        """The bags with each token as the keys that it offers."""
        if self.n_ways == 1:
            return bags
        keys, row = self._keys_of(bags.token)
        sample = bags.sample[row]
        order = order_pairs(sample, keys, max(len(bags.samples), MAX_TOKENS))
        return Bags(self.read(bags.samples), sample[order], keys[order], bags.multiplicity[row[order]])

    def _keys_of(self, tokens: Int32) -> tuple[Int32, Any]:
        """The keys that each token offers, later ways first, and the index of the token of each."""
        in_vocabulary = tokens < self.n_tokens
        inside = np.where(in_vocabulary, tokens, 0)
        has = np.zeros((len(tokens), self.n_ways), bool)
        keys = np.zeros((len(tokens), self.n_ways), np.int64)
        for column, row in enumerate(reversed(range(self.n_ways))):
            has[:, column] = self.offered[row][inside] & in_vocabulary if self.n_tokens else False
            keys[:, column] = row * self.n_tokens + tokens
        has[~in_vocabulary, -1] = True
        keys[~in_vocabulary, -1] += self.n_keys - self.n_tokens
        return keys[has].astype(np.int32), np.flatnonzero(has) // self.n_ways

    def name_keys(self, vocabulary: Vocabulary | None) -> Vocabulary | None:
        """Keys as texts, named by :class:`KeyNames`."""
        if vocabulary is None or self.n_ways == 1:
            return vocabulary
        name = KeyNames(self, lambda token: name_token(vocabulary, token))
        return Vocabulary(tuple(map(name, range(self.n_keys))))


@dataclass(frozen=True)
class KeyNames:
    """The names of keys: the texts of tokens if there is one way, otherwise ``"x → y"``.

    A key that writes the token it reads has the name of that token.
    """

    writing: Writing
    name: Callable[[int], str]

    def __call__(self, token: int) -> str:
        key = np.array([token])
        read, written = int(self.writing.token_of(key)[0]), int(self.writing.write(key)[0])
        name = self.name(read)
        return name if read == written or self.writing.n_ways == 1 else f"{name} → {self.name(written)}"


def check_named(writes: Any) -> Writes:
    """Check a user's ``writes``."""
    if isinstance(writes, str) and writes not in NAMED_MAPS:
        raise UnsupportedOption(
            f"writes is {show(writes)}; give {', '.join(NAMED_MAPS[:-1])} or {NAMED_MAPS[-1]}, an array of "
            "written tokens, or a mapping of tokens to tokens"
        )
    return writes


def read_map(path: str) -> dict[str, str | int]:
    """A JSON file of token to token (texts, or ids if there is no vocabulary)."""
    try:
        record: Any = json.loads(Path(path).read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnreadableSource(
            f"writes is {show(path)}, which is none of {', '.join(NAMED_MAPS)}, and no file of that name can "
            f"be read ({reason}); give one of these names or a JSON file of token to token"
        ) from error
    except ValueError as error:
        raise UnreadableSource(f"{path} is not JSON ({error}); write an object of token to token") from error
    pairs: dict[str, Any] = cast("dict[str, Any]", record) if isinstance(record, dict) else {"": None}
    if not all(isinstance(token, str | int) and not isinstance(token, bool) for token in pairs.values()):
        raise UnreadableSource(f"{path} is not a map of tokens; write an object of token to token")
    return pairs


def find_writing(writes: Writes, samples: Samples, vocabulary: Vocabulary | None = None) -> Writing:
    """The tokens that each token of a corpus writes, from a user's ``writes``.

    Parameters
    ----------
    writes : str, integers of shape (n_tokens,) or (n_ways, n_tokens), or mapping
        ``"identity"``, ``"successor"``, ``"identity+successor"``, token ids, or a mapping of tokens (texts or
        ids) to tokens: a missing token writes itself, and texts that do not occur in the corpus are never
        read, so they are left out.
    samples : Samples
        The corpus in which successors are counted.
    vocabulary : Vocabulary, optional
        Numbers texts.
    """
    tokens = np.arange(samples.n_tokens, dtype=np.int32)
    if isinstance(writes, str):
        check_named(writes)
        ways = {IDENTITY_MAP: lambda: tokens, SUCCESSOR_MAP: lambda: count_successors(samples)}
        return Writing(np.array([ways[name]() for name in writes.split("+")]), writes)
    if isinstance(writes, Mapping):
        return Writing(check_writes(_number_writes(writes, vocabulary), samples.n_tokens)[None])
    table: Any = np.asarray(writes)
    rows = table if table.ndim == 2 and len(table) else table[None] if table.ndim == 1 else [table]
    return Writing(np.array([check_writes(row, samples.n_tokens) for row in rows]))


def _number_writes(writes: Mapping[Any, Any], vocabulary: Vocabulary | None) -> dict[int, int]:
    if not any(isinstance(token, str) for pair in writes.items() for token in pair):
        return dict(writes)
    if vocabulary is None:
        if all(str(token).isdecimal() for pair in writes.items() for token in pair):
            return {int(read): int(written) for read, written in writes.items()}
        raise UnknownToken("writes names tokens as text but the source has no vocabulary; give token ids")
    ids = vocabulary.ids
    pairs = {str(read): str(written) for read, written in writes.items() if str(read) in ids}
    missing = [(read, written) for read, written in pairs.items() if written not in ids]
    if missing:
        raise UnknownToken(
            f"{show(missing[0][0])} writes {show(missing[0][1])}, which does not occur in the corpus "
            f"({len(missing)} such pairs); leave them out of the map"
        )
    return {ids[read]: ids[written] for read, written in pairs.items()}
