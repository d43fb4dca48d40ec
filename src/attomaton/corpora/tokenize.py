"""A corpus tokenised once, to Parquet shards: in parallel, and resumed where it was stopped.

Each input file makes its own shards and then its own record, so a run that is cut short goes on with the
files that have no record yet. A record holds the digest of the input and of all settings; where either
differs, the file is done again. The shards of a file do not depend on the other files, nor on which process
wrote them, so the folder has the same bytes however often it was stopped and however many workers there are.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.artifacts import MANIFEST, digest_file, json_writer, write_file
from attomaton.corpora.jobs import INPUTS, WORDS, EncodeJob, WordsJob, digest_record, read_record, record_path
from attomaton.corpora.processes import Progress, Workers
from attomaton.corpora.readers.batches import NOTHING_SKIPPED, Reader, Reading, Skipped
from attomaton.corpora.readers.documents import Numbering, bounded, refuse_mixture
from attomaton.corpora.readers.files import FileReader
from attomaton.corpora.readers.sources import TOKENIZED, find_readers
from attomaton.corpora.shards import FORMAT, VOCABULARY, TokenizedCorpus, read_tokens
from attomaton.corpora.tokenizers.vocabulary import Vocabulary
from attomaton.errors import UnreadableSource, UnwritablePlace
from attomaton.options import MOST_THREADS, whole_number

SHARD_TOKENS = 1 << 25
"""About 50 MB of Parquet."""


def tokenize_corpus(
    source: Any,
    out: str | Path,
    *,
    tokenizer: str = "word",
    reading: Reading | None = None,
    workers: int = 1,
    shard_tokens: int = SHARD_TOKENS,
    progress: Progress | None = None,
) -> TokenizedCorpus:
    """Tokenise a corpus to Parquet shards; a run that was stopped goes on where it was.

    Parameters
    ----------
    source : path, URL, sequence or dataset
        What :func:`~attomaton.corpora.readers.find_readers` takes.
    out : path
        Folder for the shards: new, empty, or that of an earlier call.
    tokenizer : str
        ``"word"``, ``"character"``, ``"byte"``, or the path of a ``tokenizer.json`` or ``.tiktoken`` file.
        Words and characters are numbered as they first appear in the corpus, which takes a pass of its own.
    reading : Reading, optional
        How to read.
    workers : int
        Processes; each takes one input file at a time. A script that asks for more than one needs the usual
        ``if __name__ == "__main__":``.
    shard_tokens : int
        A shard is closed when it holds so many tokens.
    progress : callable, optional
        Called with the number of files done and of all files, in each pass.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     corpus = tokenize_corpus(["to be", "or not to be"], folder)
    ...     offsets = corpus.documents().offsets.tolist()
    >>> corpus.n_documents, corpus.length, corpus.vocabulary.tokens, offsets
    (2, 6, ('to', 'be', 'or', 'not'), [0, 2, 6])
    """
    workers = whole_number(workers, "workers", least=1, most=MOST_THREADS)
    shard_tokens = whole_number(shard_tokens, "shard_tokens", least=1)
    vocabulary = Vocabulary.fixed(tokenizer)
    asked = bounded(Reading() if reading is None else reading, vocabulary)
    readers = find_readers(source, asked)
    place = _prepare(Path(out), readers)
    with Workers(workers, progress) as pool:
        if vocabulary is None:
            pool.run([WordsJob(index, one, asked, place, tokenizer) for index, one in enumerate(readers)])
            vocabulary, numbers = _merge_words(place, len(readers), tokenizer)
        else:
            numbers = [digest_record([vocabulary.tokenizer, vocabulary.definition])] * len(readers)
        digest = _write(place / VOCABULARY, None if vocabulary is None else vocabulary.to_record())["sha256"]
        pool.run(
            [
                EncodeJob(index, one, asked, place, numbers[index], digest, shard_tokens)
                for index, one in enumerate(readers)
            ]
        )
    records = [read_record(record_path(place, INPUTS, index)) for index in range(len(readers))]
    _write(place / MANIFEST, _manifest(place, records, vocabulary, asked))
    return read_tokens(place)


def _prepare(place: Path, readers: Sequence[Reader]) -> Path:
    """The folder, without manifest, drafts, and what is left of more inputs than there are now."""
    within = place.resolve()
    local = [one.source for one in readers if isinstance(one, FileReader) and not one.file.is_url]
    for path in (path for path in local if within in Path(path).resolve().parents):
        raise UnwritablePlace(f"{place} holds the corpus itself ({path}); give another folder for the shards")
    try:
        for folder in (place / WORDS, place / INPUTS):
            folder.mkdir(parents=True, exist_ok=True)
        present = sorted(place.iterdir())
        strangers = [path.name for path in present if not _is_ours(path)]
        if strangers:
            raise UnwritablePlace(
                f"{place} holds other files ({strangers[0]!r}); give a new folder, or that of an earlier run"
            )
        (place / MANIFEST).unlink(missing_ok=True)
        for path in [*present, *(place / WORDS).iterdir(), *(place / INPUTS).iterdir()]:
            if path.name.endswith(".draft") or _number(path) >= len(readers):
                path.unlink()
    except (FileExistsError, NotADirectoryError) as error:
        raise UnwritablePlace(f"{place} is a file; give the path of a folder for the shards") from error
    except UnwritablePlace:
        raise
    except OSError as error:
        raise UnwritablePlace(
            f"{place} cannot be written: {error.strerror}; choose another folder"
        ) from error
    return place


def _is_ours(path: Path) -> bool:
    known = path.name in (MANIFEST, VOCABULARY, WORDS, INPUTS) or path.name.endswith(".draft")
    return known or (path.name.startswith("part-") and path.suffix == ".parquet")


def _number(path: Path) -> int:
    """The number of the input that a shard or record belongs to; 0 for other files."""
    digits = path.name.removeprefix("part-")[:5]
    return int(digits) if digits.isdigit() else 0


def _merge_words(place: Path, n_inputs: int, tokenizer: str) -> tuple[Vocabulary | None, list[str]]:
    """The vocabulary in order of first appearance, and for each input the digest of its tokens' numbers."""
    numbering = Numbering(tokenizer)
    numbers: list[str] = []
    kinds: set[str] = set()
    for index in range(n_inputs):
        record = read_record(record_path(place, WORDS, index))
        tokens = tuple(record["tokens"])
        kinds |= {record["holds"]} - {None}
        numbering.add(tokens)
        ids = np.fromiter((numbering.numbers[token] for token in tokens), np.int32, len(tokens))
        numbers.append(hashlib.sha256(f"{tokenizer} {record['holds']}".encode() + ids.tobytes()).hexdigest())
    refuse_mixture(kinds, tokenizer)
    return (None if kinds == {"ids"} else Vocabulary(tuple(numbering.numbers), tokenizer)), numbers


