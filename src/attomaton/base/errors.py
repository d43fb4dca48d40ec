"""The errors that attomaton raises on purpose.

Each says what is wrong, where, and what to do. Each is also a subclass of the matching builtin error, so that
code that does not know attomaton can catch it.
"""

from collections.abc import Generator
from contextlib import contextmanager

# Module that a plain install leaves out → its name in messages, and the extra that installs it.
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


class AttomatonError(Exception):
    """Base of every error that attomaton raises on purpose.

    Examples
    --------
    >>> import attomaton as at
    >>> try:
    ...     at.learn("nowhere.txt")
    ... except at.AttomatonError as error:
    ...     print(type(error).__name__)
    UnreadableSource
    """


class InvalidSamples(AttomatonError, ValueError):
    """Arrays or lists do not describe samples."""


class EmptyContext(InvalidSamples):
    """A sample has no context, hence no query."""


class TokenOutOfRange(InvalidSamples):
    """A token id is negative or not below ``n_tokens``."""


class UnknownToken(AttomatonError, LookupError):
    """A token is not in the vocabulary, or a query or token is not in the tables of a run."""


class UnreadableSource(AttomatonError, OSError):
    """A corpus cannot be read, or not in the requested way."""


class UnreadableModel(UnreadableSource):
    """A trained model cannot be read: a file is damaged, or its content is not supported."""


class InvalidEmbeddings(AttomatonError, ValueError):
    """Embeddings have the wrong shape, or a value that is not finite."""


class UncertifiedSolution(AttomatonError, ArithmeticError):
    """A solver stopped before its solution could be certified."""


class MismatchedParts(AttomatonError, ValueError):
    """Values were combined that do not belong together."""


class UnwritablePlace(AttomatonError, OSError):
    """A file or folder cannot be written at the given path."""


class CorruptRun(AttomatonError, OSError):
    """A run folder is incomplete, altered, or in a format that this version does not read."""


class UnsupportedOption(AttomatonError, ValueError):
    """An option has a value that this version does not offer."""


class MissingExtra(AttomatonError, ImportError):
    """A feature needs a package that a plain installation lacks, or the kernels are not built."""


@contextmanager
def needing(feature: str, extra: str = "") -> Generator[None]:
    """Raise ``MissingExtra``, with the command that installs it, if ``feature`` lacks a package."""
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
    """The observed choices do not determine which of some items would be chosen."""


class NothingRealisable(UserWarning):
    """No sample has its label in its context, so attention alone cannot predict any of them."""


class SkippedDocuments(UserWarning):
    """Some documents could not be read and were skipped: their ``count``, and the ``first`` error."""

    def __init__(self, count: int, first: str | None, noun: str = "document") -> None:
        documents = f"1 {noun} was" if count == 1 else f"{count:,} {noun}s were"
        super().__init__(f"{documents} skipped; the first: {first}")
        self.count, self.first = count, first


class StepBeyondEdge(UserWarning):
    """The step size of a training is above the stability limit, so the training will not converge."""


class SameWeights(UserWarning):
    """Two checkpoints have identical weights, as if a download served one of them twice."""
