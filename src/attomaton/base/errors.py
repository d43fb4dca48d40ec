"""The errors attomaton raises on purpose.

Each says what is wrong, where, and what to do. Each is also a subclass of the matching builtin error, so that
code that does not know attomaton can still catch it.
"""

from collections.abc import Generator
from contextlib import contextmanager

EXTRA_PACKAGES = {
    "clarabel": ("Clarabel", "bench"),
    "duckdb": ("DuckDB", "duckdb"),
    "formulaic": ("the library formulaic", "formulas"),
    "fsspec": ("the library fsspec", "hf"),
    "gguf": ("the library gguf", "gguf"),
    "huggingface_hub": ("the library huggingface_hub", "hf"),
    "matplotlib": ("matplotlib", "report"),
    "pandas": ("pandas", "frames"),
    "polars": ("Polars", "frames"),
    "pyspark": ("pyspark 4.1 or later", "spark"),
    "sklearn": ("scikit-learn", "sklearn"),
    "tensorboard": ("tensorboard", "tensorboard"),
    "tiktoken": ("the library tiktoken", "hf"),
    "tokenizers": ("the library tokenizers", "hf"),
    "torch": ("PyTorch", "train"),
    "trackio": ("trackio", "trackio"),
    "wandb": ("wandb", "wandb"),
}
"""Modules that a plain install leaves out → their name in messages, and the extra that installs them."""


class AttomatonError(Exception):
    """Base of every error that attomaton raises on purpose.

    Examples
    --------
    >>> import attomaton as at
    >>> try:
    ...     at.learn("nowhere.txt")
    ... except at.AttomatonError as error:  # or OSError, which this one also is
    ...     print(type(error).__name__, isinstance(error, OSError))
    UnreadableSource True
    """


class InvalidSamples(AttomatonError, ValueError):
    """The arrays or lists given do not describe samples.

    Examples
    --------
    >>> import attomaton as at
    >>> at.Samples.from_lists([[0, 1], [1, 2]], [0])
    Traceback (most recent call last):
        ...
    attomaton.base.errors.InvalidSamples: 2 contexts but 1 labels; give one label for each context
    """


class EmptyContext(InvalidSamples):
    """A sample has no context, hence no query.

    Examples
    --------
    >>> import attomaton as at
    >>> at.Samples.from_lists([[0, 1], []], [0, 1])
    Traceback (most recent call last):
        ...
    attomaton.base.errors.EmptyContext: sample 1 has no context (1 such samples); drop it: the query is the
    last context token, so a context needs at least one
    """


class TokenOutOfRange(InvalidSamples):
    """A token id is negative or not below ``n_tokens``.

    Examples
    --------
    >>> import attomaton as at
    >>> at.Samples.from_lists([[0, 5], [1, 2]], [0, 1], n_tokens=4)
    Traceback (most recent call last):
        ...
    attomaton.base.errors.TokenOutOfRange: token 5 at position 1 of the context of sample 0 is not in 0 … 3
    (1 such ids); raise n_tokens, or correct the ids
    """


class UnknownToken(AttomatonError, LookupError):
    """A token is not in the vocabulary, or a query or token is not in the tables looked up.

    Examples
    --------
    >>> import attomaton as at
    >>> vocabulary, _ = at.Vocabulary.from_text("a rose is a rose")
    >>> vocabulary.encode("a tulip")
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UnknownToken: not among the 3 tokens of the vocabulary: 'tulip'; leave that out,
    check case and punctuation, or learn from a corpus that has it
    """


class UnreadableSource(AttomatonError, OSError):
    """A corpus cannot be read in the requested way.

    Examples
    --------
    >>> import attomaton as at
    >>> at.read_corpus("nowhere.txt")
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UnreadableSource: nowhere.txt cannot be read: No such file or directory; check the
    path
    """


class UnreadableModel(UnreadableSource):
    """A trained model cannot be read: a file is damaged, or its content is not supported.

    Examples
    --------
    >>> from attomaton.heads.reading.folders import read_folder
    >>> read_folder("nowhere")
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UnreadableModel: nowhere/config.json cannot be read: No such file or directory;
    restore the file, or give another model
    """


class InvalidEmbeddings(AttomatonError, ValueError):
    """The embeddings have the wrong shape, or a value that is not finite.

    Examples
    --------
    >>> import attomaton as at
    >>> at.learn([0, 1, 0, 2, 0, 1], embeddings=[[1.0, 0.0], [0.0, 1.0]])
    Traceback (most recent call last):
        ...
    attomaton.base.errors.InvalidEmbeddings: embeddings have shape (2, 2); give one row per token, shape (3,
    dim)
    """


class UncertifiedSolution(AttomatonError, ArithmeticError):
    """A solver stopped before its answer could be certified.

    Examples
    --------
    >>> import attomaton as at
    >>> from attomaton.solvers.norms.solve import solve_factored
    >>> samples = at.Samples.from_lists([[0, 1, 0], [0, 1, 1]], [0, 0])  # 0 beats 1 under both queries
    >>> components = at.find_components(at.extract_edges(samples))
    >>> solve_factored(components, embeddings=[[1.0], [-1.0]]).expect()  # no W can # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UncertifiedSolution: the solver stopped before its answer could be certified: ...
    """


