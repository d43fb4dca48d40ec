"""Tokenizers of language models: ``tokenizer.json``, tiktoken ranks files, and ``.bin`` files of llama2.c.

The ids are those that the libraries ``tokenizers`` and ``tiktoken`` assign to plain text: no special tokens
are added, and nothing is truncated or padded. Text that looks like a special token is ordinary text for
tiktoken; a ``tokenizer.json`` itself defines which added tokens it finds in text.
"""

import base64
import binascii
import json
import math
import re
import struct
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from heapq import heapify, heappop, heappush
from itertools import pairwise
from os.path import commonprefix
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol, cast

from attomaton.base.errors import AttomatonError, UnreadableSource, UnsupportedOption, needing
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.budgets import (
    TOKEN_TEXT,
    TOKENIZER_BYTES,
    VOCABULARY_SIZE,
    brief,
    ids_most,
    open_regular,
)
from attomaton.corpora.tokenizers.encoders import Encoder, name_all, ragged, show_bytes

LLAMA2C = "llama2.c"
FIRST_BYTE, BEGIN = 3, 1
LEAST_SCORE = -1e10  # pairs with lower scores are never merged
RESTORE_TOKENIZER = "restore the file"
_BYTE = re.compile(rb"<0x([0-9A-F]{2})>")


class Llama2cEncoder:
    """A tokenizer of llama2.c, from its base64-encoded file.

    As in llama2.c, a space is prepended to the text; no BOS token is added.
    """

    def __init__(self, definition: str) -> None:
        try:
            content = base64.b64decode(definition, validate=True)
        except (ValueError, binascii.Error) as error:
            raise UnreadableSource("not the definition of a llama2.c tokenizer; give another file") from error
        self._tokens, self._scores = _parse(content)
        self._ids: dict[bytes, int] = {}
        for index, token in enumerate(self._tokens):
            self._ids.setdefault(token, index)
        if len(self._tokens) < FIRST_BYTE + 256 or b" " not in self._ids:
            raise UnreadableSource(
                f"it has no token for a space, or not one for every byte; {RESTORE_TOKENIZER}"
            )

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int32]:
        return ragged([self._merge(self._split(text)) for text in texts])

    def tokens(self) -> tuple[str, ...]:
        """The tokens as text; a byte that is not UTF-8 is shown like ``<0xE9>``."""
        return name_all({index: show_bytes(token) for index, token in enumerate(self._tokens)})

    def decode(self, ids: Sequence[int]) -> str:
        """The text of consecutive ids, without the prepended space."""
        joined = b"".join(self._read(index) for index in ids)
        return joined.removeprefix(b" ").decode("utf-8", errors="replace")

    def _read(self, index: int) -> bytes:
        token = self._tokens[index] if 0 <= index < len(self._tokens) else b""
        byte = _BYTE.fullmatch(token) if FIRST_BYTE <= index < FIRST_BYTE + 256 else None
        return token if byte is None else bytes([int(byte[1], 16)])

    def _split(self, text: str) -> list[int]:
        """Characters, or the bytes of characters that are not tokens."""
        ids: list[int] = [self._ids[b" "]] if text else []
        for character in text:
            written = character.encode("utf-8", errors="replace")
            number = self._ids.get(written)
            ids += [byte + FIRST_BYTE for byte in written] if number is None else [number]
        return ids

    def _merge(self, ids: list[int]) -> list[int]:
        """Merge the pair whose token has the best score, the first among equals, until none is left.

        Pairs are kept in a heap; outdated pairs are skipped.
        """
        after = [*range(1, len(ids)), None] if ids else []
        before: list[int | None] = [None, *range(len(ids) - 1)]
        current: list[int | None] = list(ids)

        def pair(position: int | None) -> tuple[float, int, int, int, int] | None:
            following = None if position is None else after[position]
            if position is None or following is None:
                return None
            left, right = current[position], current[following]
            assert left is not None and right is not None  # noqa: S101, PT018  linked entries hold a token
            merged = self._ids.get(self._tokens[left] + self._tokens[right])
            return None if merged is None else (-self._scores[merged], position, merged, left, right)

        waiting = [entry for entry in map(pair, range(len(ids))) if entry is not None]
        heapify(waiting)
        while waiting:
            _, position, merged, left, right = heappop(waiting)
            following = after[position]
            if current[position] != left or following is None or current[following] != right:
                continue
            current[position], current[following] = merged, None
            after[position], last = after[following], after[following]
            if last is not None:
                before[last] = position
            for entry in (pair(before[position]), pair(position)):
                if entry is not None:
                    heappush(waiting, entry)
        return [entry for entry in current if entry is not None]