def _manifest(
    place: Path, records: list[dict[str, Any]], vocabulary: Vocabulary | None, reading: Reading
) -> dict[str, Any]:
    files: dict[str, Any] = {}
    skipped = NOTHING_SKIPPED
    for record in records:
        files |= record["files"]
        skipped += Skipped(**record["skipped"])
    total = sum(record["tokens"] for record in records)
    if not total:
        raise UnreadableSource("the corpus has no tokens at all; give one that has some")
    largest = max(record["largest"] for record in records)
    words = place / VOCABULARY
    return {
        "kind": TOKENIZED,
        "format": FORMAT,
        "tokenizer": None if vocabulary is None else vocabulary.tokenizer,
        "n_tokens": largest + 1 if vocabulary is None else len(vocabulary),
        "documents": sum(record["documents"] for record in records),
        "tokens": total,
        "skipped": asdict(skipped),
        "reading": asdict(reading),
        "inputs": [
            {name: record[name] for name in ("name", "documents", "tokens", "skipped")} for record in records
        ],
        "versions": {package: version(package) for package in ("attomaton", "pyarrow")},
        "files": {**files, VOCABULARY: {"sha256": digest_file(words), "bytes": words.stat().st_size}},
    }


def _write(path: Path, record: Any) -> dict[str, Any]:
    try:
        return write_file(path, json_writer(record))
    except OSError as error:
        raise UnwritablePlace(
            f"{path} cannot be written: {error.strerror or error}; make room, and run it again"
        ) from error
