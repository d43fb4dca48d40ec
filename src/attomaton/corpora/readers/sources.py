"""Find the readers of a corpus: of all files of a path, folder, glob or URL, or of an object in memory.

:func:`find_readers` is called with any corpus. :func:`find_files` lists the files of a path or URL, and
:func:`reader_of` finds the reader of a file by its suffix.
"""

import glob
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from attomaton.base.artifacts import MANIFEST, read_sealed
from attomaton.base.artifacts.manifests import RUN, was_sealed
from attomaton.base.artifacts.ownership import PARTIAL
from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.base.options import check_path
from attomaton.base.remote import AnyPath, RemotePath, is_url
from attomaton.base.stores import reaching
from attomaton.corpora.budgets import STANDARD_INPUT, brief, refuse_irregular
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers import files, tables
from attomaton.corpora.readers.batches import Reader, Reading
from attomaton.corpora.readers.delimited import DelimitedReader
from attomaton.corpora.readers.files import File, FileReader, TableReader, naming, printable, shorten_path
from attomaton.corpora.readers.json_files import JsonLinesReader, JsonReader
from attomaton.corpora.readers.records import TEXT_KINDS, DocumentsReader, MemoryReader, split_stream
from attomaton.corpora.readers.streams import StreamReader
from attomaton.corpora.readers.texts import FastaReader, TextReader
from attomaton.corpora.shards import TokenizedCorpus, is_tokenized, read_tokens

# Suffix of a file → its reader; all except Parquet and Arrow may be compressed as .gz or .zst.
READERS: dict[str, type[FileReader]] = {
    **dict.fromkeys((".txt", ".md", ".log"), TextReader),
    **dict.fromkeys((".jsonl", ".ndjson"), JsonLinesReader),
    ".json": JsonReader,
    **dict.fromkeys((".csv", ".tsv"), DelimitedReader),
    ".parquet": tables.ParquetReader,
    **dict.fromkeys((".arrow", ".feather"), tables.ArrowReader),
    **dict.fromkeys((".npy", ".bin"), StreamReader),
    **dict.fromkeys((".fasta", ".fa", ".faa", ".fna"), FastaReader),
}

# Readers of files that can be read as a whole table.
TABLE_READERS = {suffix: reader for suffix, reader in READERS.items() if issubclass(reader, TableReader)}

GLOB_CHARACTERS = frozenset("*?[")
BYTE_TYPES: Any = (bytes, bytearray, memoryview)


def find_readers(source: Any, reading: Reading | None = None) -> list[Reader]:
    """The readers of a corpus, at least one; options of ``reading`` that none of them uses are refused."""
    reading = reading or Reading()
    readers = _list_readers(source, reading)
    has_columns = tables.is_data_frame(source) or any(reader.has_columns for reader in readers)
    if reading.column is not None and not has_columns:
        raise UnsupportedOption(
            f"column is {brief(reading.column)!r}, but {shorten_path(readers[0].source)} has no columns; "
            "leave column out, or set the format of the file, such as format='csv' (--format csv)"
        )
    has_lines = any(isinstance(reader, TextReader | JsonLinesReader) for reader in readers)
    if reading.documents == "line" and not has_lines:
        raise UnsupportedOption(
            f"documents is 'line', but {shorten_path(readers[0].source)} is not plain text: each of its "
            "elements, records, rows or sequences is a document; leave documents out, or read the file as "
            "plain text with format='txt' (--format txt)"
        )
    return readers


# The readers of a path (one for each file), of a list of paths, or of an object in memory (one).
def _list_readers(source: Any, reading: Reading) -> list[Reader]:
    if isinstance(source, str) and source == STANDARD_INPUT:
        return [reader_of(files.keep_standard_input(), reading)]
    if isinstance(source, RemotePath):
        return _list_readers(source.url, reading)
    if isinstance(source, str | os.PathLike):
        return [reader_of(file, reading) for file in find_files(check_path(source, "source"))]
    if isinstance(source, TokenizedCorpus):
        return _list_readers(source.folder, reading)
    if _is_listed(source) and source and all(isinstance(path, os.PathLike) for path in source):
        return [reader for path in source for reader in _list_readers(path, reading)]  # a list of paths
    return [_reader_in_memory(source, reading)]