def _parse(content: bytes) -> tuple[list[bytes], list[float]]:
    tokens: list[bytes] = []
    scores: list[float] = []
    offset = 4
    while offset < len(content):
        if offset + 8 > len(content) or len(tokens) >= VOCABULARY_SIZE:
            raise UnreadableSource(
                f"it ends inside token {len(tokens)}, or has too many; {RESTORE_TOKENIZER}"
            )
        score, length = struct.unpack_from("<fi", content, offset)
        offset += 8 + length
        if not 0 <= length <= TOKEN_TEXT or offset > len(content):
            raise UnreadableSource(
                f"token {len(tokens)} has a declared length of {length} bytes; {RESTORE_TOKENIZER}"
            )
        if not math.isfinite(score) or score <= LEAST_SCORE:
            raise UnreadableSource(f"token {len(tokens)} has the score {score}; {RESTORE_TOKENIZER}")
        tokens.append(content[offset - length : offset])
        scores.append(score)
    return tokens, scores


LONGEST_WORDPIECE = 1000
"""Longest word for WordPiece, in characters: its time grows with their square; the default is 100."""

MOST_GROWTH = 128  # largest factor by which the parts of a tokenizer may lengthen a text
DOUBLING = ("BPEDecoder", "ByteLevel", "CTC", "Metaspace", "WordPiece")
"""Parts that may write two characters, or bytes, for one: a sequence of them lengthens a text much."""

BEGINNINGS = 1 << 21
"""Distinct beginnings of the tokens of a Unigram model, each of which takes the library about 350 bytes; in
large files, as many as an eighth of their characters. Those of 250 k tokens have about a million."""

ANOTHER_TOKENIZER = "restore the file, or give another"


