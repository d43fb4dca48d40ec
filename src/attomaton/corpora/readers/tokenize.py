"""Tokenise a corpus to Parquet shards, in parallel, so that an interrupted run can resume.

Each input file produces shards and then a record (:mod:`.input_jobs`), so a run resumes with the files that
have no record. The bytes of the folder do not depend on interruptions or on the number of workers.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base import artifacts
from attomaton.base.artifacts.files import DRAFT, entry_of, show_path
from attomaton.base.artifacts.folders import lock_target, resolve_target
from attomaton.base.artifacts.manifests import FORMAT
from attomaton.base.artifacts.ownership import take_stock
from attomaton.base.artifacts.systems import link_or_copy
from attomaton.base.errors import UnreadableSource, UnwritablePlace
from attomaton.base.options import MOST_THREADS, whole_number
from attomaton.base.progress import Advance, silent
from attomaton.base.remote import is_url
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers import input_jobs
from attomaton.corpora.readers.batches import Reader, Reading, as_reading
from attomaton.corpora.readers.corpus import with_id_limit
from attomaton.corpora.readers.files import FileReader
from attomaton.corpora.readers.input_jobs import INPUT_RECORDS, WORD_RECORDS
from attomaton.corpora.readers.numbering import Numbering, refuse_mixture
from attomaton.corpora.readers.processes import Workers
from attomaton.corpora.readers.sources import find_readers
from attomaton.corpora.samples import NOTHING_SKIPPED, Skipped
from attomaton.corpora.shards import TOKENIZED, VOCABULARY_FILE, TokenizedCorpus, is_tokenized, read_tokens
from attomaton.corpora.tokenizers.vocabulary import Vocabulary

N_DIGITS = 5  # of the number of an input, or of a shard, in the name of a file
FIVE_DIGITS = "[0-9]" * N_DIGITS
# The files of a tokenised corpus: shards are numbered by input.
TOKENIZED_FILES = (
    VOCABULARY_FILE,
    f"part-{FIVE_DIGITS}-{FIVE_DIGITS}.parquet",
    f"{WORD_RECORDS}/*",
    f"{INPUT_RECORDS}/*",
)

SHARD_TOKENS = 1 << 25  # tokens of a shard by default: about 50 MB of Parquet


def tokenize_corpus(
    source: Any,
    out: str | Path,
    *,
    tokenizer: str = "word",
    reading: Reading | None = None,
    workers: int = 1,
    shard_tokens: int = SHARD_TOKENS,
    overwrite: bool = False,
    progress: Advance | None = None,
) -> TokenizedCorpus:
    """Tokenise a corpus to Parquet shards; a stopped call resumes where it stopped if it is repeated.

    Parameters
    ----------
    source : path, URL, sequence or dataset
        A corpus, as in :func:`read_corpus`.
    out : path
        The folder for the shards: new, empty, or written by an earlier call with the same arguments.
    tokenizer : str
        ``"word"``, ``"word-lower"``, ``"word-punct"``, ``"character"``, ``"byte"``, or the path of a
        ``tokenizer.json`` or ``.tiktoken`` file. Words and characters are numbered in order of first
        appearance, which takes an extra pass over the corpus.
    reading : Reading, optional
        How to read the corpus.
    workers : int
        The number of processes. A script that uses several needs ``if __name__ == "__main__":``.
    shard_tokens : int
        The number of tokens at which a shard is closed.
    overwrite : bool
        Whether to replace the shards of another corpus or of other settings.
    progress : callable, optional
        A function that each pass calls with the number of finished files and the total.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tokenize_corpus(["to be", "or not to be"], folder).documents().offsets.tolist()
    [0, 2, 6]
    """
    workers = whole_number(workers, "workers", least=1, most=MOST_THREADS)
    shard_tokens = whole_number(shard_tokens, "shard_tokens", least=1)
    job = _CorpusJob.of(source, tokenizer, reading, shard_tokens)
    target = resolve_target(out)
    job.refuse_inputs_in(target)
    with lock_target(target) as lock:
        is_same = job.has_written(target)
        if is_same and input_jobs.is_whole(target, artifacts.read_manifest(target, TOKENIZED)):
            return read_tokens(target)
        replace = overwrite or is_same  # the call that wrote a damaged corpus repairs it
        with artifacts.build_folder(
            target, TOKENIZED, TOKENIZED_FILES, overwrite=replace, resumable=True, lock=lock
        ) as building:
            _link_finished(building.folder, target)
            job.run(building.folder, workers, progress or silent)
            if not artifacts.read_manifest(building.folder, TOKENIZED)["tokens"]:
                raise UnreadableSource("the corpus contains no tokens; give another corpus")
    return read_tokens(target)


def tokenize_into(folder: Path, source: Any, *, tokenizer: str, reading: Reading) -> TokenizedCorpus:
    _CorpusJob.of(source, tokenizer, reading, SHARD_TOKENS).run(folder, 1)
    return read_tokens(folder)


@dataclass(frozen=True)
class _CorpusJob:
    """A corpus to tokenise; ``vocabulary`` is None if a pass over the corpus must find it."""

    readers: Sequence[Reader]
    reading: Reading
    tokenizer: str
    vocabulary: Vocabulary | None
    shard_tokens: int

    @classmethod
    def of(cls, source: Any, tokenizer: str, reading: Reading | None, shard_tokens: int) -> "_CorpusJob":
        vocabulary = Vocabulary.fixed(tokenizer)
        if isinstance(source, Documents) and source.vocabulary is not None:
            vocabulary, tokenizer = source.vocabulary, source.vocabulary.tokenizer
        options = with_id_limit(as_reading(reading), vocabulary)
        return cls(find_readers(source, options), options, tokenizer, vocabulary, shard_tokens)

    def refuse_inputs_in(self, target: Path) -> None:
        files = [reader.source for reader in self.readers if isinstance(reader, FileReader)]
        for path in (path for path in files if not is_url(path) and target in Path(path).resolve().parents):
            raise UnwritablePlace(f"{show_path(target)} contains the corpus ({path}); give another folder")

    def has_written(self, folder: Path) -> bool:
        """Whether the tokenised corpus in a folder is the result of this job."""
        if not is_tokenized(folder):
            return False
        inputs = [input_jobs.input_key(reader, self.reading) for reader in self.readers]
        return artifacts.read_manifest(folder, TOKENIZED).get("job") == self.digest(inputs)

    def digest(self, inputs: Sequence[str]) -> str:
        """The digest of everything that determines the result; `inputs` are the keys of the inputs."""
        fixed = None if self.vocabulary is None else self.vocabulary.definition
        return artifacts.digest_record([FORMAT, list(inputs), self.tokenizer, fixed, self.shard_tokens])

    def run(self, out: Path, workers: int, progress: Advance = silent) -> None:
        """Writes shards, records, the vocabulary and the manifest.

        What an earlier run has finished is kept.
        """
        vocabulary = self.vocabulary
        n_inputs = len(self.readers)
        with artifacts.explained(out):
            _prepare(out, n_inputs, has_words=vocabulary is None)
        with Workers(workers, progress) as pool:
            inputs = [(index, reader, self.reading, out) for index, reader in enumerate(self.readers)]
            if vocabulary is None:
                pool.run([input_jobs.WordsJob(*each, self.tokenizer) for each in inputs])
                vocabulary, ids_digests = _merge_words(out, n_inputs, self.tokenizer)
            else:
                fixed = artifacts.digest_record([vocabulary.tokenizer, vocabulary.definition])
                ids_digests = [fixed] * n_inputs
            words = None if vocabulary is None else vocabulary.to_record()
            with artifacts.explained(out):
                digest = artifacts.write_file(out / VOCABULARY_FILE, artifacts.json_writer(words))["sha256"]
            jobs = [
                input_jobs.EncodeJob(*each, ids_digest, digest, self.shard_tokens)
                for each, ids_digest in zip(inputs, ids_digests, strict=True)
            ]
            pool.run(jobs)
        records = [input_jobs.read_record(out, INPUT_RECORDS, index) for index in range(n_inputs)]
        manifest = _manifest(out, records, vocabulary, self.reading)
        job = self.digest([record["input"] for record in records])
        with artifacts.explained(out):
            artifacts.write_sealed(out / artifacts.MANIFEST, {**manifest, "job": job})


# Creates the folders of the records, and removes what an interrupted or different run may have left.
def _prepare(out: Path, n_inputs: int, *, has_words: bool) -> None:
    for folder in (out / WORD_RECORDS, out / INPUT_RECORDS):
        folder.mkdir(parents=True, exist_ok=True)
    (out / artifacts.MANIFEST).unlink(missing_ok=True)
    for path in [*out.glob("part-*"), *(out / WORD_RECORDS).iterdir(), *(out / INPUT_RECORDS).iterdir()]:
        is_stale = path.parent.name == WORD_RECORDS and not has_words
        number = path.name.removeprefix("part-")[:N_DIGITS]  # of the input of this shard or record
        if is_stale or path.name.endswith(DRAFT) or (number.isdigit() and int(number) >= n_inputs):
            path.unlink()


# Link the shards and records of the replaced folder; those whose digests match are used again.
def _link_finished(folder: Path, replaced: Path) -> None:
    stock = take_stock(replaced) if replaced.is_dir() else None
    for file in [] if stock is None else stock.files:
        new = folder / file.relative_to(replaced)
        if file.name != artifacts.MANIFEST and not new.exists():
            new.parent.mkdir(exist_ok=True)
            link_or_copy(file, new)


# The vocabulary in order of first appearance, and the digest of the token numbers of each input.
def _merge_words(out: Path, n_inputs: int, tokenizer: str) -> tuple[Vocabulary | None, list[str]]:
    numbering = Numbering(tokenizer)
    digests: list[str] = []
    kinds: set[str] = set()  # of the inputs: "text" or "ids"
    for index in range(n_inputs):
        record = input_jobs.read_record(out, WORD_RECORDS, index)
        tokens = tuple(record["tokens"])
        kinds |= {record["holds"]} - {None}
        numbering.add(tokens)
        ids = np.fromiter((numbering.numbers[token] for token in tokens), np.int32, len(tokens))
        digests.append(hashlib.sha256(f"{tokenizer} {record['holds']}".encode() + ids.tobytes()).hexdigest())
    refuse_mixture(kinds, tokenizer)
    vocabulary = None if kinds == {"ids"} else Vocabulary(tuple(numbering.numbers), tokenizer)
    return vocabulary, digests


# The manifest of a tokenised corpus, from the records of its inputs.
def _manifest(
    out: Path, records: list[dict[str, Any]], vocabulary: Vocabulary | None, reading: Reading
) -> dict[str, Any]:
    files: dict[str, Any] = {}
    skipped = NOTHING_SKIPPED
    for record in records:
        files |= record["files"]
        skipped += Skipped(**record["skipped"])
    largest = max(record["largest"] for record in records)
    inputs = ("name", "documents", "tokens", "skipped")
    record_paths = [path for folder in (WORD_RECORDS, INPUT_RECORDS) for path in (out / folder).iterdir()]
    return {
        "kind": TOKENIZED.name,
        "format": FORMAT,
        "tokenizer": None if vocabulary is None else vocabulary.tokenizer,
        "n_tokens": largest + 1 if vocabulary is None else len(vocabulary),
        "documents": sum(record["documents"] for record in records),
        "tokens": sum(record["tokens"] for record in records),
        "skipped": asdict(skipped),
        "reading": reading.to_record(),
        "inputs": [{name: record[name] for name in inputs} for record in records],
        "versions": {package: version(package) for package in ("attomaton", "pyarrow")},
        "files": {**files, VOCABULARY_FILE: entry_of(out / VOCABULARY_FILE)},
        "records": sorted(path.relative_to(out).as_posix() for path in record_paths),
    }