class MismatchedParts(AttomatonError, ValueError):
    """Tables that do not belong together are combined.

    Examples
    --------
    >>> import attomaton as at
    >>> first, second = at.learn([0, 1, 0, 2, 0, 1]), at.learn([0, 1, 0, 1, 1, 0])
    >>> at.Automaton(first.components, first.hard, second.soft)
    Traceback (most recent call last):
        ...
    attomaton.base.errors.MismatchedParts: the given SoftSolution does not belong to these components; give
    Automaton(components, hard, soft), both solved from the same components
    """


class UnwritablePlace(AttomatonError, OSError):
    """A file or folder cannot be written at the given path.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     at.learn([0, 1, 0, 2, 0, 1]).save(file.name)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UnwritablePlace: ... is a file; give the path of a folder to write to
    """


class CorruptRun(AttomatonError, OSError):
    """A run folder is incomplete, altered, or of a format this version does not read.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     at.Automaton.load(folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    attomaton.base.errors.CorruptRun: ... has no manifest.json: there is no run, or it is incomplete; ...
    """


class UnsupportedOption(AttomatonError, ValueError):
    """An option has a value that this version does not offer.

    Examples
    --------
    >>> import attomaton as at
    >>> at.learn([0, 1, 0, 2, 0, 1], engine="abacus")
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UnsupportedOption: engine is 'abacus'; choose auto, memory, duckdb or
    spark
    """


class MissingExtra(AttomatonError, ImportError):
    """A feature needs a package that a plain install of attomaton leaves out, or the kernels are not built.

    Examples
    --------
    >>> with needing("train"):  # where PyTorch is not installed, attomaton.train raises this
    ...     raise ModuleNotFoundError("No module named 'torch'", name="torch")
    Traceback (most recent call last):
        ...
    attomaton.base.errors.MissingExtra: train needs PyTorch: pip install 'attomaton[train]'
    """


@contextmanager
def needing(feature: str, extra: str = "") -> Generator[None]:
    """Name the extra to install, or ``extra``, if ``feature`` needs a package that is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRA_PACKAGES:
            raise
        package, smallest = EXTRA_PACKAGES[module]
        command = f"pip install 'attomaton[{extra or smallest}]'"
        raise MissingExtra(f"{feature} needs {package}: {command}") from error


class UndeterminedChoice(AttomatonError, ValueError):
    """The observed choices do not determine which of these items would be chosen.

    Examples
    --------
    >>> import attomaton as at
    >>> fit = at.fit_choices(["a", "c"], [["a", "b"], ["c", "d"]])  # nothing compares a or b with c or d
    >>> fit.probability("a", ["a", "c"])
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UndeterminedChoice: no chain of choices leads from 'a' to 'c' or back, so
    neither is preferred; add comparisons that connect them (see .missing)
    """


class NothingRealisable(UserWarning):
    """No sample has its label in its context, so attention alone cannot predict any of them.

    Examples
    --------
    >>> import warnings, attomaton as at
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     auto = at.learn([0, 1, 2, 3, 4, 5])
    >>> caught[0].category.__name__, auto.coverage.realisable
    ('NothingRealisable', 0.0)
    """


class SkippedDocuments(UserWarning):
    r"""Documents could not be read and were left out, as ``skip_bad`` asks.

    Attributes
    ----------
    count : int
        How many.
    first : str or None
        What was wrong with the first.

    Examples
    --------
    >>> import tempfile, warnings, attomaton as at
    >>> lines = '{"text": "to be or to be"}\n{"title": "no text"}'
    >>> with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
    ...     print(lines, file=file, flush=True)
    ...     with warnings.catch_warnings(record=True) as caught:
    ...         warnings.simplefilter("always")
    ...         auto = at.learn(file.name, reading=at.corpora.readers.Reading(skip_bad=True))
    >>> caught[0].message.count, auto.samples.skipped.count
    (1, 1)
    """

    def __init__(self, count: int, first: str | None, noun: str = "document") -> None:
        documents = f"1 {noun} was" if count == 1 else f"{count:,} {noun}s were"
        super().__init__(f"{documents} skipped; the first: {first}")
        self.count, self.first = count, first


class StepBeyondEdge(UserWarning):
    """The step size of a training run is beyond the edge of stability, so the run will not converge.

    Examples
    --------
    >>> import warnings, attomaton as at
    >>> samples = at.Samples.from_lists([[0, 1, 2]] * 5, [0, 0, 0, 1, 1])
    >>> model = at.AttentionModel(at.training.models.embeddings.Orthonormal())
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     trace = at.train(samples, model, at.GradientDescent(5.0), steps=1)
    >>> caught[0].category.__name__
    'StepBeyondEdge'
    """


class SameWeights(UserWarning):
    """Two steps of a course have identical weights, as when a download serves one checkpoint twice.

    Examples
    --------
    >>> import warnings, numpy as np
    >>> from attomaton.heads.audit.course import AuditSettings, audit_course
    >>> from attomaton.heads.arrays import from_arrays
    >>> ones, documents = np.ones((1, 1, 2, 2)), np.random.default_rng(0).integers(0, 3, (24, 9))
    >>> model = from_arrays(np.eye(3, 2), ones, ones, ones, ones)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     course = audit_course([model, model], documents, steps=(0, 1), settings=AuditSettings(window=4))
    >>> caught[0].category.__name__
    'SameWeights'
    """