# The reader of an object in memory. Ids are tested for before other sequences, because a flat sequence of ids
# is one document, and not a sequence of documents.
def _reader_in_memory(source: Any, reading: Reading) -> Reader:
    if tables.library_of(source) == "datasets":
        return tables.DatasetReader(source, reading)
    if isinstance(source, Documents):
        return DocumentsReader(source, reading)
    if tables.is_data_frame(source):
        return tables.read_frame(source, reading)
    if is_ids(source) and len(source):
        return MemoryReader(split_stream(source, reading.separator), reading)
    kind = cast("type[Any]", type(source))
    if issubclass(kind, np.ndarray) and source.ndim > 0:
        return MemoryReader(source.tolist() if source.dtype.kind in TEXT_KINDS else list(source), reading)
    if _is_listed(source):
        return MemoryReader(source, reading)
    cure = "give a path, a URL, a sequence of documents or a dataset"
    if issubclass(kind, BYTE_TYPES):
        cure = "decode the bytes, and give a list with the text"
    elif issubclass(kind, Mapping):
        cure = "give a list of texts, or a list of records"
    elif hasattr(source, "read"):
        cure = "give the path of the file"
    elif issubclass(kind, Iterable):
        cure = "convert it with list(…)"
    raise UnreadableSource(f"a corpus of type {kind.__name__} cannot be read; {cure}")


# Whether the elements of a source are documents or paths; also true of a text.
def _is_listed(source: object) -> bool:
    return isinstance(source, Sequence) and not isinstance(source, BYTE_TYPES)


def is_ids(source: Any) -> bool:
    """Whether the source is one document, a flat sequence of ids."""
    if isinstance(source, np.ndarray):
        array = cast("NDArray[Any]", source)
        return array.ndim == 1 and array.dtype.kind not in (*TEXT_KINDS, "S")  # S: bytes
    listed = isinstance(source, Sequence) and not isinstance(source, str | bytes)
    # the first item decides; the others are checked when they are read
    return listed and all(isinstance(item, int | np.integer) for item in cast("Sequence[Any]", source)[:1])


def reader_of(file: File, reading: Reading) -> Reader:
    """The reader for the format of a file: the option ``format``, or else the suffix; without one, text."""
    suffix = files.suffix_of(file, reading)
    reader = READERS.get(suffix) if suffix else TextReader
    if reader is None and reading.format is not None:
        formats = ", ".join(suffix.removeprefix(".") for suffix in READERS)
        raise UnsupportedOption(f"the format {brief(reading.format)!r} is unknown; choose one of {formats}")
    if reader is None:
        raise UnreadableSource(
            f"{shorten_path(file.source)} has an unknown suffix; set its format (for plain text "
            f"format='txt', or --format txt), change its suffix to one of {', '.join(READERS)}, or leave it "
            "out with a glob such as '*.parquet'"
        )
    return reader(file, reading)


def find_files(source: str) -> list[File]:
    """The files of a path, folder, glob or URL, sorted by name, without hidden files and ``_…``."""
    with naming(source):
        if is_url(source):
            return _find_behind_url(source)
        path = Path(source)
        if is_tokenized(path):
            paths: list[Any] = list(read_tokens(path).verify().shards)
        elif (kind := written_kind(path)) is not None:
            raise _not_a_corpus(source, kind)
        elif path.is_dir():
            paths = [file for file in _walk(path) if _is_file(file)]
        elif path.exists() or not GLOB_CHARACTERS.intersection(source):
            paths = [path] if _is_file(path) else []
        else:
            paths = [Path(file) for file in glob.glob(source, recursive=True) if _is_file(Path(file))]  # noqa: PTH207  absolute patterns
    if not paths:
        cure = f"give another folder or glob{files.text_cure(source)}"
        raise UnreadableSource(f"{shorten_path(source)} has no files to read; {cure}")
    return _named_files([file.as_posix() for file in paths])


