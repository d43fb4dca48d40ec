"""The result of ``begin``: first looks, lags and weights, with the theorem's guarantees."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from attomaton.base import borders
from attomaton.base.artifacts import FolderKind, Run, load_run, write_run
from attomaton.base.borders import MOST_COUNTED, check_size
from attomaton.base.errors import UnknownToken
from attomaton.base.frames import Tabular
from attomaton.base.options import whole_number
from attomaton.base.printing import PRINTED_ROWS, Block, Grid, Printed, blocks_of
from attomaton.base.tables import Float64, Int64, make_table
from attomaton.corpora.samples import MAX_TOKENS, NOTHING_SKIPPED, Skipped
from attomaton.corpora.tokenizers import Vocabulary, read_vocabulary, vocabulary_records
from attomaton.corpora.tokenizers.vocabulary import name_token
from attomaton.theories.beginning.statistics import Statistics
from attomaton.theories.beginning.theorem import WEIGHT_SIGNS, Coefficients, Setting, TheoremBounds

BEGINNING = FolderKind("beginning", "a beginning", "attomaton begin --out")
STATISTICS_TABLES = ("counts", "smoothed", "looks")
CORPUS_SIZES = ("n_sequences", "n_documents", "n_read", "n_labels")
_sparse: Any = sparse


def unpack_beginning(run: Run) -> tuple[Statistics, Vocabulary | None, Skipped]:
    size = check_size(run.manifest["n_tokens"], MAX_TOKENS, "n_tokens")
    tables = {name: _sparse_table(run, name, size) for name in STATISTICS_TABLES}
    lags = borders.check_floats(run.arrays["lags"], (None,), "lags")
    sizes = {name: check_size(run.manifest[name], MOST_COUNTED, name) for name in CORPUS_SIZES}
    vocabulary = read_vocabulary(run.records, size)
    return Statistics(**tables, lags=lags, **sizes), vocabulary, Skipped(**run.manifest["skipped"])


def _sparse_table(run: Run, name: str, size: int) -> Any:
    # a stored CSR array of shape (size, size), checked
    offsets = borders.check_int64(run.arrays[f"{name}/offsets"], f"offsets of {name}")
    columns = borders.check_int64(run.arrays[f"{name}/columns"], f"columns of {name}")
    stored = run.arrays[f"{name}/values"]
    borders.check_offsets(offsets, len(columns), f"offsets of {name}")
    borders.check_ids(columns, size, f"a column of {name}")
    if len(offsets) != size + 1 or len(stored) != len(columns):
        raise ValueError(f"the sizes in {name} are inconsistent")
    if name == "counts":
        values: Any = borders.check_int64(stored, name)
        borders.check_count_range(values, 1, name)
    else:
        values = borders.check_floats(stored, (None,), name)
    return _sparse.csr_array((values, columns, offsets), shape=(size, size))


@dataclass(frozen=True, eq=False, repr=False)
class EarlyWeights(Printed):
    """The forecast weights of every layer after ``step`` steps, from the ``statistics`` and ``setting``."""

    statistics: Statistics
    setting: Setting
    step: int

    def __repr__(self) -> str:
        return f"EarlyWeights(step {self.step:,} of size {self.setting.step_size:g})"

    @cached_property
    def coefficients(self) -> Coefficients:
        return Coefficients.at(self.step, self.setting.step_size)

    @cached_property
    def attention(self) -> Float64:
        """W ≈ (3C(s,4) + 2C(s,3)) η⁴ Q̄, query × key."""
        return self.coefficients.attention * self.statistics.look_table

    @cached_property
    def positions(self) -> Float64:
        """P ≈ (3C(s,4) + 2C(s,3)) η⁴ Δ, by lag from 0, shape (window,)."""
        return self.coefficients.attention * self.statistics.lags

    @cached_property
    def values(self) -> Float64:
        """V ≈ C(s,2) η² Φ̄ᵀB̄ᵀ, token read × token written."""
        return self.coefficients.values * self.statistics.carried

    @cached_property
    def output(self) -> Float64:
        """W_O ≈ s η B̄, token × next token."""
        return self.coefficients.output * self.statistics.bigrams

    @cached_property
    def bounds(self) -> TheoremBounds:
        return self.setting.bounds_at(self.step)

    @property
    def valid_until(self) -> int:
        return self.setting.valid_until

    def to_dict(self) -> dict[str, Float64]:
        """W, P, V and W_O by name."""
        return {name: getattr(self, name) for name in WEIGHT_SIGNS}

    def _blocks(self) -> list[Block]:
        sizes = {name: float(np.linalg.norm(matrix)) for name, matrix in self.to_dict().items()}
        rows = [
            (sign, f"{sizes[name]:.3g}", f"{getattr(self.bounds, name):.3g}")
            for name, sign in WEIGHT_SIGNS.items()
        ]
        return [
            f"Every layer after step {self.step:,} of size {self.setting.step_size:g}.",
            blocks_of(self.bounds)[0],
            Grid("", ["weights", "Frobenius norm", "error at most"], rows),
        ]


LOOKS = pa.schema([("token", pa.int32()), ("gain", pa.float64())])
ALL_LOOKS = pa.schema([("query", pa.int32()), ("token", pa.int32()), ("gain", pa.float64())])
LAGS = pa.schema([("lag", pa.int32()), ("gain", pa.float64())])
# Number of lags to print; `.lags` has all.
PRINTED_LAGS = 32


@dataclass(frozen=True, eq=False, repr=False)
class FirstLooks(Tabular):
    """The tokens that a ``query`` attends to first: a row of Q̄, most attractive token first.

    ``tokens`` are the tokens that occur in a context of this query, shape (n,). ``gains`` has Q̄ of each of
    these tokens, descending: attention turns to a token if it is positive, and away if it is negative.
    ``vocabulary`` has the names of the tokens.
    """

    query: int
    tokens: Int64
    gains: Float64
    vocabulary: Vocabulary | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        named = repr(name_token(self.vocabulary, self.query)) if self.vocabulary else str(self.query)
        return f"FirstLooks(query {named}: {len(self):,} tokens)"

    def most(self, count: int) -> list[str]:
        """The names of the ``count`` most attractive tokens."""
        count = whole_number(count, "count", least=0)
        return [name_token(self.vocabulary, token) for token in self.tokens[:count].tolist()]

    def to_dict(self, shown: int) -> dict[str, Any]:
        """The query, and the tokens that attention turns to and away from, as JSON values."""
        shown = whole_number(shown, "shown", least=1)
        n_up = int((self.gains > 0).sum())
        n_down = int((self.gains < 0).sum())
        return {  # gains descend, so attention turns from the last tokens
            "query": name_token(self.vocabulary, self.query),
            "turns_to": self._list_gains(np.arange(min(n_up, shown))),
            "turns_from": self._list_gains(len(self) - 1 - np.arange(min(n_down, shown))),
        }

    def _list_gains(self, indices: Int64) -> list[dict[str, Any]]:
        named = [name_token(self.vocabulary, token) for token in self.tokens[indices].tolist()]
        gains: list[float] = self.gains[indices].tolist()
        return [{"token": token, "gain": gain} for token, gain in zip(named, gains, strict=True)]

    def _table(self) -> pa.Table:
        return make_table(LOOKS, {"token": self.tokens.astype(np.int32), "gain": self.gains})

    def _words(self) -> Vocabulary | None:
        return self.vocabulary


@dataclass(frozen=True, eq=False, repr=False)
class Lags(Tabular):
    """The distances at which attention looks back first: ``gains`` is Δ by lag, from 0 (the query itself)."""

    gains: Float64

    def __len__(self) -> int:
        return len(self.gains)

    def __repr__(self) -> str:
        return f"Lags({len(self):,} lags)"

    def _table(self) -> pa.Table:
        return make_table(LAGS, {"lag": np.arange(len(self), dtype=np.int32), "gain": self.gains})


@dataclass(frozen=True, eq=False, repr=False)
class Beginning(Tabular):
    """What every layer of a deep, residual, attention-only model learns first from a corpus.

    The model has one-hot tokens, L layers ``h ← h + softmax(h W hᵀ + D(P)) h V`` with a causal mask and
    relative positions, and logits ``h W_O``. It is trained by full-batch gradient descent on the mean
    cross-entropy.

    Attributes
    ----------
    statistics : Statistics
        The tables B̄, Φ̄, Q̄ and Δ of the corpus, which determine the first steps.
    vocabulary : Vocabulary, optional
        The names of the tokens.
    skipped : Skipped
        Documents that could not be read.

    Examples
    --------
    >>> import attomaton as at
    >>> at.begin(["a b a c a b a c a"], window=4).first_looks("c").most(1)
    ['b']
    """

    statistics: Statistics
    vocabulary: Vocabulary | None = None
    skipped: Skipped = NOTHING_SKIPPED

    def __repr__(self) -> str:
        return repr(self.statistics).replace("Statistics", "Beginning", 1)

    def first_looks(self, query: int | str) -> FirstLooks:
        """Return the tokens that a query attends to first, most attractive token first."""
        number = self._id_of(query)
        table = self.statistics.looks
        row = slice(table.indptr[number], table.indptr[number + 1])
        tokens = table.indices[row].astype(np.int64)
        gains = table.data[row]
        order = np.argsort(-gains, kind="stable")
        return FirstLooks(number, tokens[order], gains[order], self.vocabulary)

    @cached_property
    def lags(self) -> Lags:
        return Lags(self.statistics.lags)

    def weights_at(
        self, step: int, step_size: float, *, n_layers: int = 1, start: str = "zero"
    ) -> EarlyWeights:
        """Return the forecast weights of every layer after ``step`` steps of size ``step_size``.

        All layers of a model of any depth have the same forecast. ``n_layers`` and ``start`` (``"zero"``, or
        ``"small"`` for small Gaussian weights) affect only the error bounds.
        """
        setting = Setting(self.statistics.window, self.statistics.n_tokens, step_size, n_layers, start)
        return EarlyWeights(self.statistics, setting, whole_number(step, "step", least=0))

    def bounds_at(
        self, step: int, step_size: float, *, n_layers: int = 1, start: str = "zero"
    ) -> TheoremBounds:
        """Return bounds on the error of the forecast, and the conditions of the theorem that are not met."""
        return self.weights_at(step, step_size, n_layers=n_layers, start=start).bounds

    def valid_until(self, step_size: float, *, n_layers: int = 1, start: str = "zero") -> int:
        """Return the last step that the theorem covers, or 0 if it covers no step."""
        return self.weights_at(0, step_size, n_layers=n_layers, start=start).valid_until

    @cached_property
    def queries(self) -> Int64:
        """The queries by descending frequency, shape (n_queries,)."""
        counts = np.asarray(self.statistics.counts.sum(axis=1)).ravel()
        return np.argsort(-counts, kind="stable")[: int(np.count_nonzero(counts))]

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write statistics and vocabulary to a folder, atomically; ``overwrite`` replaces an existing one."""
        statistics = self.statistics
        arrays: dict[str, Any] = {"lags": statistics.lags}
        for name in STATISTICS_TABLES:
            table = getattr(statistics, name)
            arrays[f"{name}/offsets"] = table.indptr.astype(np.int64)
            arrays[f"{name}/columns"] = table.indices.astype(np.int64)
            arrays[f"{name}/values"] = table.data
        sizes = {name: getattr(statistics, name) for name in CORPUS_SIZES}
        manifest = {"n_tokens": statistics.n_tokens, **sizes, "skipped": asdict(self.skipped)}
        run = Run({}, arrays, vocabulary_records(self.vocabulary), manifest)
        return write_run(path, run, BEGINNING, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Beginning":
        """Read a folder that :meth:`save` wrote; an altered file raises an error."""
        return cls(*load_run(path, BEGINNING, unpack_beginning))

    def to_dict(self, queries: Sequence[int | str] | None = None, *, shown: int = 5) -> dict[str, Any]:
        """Return sizes, lags and the first looks of queries (by default the most frequent) as JSON values."""
        chosen = self.queries[:PRINTED_ROWS].tolist() if queries is None else queries
        statistics = self.statistics
        return {
            "documents": statistics.n_documents,
            "sequences": statistics.n_sequences,
            "window": statistics.window,
            "tokens": statistics.n_tokens,
            "labels": statistics.n_labels,
            "left_out": statistics.left_out,
            "looks": [self.first_looks(query).to_dict(shown) for query in chosen],
            "lags": statistics.lags.tolist(),
        }

    def _id_of(self, query: Any) -> int:
        # the id of a token or id that occurs as a query
        if isinstance(query, str):
            if self.vocabulary is None:
                raise UnknownToken(f"the corpus has no vocabulary, only ids; give the id of {query!r}")
            number = int(self.vocabulary.lookup([query])[0])
        else:
            number = whole_number(query, "query", least=0)
        inside = number < self.statistics.n_tokens
        if not inside or self.statistics.counts.indptr[number] == self.statistics.counts.indptr[number + 1]:
            raise UnknownToken(
                f"{query!r} occurs in no sequence, so it attends to nothing; use one of .queries"
            )
        return number

    def _table(self) -> pa.Table:
        looks = self.statistics.looks.tocoo()
        columns = {
            "query": looks.row.astype(np.int32),
            "token": looks.col.astype(np.int32),
            "gain": looks.data,
        }
        return make_table(ALL_LOOKS, columns)

    def _words(self) -> Vocabulary | None:
        return self.vocabulary

    def _blocks(self) -> list[Block]:
        return tell_beginning(self)


def tell_beginning(beginning: Beginning, queries: Sequence[int | str] | None = None) -> list[Block]:
    """What is printed of a beginning: sizes, first looks of the queries, and lags."""
    statistics = beginning.statistics
    record = beginning.to_dict(queries, shown=3)
    facts = [
        ("sequences", f"{statistics.n_sequences:,} of {statistics.window:,} tokens"),
        ("vocabulary", f"{statistics.n_tokens:,} tokens"),
        ("left out", f"{statistics.left_out:,} of {statistics.n_labels:,} labels, at the ends of documents"),
    ]
    looks = [
        (query["query"], _join_tokens(query["turns_to"]), _join_tokens(query["turns_from"]))
        for query in record["looks"]
    ]
    lags = [(lag, f"{gain:.3g}") for lag, gain in enumerate(record["lags"][:PRINTED_LAGS])]
    return [
        repr(beginning),
        Grid("Corpus", ["", ""], facts),
        Grid("First looks of each query", ["query", "turns to", "turns from"], looks),
        Grid("How far back attention looks first", LAGS.names, lags),
    ]


def _join_tokens(rows: list[dict[str, Any]]) -> str:
    return " ".join(row["token"] for row in rows)
