"""The automaton as a scikit-learn classifier: contexts in, the next token out."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.prediction import BatchPrediction
from attomaton.base.borders import trusted
from attomaton.base.errors import EmptyContext, InvalidSamples, TokenOutOfRange, needing
from attomaton.base.options import LARGEST_WHOLE, whole_number
from attomaton.base.ragged import offsets_of
from attomaton.base.solutions import Status
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.corpora.samples import MAX_TOKENS, Samples
from attomaton.graphs.bags import count_all_tokens
from attomaton.solvers.solved import solve_samples

with needing("AttentionLimit"):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import multiclass, validation

_as_multiclass: Any = multiclass  # scikit-learn's functions are not typed
_sklearn_validation: Any = validation


class AttentionLimit(ClassifierMixin, BaseEstimator):
    """Predict the next token as a self-attention layer would in the limit of training on the same samples.

    Parameters
    ----------
    padding : int or None
        The value in ``X`` that marks the absence of a token, anywhere in a row. None means that every value
        is a token. Masked entries of a numpy masked array are never tokens.
    min_support : int
        Ignore edges with fewer samples. A sample adds an edge from its label to every other token of its
        context.
    embeddings : float array, shape (n_tokens, dim), optional
        The embedding of each token id. None means orthonormal embeddings.
    atol : float
        The soft side is certified if no gradient entry of its summed loss exceeds ``atol``. If the hard or
        the soft side is not certified, ``fit`` warns with scikit-learn's ``ConvergenceWarning``.

    Attributes
    ----------
    classes_ : array, shape (n_classes,)
        The distinct labels, sorted.
    class_frequencies_ : float64 array, shape (n_classes,)
        The share of the samples with each label.
    automaton_ : Automaton
        The automaton that was learned from the token ids in ``X``.
    n_unrealisable_ : int
        The number of samples that were left out because their label is not in their context.

    Notes
    -----
    Each row of ``X`` is a context of non-negative integers, the last of which is the query. Padding may be
    anywhere in a row, usually on the left. The label is the token that came next. If no label is in its
    context, ``fit`` learns nothing, and warns.

    ``predict_proba`` distributes probability over ``classes_`` only, so a token that was never a label has no
    column. The probabilities are those of the automaton, given that it retrieves a class. Three cases are
    outside the theory. If some class of the context has evidence under the query, classes without evidence
    get 0. If no class has evidence, each position with a class has equal weight. If the context contains no
    class, the result is ``class_frequencies_``.

    Examples
    --------
    >>> X = [[0, 1, 2], [1, 0, 2], [-1, 1, 2]]  # the last context is shorter
    >>> AttentionLimit().fit(X, [0, 1, 1]).predict_proba([[1, 0, 2], [2, 1, 2]]).round(6).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """

    def __init__(
        self, *, padding: int | None = -1, min_support: int = 1, embeddings: Any = None, atol: float = 1e-8
    ) -> None:
        self.padding = padding
        self.min_support = min_support
        self.embeddings = embeddings
        self.atol = atol

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803  scikit-learn's name
        """Learn from contexts ``X``, shape (n_samples, window), and from labels ``y``, shape (n_samples,)."""
        filled, masked = _fill_masked(X)
        values, labels = _sklearn_validation.validate_data(self, filled, y)
        tokens, padded = self._read_tokens(values, masked)
        _as_multiclass.check_classification_targets(labels)
        self.classes_, class_of_sample, counts = np.unique(labels, return_inverse=True, return_counts=True)
        n_samples = len(class_of_sample)
        self.class_frequencies_ = counts / n_samples
        samples = self._make_samples(tokens, padded, class_of_sample)
        solved = solve_samples(
            samples, embeddings=self.embeddings, min_support=self.min_support, atol=self.atol
        )
        for solution in (solved.hard, solved.soft):
            if solution.status is not Status.CERTIFIED:
                warnings.warn(f"{solution.status.value}: {solution!r}", ConvergenceWarning, stacklevel=2)
        self.automaton_ = Automaton(solved.components, solved.hard, solved.soft)
        n_realisable = self.automaton_.components.edges.n_samples
        self.n_unrealisable_ = n_samples - n_realisable
        if not n_realisable:
            warnings.warn(
                f"none of the {n_samples} samples has its label in its context, so attention has nothing to "
                "learn, and predictions are class frequencies; give as y the token that follows each context",
                stacklevel=2,
            )
        return self

    # The samples whose label is a token, from contexts (n_samples, window). By token, this also sets
    # `_is_class` (whether a token is a class) and `_column` (the index of the class in `classes_`).
    def _make_samples(self, tokens: Int64, padded: Bool, class_of_sample: Int64) -> Samples:
        is_token = np.zeros(len(self.classes_), bool)  # classes that are tokens: the whole numbers from 0 up
        if self.classes_.dtype.kind in "iuf":
            is_token = self.classes_ >= 0
        token_of_class = np.zeros(len(self.classes_), np.int64)
        token_of_class[is_token] = self.classes_[is_token].astype(np.int64)
        n_tokens = self._count_tokens(max(int(tokens[~padded].max()), int(token_of_class.max())))
        self._is_class = np.zeros(n_tokens + 1, bool)  # by token; the last stands for all unknown tokens
        self._is_class[token_of_class[is_token]] = True
        self._column = np.zeros(n_tokens + 1, np.int64)
        self._column[token_of_class[is_token]] = np.flatnonzero(is_token)
        usable = is_token[class_of_sample]  # a label that is no token is in no context
        in_context = ~padded[usable]
        offsets = offsets_of(np.count_nonzero(in_context, axis=1))
        labels = token_of_class[class_of_sample[usable]]
        return Samples.from_arrays(tokens[usable][in_context], offsets, labels, n_tokens=n_tokens)

    def predict_proba(self, X: Any) -> Float64:  # noqa: N803
        """The probability of each class to be the next token, shape (n_samples, n_classes)."""
        prediction = self._predict(X)
        bags = prediction.bags
        # contexts without entries keep the class frequencies
        probabilities = np.tile(self.class_frequencies_, (prediction.n_samples, 1))
        probabilities[bags.sample] = 0.0
        probabilities[bags.sample, self._column[bags.token]] = prediction.probabilities
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable next token of each context, shape (n_samples,); in a tie, the first class."""
        prediction = self._predict(X)
        best = np.full(prediction.n_samples, self.class_frequencies_.argmax())
        sample, token = prediction.most_likely()
        best[sample] = self._column[token]
        return self.classes_[best]

    def __sklearn_tags__(self) -> Any:
        parent: Any = super()
        tags = parent.__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True  # on data whose labels are not tokens of the context
        return tags

    def _predict(self, X: Any) -> BatchPrediction:  # noqa: N803
        # the prediction with entries only for tokens that are classes
        _sklearn_validation.check_is_fitted(self)
        filled, masked = _fill_masked(X)
        values = _sklearn_validation.validate_data(self, filled, reset=False)
        tokens, padded = self._read_tokens(values, masked)
        unknown = self.automaton_.n_tokens  # the id of all unknown tokens, which is no node of any graph
        offsets = offsets_of(np.count_nonzero(~padded, axis=1))
        contexts = trusted(
            Samples,
            values=np.minimum(tokens[~padded], unknown).astype(np.int32),
            starts=offsets[:-1],
            stops=offsets[1:],
            labels=np.full(len(tokens), unknown, np.int32),
            n_tokens=unknown + 1,
        )
        bags = count_all_tokens(contexts)
        return self.automaton_.predict_bags(bags.keep(self._is_class[bags.token]))

    def _read_tokens(self, values: NDArray[Any], masked: Bool | bool) -> tuple[Int64, Bool]:
        # the token ids, 0 where there is padding, and where there is padding: both (n_samples, window)
        padded = np.zeros(values.shape, bool) | masked
        if self.padding is not None:
            whole_number(self.padding, "padding", least=-LARGEST_WHOLE)
            padded |= values == self.padding
        _check_token_ids(values, padded)
        # beyond 2⁵³ floats are no exact integers, and no id is so large
        ids = np.minimum(np.where(padded, 0, values).astype(np.float64), 2.0**53)
        return ids.astype(np.int64), padded

    def _count_tokens(self, largest: int) -> int:
        # the size of the vocabulary, from the largest id or from the embeddings
        n_tokens = largest + 1
        if self.embeddings is not None:
            n_tokens = len(np.atleast_1d(self.embeddings))
            if n_tokens <= largest:
                raise TokenOutOfRange(
                    f"the largest token id is {largest}, but embeddings have only {n_tokens} rows; give one "
                    "row for each id from 0 to the largest"
                )
        if n_tokens >= MAX_TOKENS:
            raise InvalidSamples(
                f"the largest token id is {n_tokens - 1}, but ids must be below {MAX_TOKENS - 1:,}; number "
                "the tokens that occur 0, 1, 2 …"
            )
        return n_tokens


def _fill_masked(X: Any) -> tuple[Any, Bool | bool]:  # noqa: N803
    # the values with 0 in masked entries, and which entries are masked
    masked_array: Any = np.ma.MaskedArray
    if isinstance(X, masked_array):
        return X.filled(0), np.ma.getmaskarray(X)
    return X, False


def _check_token_ids(values: NDArray[Any], padded: Bool) -> None:
    negative = (values < 0) & ~padded
    if negative.any():
        row, column = np.argwhere(negative)[0]
        token = values[row, column]
        raise TokenOutOfRange(
            f"Negative values in data: {token} in row {row}, column {column} of X, but token ids start at 0; "
            f"if this value marks padding, use AttentionLimit(padding={token})"
        )
    fractional = values != np.floor(values)
    if fractional.any():
        row, column = np.argwhere(fractional)[0]
        raise InvalidSamples(
            f"{values[row, column]} in row {row}, column {column} of X is not a token id; "
            "number the tokens 0, 1, 2 …"
        )
    empty = np.flatnonzero(padded.all(axis=1))
    if len(empty):
        raise EmptyContext(
            f"row {empty[0]} of X has only padding ({len(empty)} such rows), but a context needs at least "
            "one token, the query; drop the row"
        )