# Yield the files of a folder and its subfolders, except ours; an unreadable folder is an error.
def _walk(folder: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise UnreadableSource(
            f"{printable(str(error.filename))} cannot be listed: {error.strerror}; change the "
            "permissions, or leave the folder out"
        ) from error

    for subfolder, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(
            name for name in folders if _is_visible(Path(name)) and not _is_our_folder(Path(subfolder, name))
        )
        linked = [name for name in folders if (Path(subfolder) / name).is_symlink()]
        if linked:
            raise UnreadableSource(
                f"{printable(str(Path(subfolder) / linked[0]))} is a link to a folder, which is not "
                "followed; give that folder, or remove the link"
            )
        yield from (Path(subfolder) / name for name in names if _is_visible(Path(name)))


def _not_a_corpus(source: str, kind: str) -> UnreadableSource:
    noun = "a run folder" if kind == RUN.name else f"a folder of the kind {kind!r} that attomaton wrote"
    cure = ", or load the run with Automaton.load" if kind == RUN.name else ""
    return UnreadableSource(
        f"{shorten_path(source)} is {noun}, not a corpus; give the corpus from which it was made{cure}"
    )


def written_kind(folder: AnyPath) -> str | None:
    """The kind of a folder that attomaton wrote, from its manifest; a run, if the manifest was altered."""
    record = read_sealed(folder / MANIFEST)
    if record is None:
        return RUN.name if was_sealed(folder / MANIFEST) else None
    return str(record.get("kind"))


def is_run_folder(folder: AnyPath) -> bool:
    return written_kind(folder) == RUN.name


# Whether attomaton wrote a folder, or is writing it; its output is never part of a corpus.
def _is_our_folder(folder: Path) -> bool:
    return any(read_sealed(folder / name) is not None for name in (MANIFEST, PARTIAL))


# Whether a path is a regular file: not if it is a folder; a device or a broken link is an error.
def _is_file(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        if path.is_symlink():
            target = printable(str(path.readlink()))
            raise UnreadableSource(
                f"{printable(str(path))} is a broken link (to {target}); correct or remove the link"
            ) from error
        raise
    refuse_irregular(path, mode)
    return stat.S_ISREG(mode)


def _is_visible(path: Path | PurePosixPath) -> bool:
    return not any(name.startswith((".", "_")) for name in path.parts)


# The files of a URL, which may be a glob, a folder or a file.
def _find_behind_url(url: str) -> list[File]:
    location = RemotePath(url)
    system, path = location.system()  # of fsspec; its paths have no scheme
    if GLOB_CHARACTERS.intersection(path):
        with reaching(url):
            paths = [str(name) for name in system.glob(path) if system.isfile(name)]
    elif system.isdir(path) if location.is_web else location.is_dir():  # a web folder is a page of links
        if is_tokenized(location):
            return [File(str(shard), shard.name) for shard in read_tokens(location).verify().shards]
        kind = None if location.is_web else written_kind(location)
        if kind is not None:
            raise _not_a_corpus(url, kind)
        with reaching(url):
            names: list[str] = [str(name) for name in system.find(path)]
        paths = [name for name in names if _is_visible(PurePosixPath(name).relative_to(path))]
    else:
        paths = [path]
    if not paths:
        raise UnreadableSource(f"{url} has no files to read; give another folder or glob")
    return [File(str(system.unstrip_protocol(file.source)), file.name) for file in _named_files(paths)]


# The files with the shortest distinct names: their paths relative to their common folder.
def _named_files(paths: list[str]) -> list[File]:
    shared = os.path.commonpath([str(PurePosixPath(path).parent) for path in paths])
    names = {path: PurePosixPath(path).relative_to(shared).as_posix() for path in sorted(paths)}
    return [File(path, printable(name)) for path, name in names.items()]