def check_json(definition: str) -> None:
    """Refuse a ``tokenizer.json`` with settings that no real tokenizer has."""
    if len(definition) > TOKENIZER_BYTES:
        raise _wrong(f"it has {len(definition):,} characters, more than {TOKENIZER_BYTES:,}")
    try:
        read = json.loads(definition, object_pairs_hook=_distinct)
    except RecursionError as error:
        raise _wrong("it is nested too deeply") from error
    except ValueError as error:
        raise _wrong(brief(str(error))) from error
    whole = _object(read, "the file")
    model = _object(whole.get("model", {}), "its model")
    vocab, added = model.get("vocab"), whole.get("added_tokens")
    n_tokens = sum(
        len(cast("list[Any]", tokens)) for tokens in (vocab, added) if isinstance(tokens, list | dict)
    )
    _check_tokens(vocab, added, ids_most(n_tokens))
    longest = model.get("max_input_chars_per_word", 0)
    if not isinstance(longest, int) or longest > LONGEST_WORDPIECE:
        raise _wrong(
            f"max_input_chars_per_word is {brief(str(longest))}, more than {LONGEST_WORDPIECE:,}, and the "
            "time for a word grows with its square"
        )
    if isinstance(vocab, list):
        _check_beginnings(cast("list[Any]", vocab), max(BEGINNINGS, len(definition) // 8))


def parse_ranks(content: str, most: int) -> dict[bytes, int]:
    """The tokens of a ``.tiktoken`` file with their ranks, which are below ``most``."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        token, rank = _parse_line(line, number, most)
        if token in ranks:
            raise _bad_line(number, "repeats a token")
        ranks[token] = rank
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise UnreadableSource(f"not every single byte has a rank of 0 or more; {RESTORE_TOKENIZER}")
    if len(set(ranks.values())) < len(ranks):
        raise UnreadableSource(f"two tokens have the same rank; {ANOTHER_TOKENIZER}")
    return ranks


@contextmanager
def running(failure: str) -> Generator[None]:
    """Convert errors of a tokenizer's library, including panics, which are not an ``Exception``."""
    try:
        yield
    except (AttomatonError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        reason = brief(str(error).strip() or type(error).__name__)
        raise UnreadableSource(f"{failure} ({reason}); {ANOTHER_TOKENIZER}") from error


def _parse_line(line: str, number: int, most: int) -> tuple[bytes, int]:
    fields = line.split()
    try:
        token = base64.b64decode(fields[0], validate=True)
    except (ValueError, binascii.Error) as error:
        raise _bad_line(number, "is not a token in base64 and its rank") from error
    if len(fields) != 2 or not token or not (fields[1].isascii() and fields[1].isdigit()):
        raise _bad_line(number, "is not a token in base64 and its rank")
    if len(token) > TOKEN_TEXT:
        raise _bad_line(number, f"has a token of {len(token):,} bytes, more than {TOKEN_TEXT:,}")
    if len(fields[1]) > 9 or int(fields[1]) >= most:
        raise _bad_line(number, f"has the rank {brief(fields[1])}, not below {most:,}")
    return token, int(fields[1])


def _bad_line(number: int, fault: str) -> UnreadableSource:
    return UnreadableSource(f"line {number} {fault}; {RESTORE_TOKENIZER}")


def _check_tokens(vocab: Any, added: Any, most: int) -> None:
    """Refuse ids of ``most`` or more, tokens that are too long, and too many tokens."""
    tokens: list[Any] = []
    numbered: list[tuple[str, Any]] = []
    if isinstance(vocab, list):  # Unigram: [token, score] by id
        tokens += [pair[0] for pair in cast("list[Any]", vocab) if isinstance(pair, list) and pair]
    elif isinstance(vocab, dict):
        by_token = cast("dict[str, Any]", vocab)
        numbered += by_token.items()
        tokens += by_token
        if len(set(map(str, by_token.values()))) < len(by_token):
            raise _wrong("two tokens of its vocabulary have the same id")
    if isinstance(vocab, list | dict) and len(cast("list[Any]", vocab)) > VOCABULARY_SIZE:
        raise _wrong(f"it has {len(cast('list[Any]', vocab)):,} tokens, more than {VOCABULARY_SIZE:,}")
    for item in cast("list[Any]", added) if isinstance(added, list) else []:
        entry = _object(item, "an added token")
        tokens.append(str(entry.get("content")))
        numbered.append((tokens[-1], entry.get("id", 0)))
    for token, index in numbered:
        if type(index) is not int or not 0 <= index < most:
            raise _wrong(
                f"the id of {brief(token)!r} is {brief(str(index))}, not a whole number from 0 to {most - 1}"
            )
    for token in tokens:
        if isinstance(token, str) and len(token) > TOKEN_TEXT:
            raise _wrong(f"a token has {len(token):,} characters, more than {TOKEN_TEXT:,}")


def _check_beginnings(vocab: list[Any], most: int) -> None:
    """Refuse a Unigram vocabulary whose trie would take too much memory."""
    tokens = sorted(str(cast("list[Any]", pair)[0]) for pair in vocab if isinstance(pair, list) and pair)
    written = [token.encode("utf-8", "replace") for token in tokens]
    if sum(map(len, written)) > most:
        shared = sum(len(commonprefix(pair)) for pair in pairwise(written))  # noqa: RUF071  no paths
        if sum(map(len, written)) - shared > most:
            raise _wrong(f"its tokens have more than {most:,} distinct beginnings")


def _growth(step: Any) -> float:
    """The factor by which a part of a tokenizer may lengthen a text."""
    if isinstance(step, list):
        product = 1.0
        for inner_step in cast("list[Any]", step):
            product *= _growth(inner_step)
        return product
    if not isinstance(step, dict):
        return 1.0
    entry = cast("dict[str, Any]", step)
    inner = _growth([value for value in entry.values() if isinstance(value, list | dict)])
    match entry:
        case {"type": "Replace", "pattern": {"String": str(plain)}, "content": str(content)} if plain:
            return inner * max(1.0, len(content) / len(plain))
        case {"type": "Replace", "pattern": {"Regex": str(regex)}, "content": str(content)} if _eats(regex):
            return inner * max(1, len(content))
        case {"type": "Replace", "content": str(added)} | {"type": "Prepend", "prepend": str(added)}:
            return inner * (1 + len(added))  # a match may be empty, between two characters
        case {"type": "Precompiled", "precompiled_charsmap": str(charsmap)}:
            return inner * _longest_replacement(charsmap)
        case {"type": "TemplateProcessing", "single": pieces}:
            return inner * max(1, sum("Sequence" in item for item in pieces))
        case _:
            return inner * (2 if entry.get("type") in DOUBLING else 1)


def _eats(pattern: str) -> bool:
    """Whether a regular expression is so simple that each of its matches surely has a character."""
    plain = re.sub(r"\\[dDhHnprsStPwW\W]", "x", pattern)
    return plain != "" and re.search(r"[*?|^$()\\]|\{[0,]", plain) is None


def _longest_replacement(charsmap: str) -> int:
    """The most characters that SentencePiece's table of normal forms has for one: its texts end with NUL."""
    try:
        table = base64.b64decode(charsmap)
        size = int.from_bytes(table[:4], "little")
    except (ValueError, binascii.Error):
        return 1  # the library refuses it
    return max(1, *(len(text.decode("utf-8", "replace")) for text in table[4 + size :].split(b"\0")))


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(f"{name} is {type(cast('object', value)).__name__}, not an object")
    return cast("dict[str, Any]", value)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("an object has a duplicate key")
    return record


def _wrong(fault: str) -> UnreadableSource:
    return UnreadableSource(f"not a tokenizer.json ({fault}); {ANOTHER_TOKENIZER}")


END_OF_TEXT = "<|endoftext|>"
END_OF_PROMPT = "<|endofprompt|>"

_GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
_CL100K = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_O200K = "|".join(
    [
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


@dataclass(frozen=True)
class Scheme:
    """A pattern, the number of ranks, and the special tokens with their ids."""

    pattern: str
    n_ranks: int
    special: Mapping[str, int]


SCHEMES = {
    "r50k_base": Scheme(_GPT2, 50256, {END_OF_TEXT: 50256}),
    "p50k_base": Scheme(_GPT2, 50280, {END_OF_TEXT: 50256}),
    "cl100k_base": Scheme(
        _CL100K,
        100256,
        {
            END_OF_TEXT: 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            END_OF_PROMPT: 100276,
        },
    ),
    "o200k_base": Scheme(_O200K, 199998, {END_OF_TEXT: 199999, END_OF_PROMPT: 200018}),
}
"""Name of a ranks file, without its suffix → the information missing in it."""


HUGGING_FACE = "tokenizer.json"
TIKTOKEN = "tiktoken"


class SubwordEncoder(Encoder, Protocol):
    """An encoder with its own vocabulary."""

    def tokens(self) -> tuple[str, ...]:
        """A unique name for each id."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of consecutive ids; bytes that are not UTF-8 become replacement characters."""
        ...


def is_subword_file(tokenizer: str) -> bool:
    """Whether the name of a tokenizer is the path of a tokenizer file."""
    return tokenizer.endswith((".json", ".tiktoken", ".bin"))


def read_definition(path: str) -> tuple[str, str]:
    """The kind of a tokenizer file, and its definition, from which it can be rebuilt without the file."""
    file = Path(path)
    try:
        with open_regular(file) as stream:
            read = stream.read(TOKENIZER_BYTES + 1)
            packed = base64.b64encode(read) if file.suffix == ".bin" else read
            content = packed.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableSource(f"{file} is not a tokenizer file: it is not UTF-8; give another") from error
    except OSError as error:
        if isinstance(error, AttomatonError):
            raise
        raise UnreadableSource(
            f"the tokenizer {file} cannot be read: {error.strerror}; give the path of a tokenizer.json, "
            ".tiktoken or .bin file"
        ) from error
    if len(content) > TOKENIZER_BYTES:
        raise UnreadableSource(
            f"{file} has more than {TOKENIZER_BYTES:,} characters, too many for a tokenizer; give another"
        )
    kind = {".tiktoken": TIKTOKEN, ".bin": LLAMA2C}.get(file.suffix, HUGGING_FACE)
    definition = json.dumps({"scheme": file.stem, "ranks": content}) if kind == TIKTOKEN else content
    try:
        subword_encoder(kind, definition)
    except (UnreadableSource, UnsupportedOption) as error:
        raise type(error)(f"{file}: {error}") from error
    return kind, definition


@lru_cache(maxsize=4)
def subword_encoder(kind: str, definition: str) -> SubwordEncoder:
    """The encoder for a definition from :func:`read_definition`."""
    if kind == LLAMA2C:
        return Llama2cEncoder(definition)
    return TiktokenEncoder(definition) if kind == TIKTOKEN else HuggingFaceEncoder(definition)


START_SECONDS, BYTE_SECONDS, FURTHER_SECONDS, FEW_BYTES = 10.0, 1.5e-6, 1e-5, 10_000_000
"""Processor time that a ``tokenizer.json`` may take for all texts: to begin with, for each of the first ten
million bytes, and for each one after these. Real ones take 4e-7 to 8e-7 s a byte."""


class HuggingFaceEncoder:
    """A ``tokenizer.json``, run by the library ``tokenizers``.

    Its regular expressions run in Oniguruma, which backtracks: ``(a+)+$`` can take seconds for a line. The
    library is therefore called in a thread, which can be left behind.
    """

    def __init__(self, definition: str) -> None:
        with needing("a tokenizer.json"):
            import tokenizers
        library: Any = tokenizers
        check_json(definition)
        with running("not a tokenizer.json"):
            self._tokenizer = library.Tokenizer.from_str(definition)
            self._names = {index: token for token, index in self._tokenizer.get_vocab().items()}
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
            dropout = getattr(self._tokenizer.model, "dropout", None)
            whole = self._tokenizer
            stages = (whole.normalizer, whole.pre_tokenizer, whole.post_processor, whole.decoder)
            states = [b"null" if stage is None else stage.__getstate__() for stage in stages]
            self._joins_by_regex = b'"Regex"' in states[3]
        *before, after = map(json.loads, states)  # as the library read them: a file may leave types out
        if max(_growth(before), _growth(after)) > MOST_GROWTH:
            raise _wrong(f"it may lengthen a text more than {MOST_GROWTH}-fold")
        if dropout:
            raise UnsupportedOption(
                "the tokenizer drops merges at random, so a text has no fixed ids; set its dropout to null"
            )
        self._spent, self._n_bytes = 0.0, 0
        self._n_tokens = max(self._names, default=-1) + 1
        if self._n_tokens > VOCABULARY_SIZE:
            raise UnreadableSource(
                f"the tokenizer has ids up to {self._n_tokens - 1}, but ids must be below "
                f"{VOCABULARY_SIZE:,}; give another file"
            )

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int32]:
        with running("the tokenizer has no ids for part of the text"):
            call = partial(self._tokenizer.encode_batch_fast, list(texts), add_special_tokens=False)
            n_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
            lists = [encoding.ids for encoding in self._run(call, n_bytes)]
        largest = max((max(ids) for ids in lists if ids), default=0)
        if largest >= max(1, self._n_tokens):
            raise UnreadableSource(
                f"the tokenizer produced the id {largest}, but its ids must be below {self._n_tokens}; "
                "give another file"
            )
        return ragged(lists)

    def before(self) -> tuple[int, ...]:
        """The special tokens that the file's post-processor puts before a text."""
        with running("the tokenizer has no ids for a letter"):
            batch = self._tokenizer.encode_batch
            calls = (partial(batch, ["a"], add_special_tokens=special) for special in (False, True))
            plain, whole = (self._run(call, 1)[0].ids for call in calls)
        starts = range(len(whole) - len(plain) + 1)
        return next(
            (tuple(whole[:start]) for start in starts if whole[start : start + len(plain)] == plain), ()
        )

    def tokens(self) -> tuple[str, ...]:
        """The tokens as the file spells them (GPT-2 writes a space as ``Ġ``)."""
        return name_all(self._names)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of consecutive ids, from the file's decoder; an id without a token adds nothing."""
        with running("the tokenizer cannot join its tokens"):
            call = partial(self._tokenizer.decode_batch, [list(ids)], skip_special_tokens=False)
            return (self._run(call, 4 * len(ids)) if self._joins_by_regex else call())[0]

    def _run(self, call: Callable[[], Any], n_bytes: int) -> Any:
        """What a call of the library returns; raise if all calls together take far too long.

        Only calls that release the interpreter's lock may be given, or Ctrl-C is not heard.
        """
        outcomes = SimpleQueue[tuple[Any, BaseException | None]]()

        def run() -> None:
            try:
                outcomes.put((call(), None))
            except BaseException as error:  # a panic, too
                outcomes.put((None, error))

        self._n_bytes += n_bytes
        few = min(self._n_bytes, FEW_BYTES)
        most = START_SECONDS + BYTE_SECONDS * few + FURTHER_SECONDS * (self._n_bytes - few) - self._spent
        clock, processor = time.monotonic(), time.process_time()
        Thread(target=run, daemon=True).start()
        while True:
            with suppress(Empty):
                result, error = outcomes.get(timeout=0.2)
                self._spent += min(time.monotonic() - clock, time.process_time() - processor)
                if error is not None:
                    raise error
                return result
            if min(time.monotonic() - clock, time.process_time() - processor) > most:
                raise UnreadableSource(
                    "it takes several times as long for this text as tokenizers in use, probably because a "
                    "regular expression in it backtracks without end; give another tokenizer"
                )


class TiktokenEncoder:
    """A ranks file, run by the library ``tiktoken``; its name determines the splitting pattern."""

    def __init__(self, definition: str) -> None:
        with needing("a .tiktoken file"):
            import tiktoken
        try:
            stored = json.loads(definition)
            name, content = str(stored["scheme"]), str(stored["ranks"])
        except (ValueError, RecursionError, TypeError, LookupError) as error:
            raise UnreadableSource("not the definition of a ranks file; give another file") from error
        if name not in SCHEMES:
            raise UnsupportedOption(
                f"a ranks file does not contain its splitting pattern, and none is known for "
                f"{brief(name)!r}; rename it to one of {', '.join(sorted(SCHEMES))}, or give a "
                "tokenizer.json"
            )
        scheme = SCHEMES[name]
        self._ranks = parse_ranks(content, scheme.n_ranks + len(scheme.special) + 1)
        if len(self._ranks) != scheme.n_ranks:
            raise UnreadableSource(
                f"{len(self._ranks):,} ranks, but {name} has {scheme.n_ranks:,}; restore the file"
            )
        self._special = dict(scheme.special)
        shared = set(self._ranks.values()) & set(self._special.values())
        if shared:
            raise UnreadableSource(f"the rank {min(shared)} is that of a special token; restore the file")
        with running("not a ranks file"):
            self._encoding = tiktoken.Encoding(
                name, pat_str=scheme.pattern, mergeable_ranks=self._ranks, special_tokens=self._special
            )

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int32]:
        with running("the tokenizer has no ids for part of the text"):
            lists = [self._encoding.encode_ordinary(text) for text in texts]
        return ragged(lists)

    def tokens(self) -> tuple[str, ...]:
        """The tokens as text; a byte that is not UTF-8 is shown like ``<0xE9>``."""
        names = {index: show_bytes(token) for token, index in self._ranks.items()}
        return name_all({**names, **{index: token for token, index in self._special.items()}})

    def decode(self, ids: Sequence[int]) -> str:
        """The text of consecutive ids; an id without a token adds nothing."""
        texts = {index: token.encode() for token, index in self._special.items()}
        texts.update({index: token for token, index in self._ranks.items()})
        return b"".join(texts.get(index, b"") for index in ids).decode("utf-8", errors="replace")
