"""The result of ``learn_decoder``: the decoder in the limit, and at any step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import FolderKind, Run, load_run, write_run
from attomaton.base.borders import MOST_COUNTED, check_int64, check_size
from attomaton.base.errors import UnsupportedOption
from attomaton.base.frames import Tabular, Worded
from attomaton.base.options import real_number, whole_number
from attomaton.base.printing import Block, Grid
from attomaton.base.tables import Float64
from attomaton.corpora.tokenizers import Vocabulary, read_vocabulary, vocabulary_records
from attomaton.theories.decoder import course
from attomaton.theories.decoder.closed_form import asymptote, direct_column, squared_norm
from attomaton.theories.decoder.supports import CorpusSizes, Supports
from attomaton.theories.decoder.telling import DecoderExplanation, explain_support, find_context

DECODER = FolderKind("decoder", "a decoder", "DecoderLimit.save")
SUPPORT_ARRAYS = ("offsets", "tokens", "counts")
READ_SIZES = ("n_documents", "n_tokens", "n_labels")

# Maximum number of entries of W as a dense table: 512 MB.
LARGEST_WEIGHTS = 1 << 26

# Number of contexts to print.
FREQUENT = 8


def unpack_decoder(run: Run) -> tuple[Supports, CorpusSizes, Vocabulary | None]:
    offsets = check_int64(run.arrays["offsets"], "offsets")
    flat = check_int64(run.arrays["contexts"], "contexts")
    width = check_size(run.manifest["width"], 64, "width")
    size = run.manifest["vocabulary_size"]
    contexts = flat.reshape(len(offsets) - 1, width)
    supports = Supports(contexts.astype(np.int32), offsets, run.arrays["tokens"], run.arrays["counts"], size)
    if (contexts != supports.contexts).any():  # ids beyond int32
        raise ValueError("contexts are not token ids")
    read = CorpusSizes(*(check_size(run.manifest[name], MOST_COUNTED, name) for name in READ_SIZES))
    return supports, read, read_vocabulary(run.records, size)


@dataclass(frozen=True, eq=False, repr=False)
class DecoderLimit(Tabular):
    """The limit of a softmax decoder with one-hot contexts under gradient descent from W = 0.

    The decoder is softmax(W h) with one column of W per context. The loss falls to the entropy of the next
    token given its context. W grows along the direction W^mm that raises the support of each context (its
    next tokens) above all other tokens. Within a support, logits differ by the log-odds of its tokens.

    Attributes
    ----------
    supports : Supports
        The next tokens of each context.
    read : CorpusSizes
        The sizes of the corpus.
    vocabulary : Vocabulary, optional
        The names of the tokens.

    Examples
    --------
    >>> import attomaton as at
    >>> at.learn_decoder(["a b a c a b a b"]).logits_at("a", 1000).round(3).tolist()
    [-3.943, 2.521, 1.421]
    """

    supports: Supports
    read: CorpusSizes
    vocabulary: Vocabulary | None = None

    def __repr__(self) -> str:
        width = self.width
        named = f"{len(self.supports):,} contexts of {width} token{'s' * (width != 1)}"
        return f"{type(self).__name__}({named}, vocabulary of {self.supports.n_tokens:,})"

    @property
    def width(self) -> int:
        """The number of tokens of a context."""
        return int(self.supports.contexts.shape[1])

    @property
    def entropy(self) -> float:
        """The limit of the loss in nats per position, the lowest loss of any decoder over these contexts."""
        return self.supports.entropy

    @property
    def n_labels(self) -> int:
        """The number of tokens that have another token before them in their document."""
        return self.read.n_labels if self.width else self.read.n_tokens

    @property
    def coverage(self) -> float:
        """The share of labels with a full context; the first labels of a document may lack a full context."""
        return self.supports.n_positions / self.n_labels

    @property
    def squared_norm(self) -> float:
        """‖W^mm‖², which is also the limit of η · t · (CE − H)."""
        return squared_norm(self.supports)

    def predict_proba(self, context: Any, *, step: int | None = None, step_size: float = 1.0) -> Float64:
        """Return the probabilities of all next tokens after a context, shape (n_tokens,).

        The probabilities are those of the limit (by default), which equal those of the corpus, or those after
        ``step`` steps. After a context that never occurs, all tokens have equal probabilities.
        """
        if step is not None:
            logits = self.logits_at(context, step, step_size)
            raised = np.exp(logits - logits.max())
            return raised / raised.sum()
        _check_step(0, step_size)  # a wrong step size is an error even if it is not used
        number = self._index_of(context)
        size = self.supports.n_tokens
        if number is None:
            return np.full(size, 1.0 / size)
        pairs = self.supports.pairs_of(number)
        probabilities = np.zeros(size)
        probabilities[self.supports.tokens[pairs]] = self.supports.probabilities[pairs]
        return probabilities

    def direction(self, context: Any) -> Float64:
        """Return the column of W^mm of a context, which grows like ln t, shape (n_tokens,)."""
        return self._column(context, direct_column)

    def logits_at(self, context: Any, step: int, step_size: float = 1.0) -> Float64:
        """Return the logits of a context after ``step`` steps of size ``step_size``, shape (n_tokens,)."""
        return self._column(context, course.logits_of, *_check_step(step, step_size))

    def asymptote_at(self, context: Any, step: int, step_size: float = 1.0) -> Float64:
        """Return the logits of a context by the closed form for many steps (:func:`asymptote`)."""
        return self._column(context, asymptote, *_check_step(step, step_size, least=1))

    def at(self, step: int, step_size: float = 1.0) -> course.StoppedDecoder:
        """Return the decoder with all contexts after ``step`` steps of size ``step_size``."""
        step, step_size = _check_step(step, step_size)
        return next(course.follow_decoder(self.supports, [step], step_size))

    def weights_at(self, step: int, step_size: float = 1.0) -> Float64:
        """Return W after ``step`` steps, with one column per context, shape (n_tokens, n_contexts)."""
        size = self.supports.n_tokens * len(self.supports)
        if size > LARGEST_WEIGHTS:
            raise UnsupportedOption(
                f"W has {size:,} entries, too many for a table; use .logits_at(context, step) or .at(step)"
            )
        return self.at(step, step_size).weights

    def loss_at(self, step: int, step_size: float = 1.0) -> float:
        """Return the mean cross-entropy after ``step`` steps of size ``step_size``, in nats per position."""
        return float(self.losses_at(whole_number(step, "step", least=0), step_size))

    def losses_at(self, steps: int | Sequence[int], step_size: float = 1.0) -> Float64:
        """Return the mean cross-entropy after each of these ascending steps, shape (n_steps,)."""
        return self.entropy + self.excesses_at(steps, step_size)

    def excesses_at(self, steps: int | Sequence[int], step_size: float = 1.0) -> Float64:
        """Return loss minus entropy after each of these ascending steps, to a relative error of 10⁻⁴."""
        array = np.asarray(steps, object)
        rising = [whole_number(step, "step", least=0) for step in array.ravel().tolist()]
        if rising != sorted(rising):
            raise UnsupportedOption("the steps are not ascending; sort them")
        step_size = real_number(step_size, "step_size", above=0)
        excesses = [moment.excess for moment in course.follow_levels(self._levels, rising, step_size)]
        return np.array(excesses).reshape(array.shape)

    def explain(self, context: Any) -> DecoderExplanation:
        """Explain the limit probabilities of the next tokens after a context."""
        name, number = find_context(context, self.supports, self.vocabulary)
        return explain_support(name, number, self.supports, self.vocabulary)

    def to_dict(self) -> dict[str, Any]:
        """Return the sizes, the limit of the loss and the most frequent contexts as JSON values."""
        return {
            "context_tokens": self.width,
            "contexts": len(self.supports),
            "tokens": self.supports.n_tokens,
            "positions": self.supports.n_positions,
            "labels": self.n_labels,
            "coverage": self.coverage,
            "entropy": self.entropy,
            "squared_norm": self.squared_norm,
            "frequent": [explanation.to_dict(shown=3) for explanation in self._frequent()],
        }

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write supports and vocabulary to a folder, atomically; ``overwrite`` replaces an existing one."""
        supports = self.supports
        contexts = supports.contexts.astype(np.int64).ravel()
        arrays = {**{name: getattr(supports, name) for name in SUPPORT_ARRAYS}, "contexts": contexts}
        sizes = {"vocabulary_size": supports.n_tokens, "width": self.width}
        manifest = {**sizes, **{name: getattr(self.read, name) for name in READ_SIZES}}
        run = Run({}, arrays, vocabulary_records(self.vocabulary), manifest)
        return write_run(path, run, DECODER, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "DecoderLimit":
        """Read a folder that :meth:`save` wrote; an altered file raises an error."""
        return cls(*load_run(path, DECODER, unpack_decoder))

    @cached_property
    def _levels(self) -> course.Levels:
        return course.find_levels(self.supports)

    def _column(self, context: Any, find_column: Callable[..., Float64], *arguments: Any) -> Float64:
        # find_column(supports, index of the context, *arguments); 0 for a context that never occurs
        number = self._index_of(context)
        size = self.supports.n_tokens
        return np.zeros(size) if number is None else find_column(self.supports, number, *arguments)

    def _index_of(self, context: Any) -> int | None:
        return find_context(context, self.supports, self.vocabulary)[1]

    def _frequent(self) -> list[DecoderExplanation]:
        order = np.argsort(-self.supports.totals, kind="stable")[:FREQUENT]
        return [self.explain(self.supports.contexts[number].tolist()) for number in order.tolist()]

    def _table(self) -> pa.Table:
        return self.supports.table()

    def to_pandas(self, vocabulary: Worded | None = None) -> Any:
        """Return the table as a pandas DataFrame; contexts are tuples of tokens."""
        frame = super().to_pandas(vocabulary)
        frame["context"] = [tuple(context) for context in frame["context"]]
        return frame

    def _words(self) -> Vocabulary | None:
        return self.vocabulary

    def _blocks(self) -> list[Block]:
        supports = self.supports
        inside = (supports.sizes * supports.totals).sum() / supports.n_positions  # size of the support
        facts = [
            ("contexts", f"{len(supports):,}, with {len(supports.tokens):,} different next tokens in all"),
            ("support", f"{inside:,.1f} of {supports.n_tokens:,} tokens, averaged over positions"),
            ("coverage", f"{supports.n_positions:,} of {self.n_labels:,} labels"),
            ("entropy", f"{self.entropy:.6g} nats per position, the limit of the loss"),
            ("excess", f"{self.squared_norm:.6g} / (η t) after many steps t of size η"),
        ]
        rows = [
            (why.context, f"{why.positions:,}", f"{why.support:,}", " ".join(why.tokens[:3]))
            for why in self._frequent()
        ]
        headers = ["context", "positions", "support", "followed by"]
        return [repr(self), Grid("Limit", ["", ""], facts), Grid("The most frequent contexts", headers, rows)]


def _check_step(step: object, step_size: object, least: int = 0) -> tuple[int, float]:
    return whole_number(step, "step", least=least), real_number(step_size, "step_size", above=0)
