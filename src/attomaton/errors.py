"""The errors attomaton raises on purpose.

Each says what is wrong, where, and what to do. Each is also the builtin error that fits it, so that code
which knows nothing of attomaton can still catch it.
"""

from collections.abc import Generator
from contextlib import contextmanager


class AttomatonError(Exception):
    """Base of every error that attomaton raises on purpose."""


class InvalidSamples(AttomatonError, ValueError):
    """The arrays or lists given do not describe samples."""


class EmptyContext(InvalidSamples):
    """A sample has no context, hence no query."""


class TokenOutOfRange(InvalidSamples):
    """A token id is negative or not below ``n_tokens``."""


class UnknownToken(AttomatonError, LookupError):
    """A token is not in the vocabulary, or a query or token is not in the tables asked."""


class UnreadableSource(AttomatonError, OSError):
    """A corpus cannot be read as it was asked to be."""


class InvalidEmbeddings(AttomatonError, ValueError):
    """The embeddings have the wrong shape, or a value that is not finite."""


class UncertifiedSolution(AttomatonError, ArithmeticError):
    """A solver stopped before its answer could be certified."""


class MismatchedParts(AttomatonError, ValueError):
    """Tables that were not made from one another are used together."""


class UnwritablePlace(AttomatonError, OSError):
    """A file or folder cannot be written where it was asked for."""


class CorruptRun(AttomatonError, OSError):
    """A run folder is incomplete, altered, or of a format this version does not read."""


class UnsupportedOption(AttomatonError, ValueError):
    """An option has a value that this version does not offer."""


class MissingExtra(AttomatonError, ImportError):
    """Something was asked for that needs a package which a plain install of attomaton leaves out."""


@contextmanager
def needing_torch(what: str) -> Generator[None]:
    """Say which extra to install if PyTorch is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtra(f"{what} needs PyTorch: pip install 'attomaton[train]'") from error


class UndeterminedChoice(AttomatonError, ValueError):
    """The choices seen do not say which of these items would be chosen."""


class NothingRealisable(UserWarning):
    """No sample has its label in its context, so that attention alone cannot predict any of them."""
