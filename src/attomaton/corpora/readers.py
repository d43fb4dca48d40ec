"""Files to documents: token ids with the borders between documents."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attomaton.corpora.samples import Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.errors import UnreadableSource
from attomaton.tables import Int32, Int64


@dataclass(frozen=True, eq=False)
class Documents:
    """A tokenised corpus: document ``i`` is ``ids[offsets[i]:offsets[i + 1]]``."""

    ids: Int32
    offsets: Int64
    vocabulary: Vocabulary

    def windows(self, window: int) -> Samples:
        """Every position as a sample with up to ``window`` tokens of context."""
        return Samples.from_windows(
            self.ids, window=window, documents=self.offsets, n_tokens=len(self.vocabulary)
        )


def read_text(path: str | Path, *, tokenizer: str = "word") -> Documents:
    """Read one UTF-8 text file as one document."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableSource(
            f"{file} is not UTF-8 text (byte {error.start}: {error.reason}); convert it to UTF-8 first"
        ) from error
    except IsADirectoryError as error:
        raise UnreadableSource(f"{file} is a folder; give one text file") from error
    except OSError as error:
        shown = str(file) if len(str(file)) <= 80 else f"{str(file)[:80]}…"
        raise UnreadableSource(
            f"{shown} cannot be read: {error.strerror}; give the path of a text file"
        ) from error
    vocabulary, ids = Vocabulary.from_text(text, tokenizer)
    if len(ids) < 2:
        raise UnreadableSource(
            f"{file} has too few tokens ({len(ids)}): a sample needs a context and a label, so give more text"
        )
    return Documents(ids, np.array([0, len(ids)], np.int64), vocabulary)
