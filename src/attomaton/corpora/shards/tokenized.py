"""A tokenised corpus on disk: a folder of shards, its vocabulary, and a manifest written last."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import (
    MANIFEST,
    FolderKind,
    check_files,
    list_digests,
    read_checked,
    read_manifest,
    read_sealed,
)
from attomaton.base.artifacts.manifests import was_sealed
from attomaton.base.errors import CorruptRun
from attomaton.base.ragged import offsets_of
from attomaton.base.remote import Place, RemotePath, as_place
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.documents import Documents
from attomaton.corpora.samples import Skipped
from attomaton.corpora.shards.format import GROUP_TOKENS, flatten_lists, read_batches
from attomaton.corpora.tokenizers.vocabulary import Vocabulary

TOKENIZED = FolderKind("tokens", "a tokenised corpus", "attomaton tokenize --out")
VOCABULARY = "vocabulary.json"


@dataclass(frozen=True, eq=False)
class TokenizedCorpus:
    """A folder that :func:`tokenize_corpus` wrote.

    Attributes
    ----------
    folder : Path or RemotePath
        Where it is; behind a URL, such as ``s3://bucket/tokens``, its shards are read from there.
    manifest : mapping
        What ``manifest.json`` says: counts, inputs, files with their digests.
    vocabulary : Vocabulary, optional
        None for a corpus of ids whose tokenizer is not known.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     corpus = at.tokenize_corpus(["to be", "or not to be"], folder).verify()
    ...     ids, [batch] = corpus.documents().ids.tolist(), list(corpus.batches())
    >>> corpus.n_documents, corpus.length, ids, batch.num_rows
    (2, 6, [0, 1, 2, 3, 0, 1], 2)
    """

    folder: Place
    manifest: Mapping[str, Any]
    vocabulary: Vocabulary | None

    @property
    def n_tokens(self) -> int:
        """Size of the vocabulary; every id is below."""
        return self.manifest["n_tokens"]

    @property
    def n_documents(self) -> int:
        """How many documents there are."""
        return self.manifest["documents"]

    @property
    def length(self) -> int:
        """How many tokens all documents have together."""
        return self.manifest["tokens"]

    @property
    def skipped(self) -> Skipped:
        """What was skipped as it was read."""
        return Skipped(**self.manifest["skipped"])

    @property
    def shards(self) -> list[Place]:
        """The Parquet files, in the order of the corpus."""
        return [self.folder / name for name in self.manifest["files"] if name.endswith(".parquet")]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The column ``tokens`` of all shards, a few megabytes at a time; each shard is checked first."""
        return (batch for _, batch, _ in self._read())

    def documents(self) -> Documents:
        """All of it in memory."""
        ids: list[Int32] = [np.empty(0, np.int32)]
        lengths: list[Int64] = [np.empty(0, np.int64)]
        for shard, batch, row in self._read():
            offsets, values = flatten_lists(batch, place=str(shard), first_row=row)
            ids.append(values)
            lengths.append(np.diff(offsets))
        offsets = offsets_of(np.concatenate(lengths))
        return Documents(np.concatenate(ids), offsets, self.vocabulary, self.skipped)

    def verify(self) -> "TokenizedCorpus":
        """The corpus itself, if every file still has the digest that the manifest gives it."""
        self._check([self.folder / name for name in self.manifest["files"]])
        return self

    def check_shards(self) -> list[str]:
        """The digests of the shards, which must be those that the manifest gives them.

        Examples
        --------
        >>> import tempfile, attomaton as at
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     len(at.tokenize_corpus(["to be", "or not to be"], folder).check_shards())
        1
        """
        return self._check(self.shards)

    def _read(self) -> Iterator[tuple[Place, pa.RecordBatch, int]]:
        for shard in self.shards:
            self._check([shard])
            for batch, row in read_batches(shard, GROUP_TOKENS):
                yield shard, batch, row

    def _check(self, paths: Sequence[Place]) -> list[str]:
        files = {path.name: self.manifest["files"][path.name] for path in paths}
        return check_files(self.folder, files, again="tokenize again")


def is_tokenized(folder: str | PathLike[str] | RemotePath) -> bool:
    """Whether a folder has the manifest of a tokenised corpus; one on a web server has none."""
    place = as_place(folder)
    if isinstance(place, RemotePath) and not place.is_dir():
        return False
    path = place / MANIFEST
    record = read_sealed(path)
    if record is None and was_sealed(path):
        raise CorruptRun(f"{path} was altered, or is of an older format; write {folder} again")
    return record is not None and record.get("kind") == TOKENIZED.name


def read_tokens(folder: str | PathLike[str] | RemotePath) -> TokenizedCorpus:
    """Read the manifest and the vocabulary of a tokenised corpus; its files must be there in full length.

    :meth:`TokenizedCorpus.verify` compares their digests too.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = at.tokenize_corpus(["to be", "or not to be"], folder)
    ...     read_tokens(folder).vocabulary
    Vocabulary(tokens=('to', 'be', 'or', 'not'), tokenizer='word')
    """
    place = as_place(folder)
    if not is_tokenized(place):
        raise CorruptRun(
            f"{place} holds no tokenised corpus, or one that was cut short; write it with "
            f"`attomaton tokenize … --out {place}`, which goes on where it stopped"
        )
    manifest = read_manifest(place, TOKENIZED)
    try:
        digests = list_digests(place, manifest["files"])
        for name in digests:
            if (place / name).stat().st_size != manifest["files"][name]["bytes"]:
                raise CorruptRun(f"{place / name} was altered after it was written; tokenize again")
        words = json.loads(read_checked(place / VOCABULARY, digests[VOCABULARY]))
        vocabulary = None if words is None else Vocabulary.from_record(words)
    except (KeyError, TypeError, AttributeError, ValueError, FileNotFoundError) as error:
        raise CorruptRun(f"{place} is not whole ({error}); tokenize again") from error
    return TokenizedCorpus(place, manifest, vocabulary)
