"""Run a ``tokenizer.json`` with the library ``tokenizers``, within limits of time and memory.

A file can make the library use any amount of either. So attomaton checks the sizes in a file before the
library reads it, then how much it can lengthen a text, and then the time of each call.
"""

import base64
import binascii
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from os.path import commonprefix
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, cast

from attomaton.base.errors import UnreadableSource, UnsupportedOption, needing
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.budgets import TOKEN_TEXT, TOKENIZER_BYTES, VOCABULARY_SIZE, brief, ids_most
from attomaton.corpora.tokenizers.encoders import ANOTHER_TOKENIZER, name_all, ragged, running

HUGGING_FACE = "tokenizer.json"

# Longest word for WordPiece, in characters: its time grows with their square; the default is 100.
LONGEST_WORDPIECE = 1000

MOST_GROWTH = 128  # largest factor by which all steps of a tokenizer together may lengthen a text
# Steps that may write two characters, or bytes, for one: ten of them may lengthen a text 1024 times.
DOUBLING = ("BPEDecoder", "ByteLevel", "CTC", "Metaspace", "WordPiece")

# Distinct beginnings of the tokens of a Unigram model, each of which takes the library about 350 bytes; in
# large files, as many as an eighth of their characters. Those of 250 k tokens have about a million.
BEGINNINGS = 1 << 21

# Processor time that a `tokenizer.json` may take for all texts together: at the start, for each of the first
# bytes, and for each further byte. Real files take 4e-7 to 8e-7 s for a byte.
START_SECONDS = 10.0
BYTE_SECONDS = 1.5e-6
FURTHER_SECONDS = 1e-5
FIRST_TEXT_BYTES = 10_000_000

ID_TEXT_BYTES = 4  # bytes of text for which time is allowed when an id is decoded
POLL_SECONDS = 0.2  # time between two checks of the time that a call takes


class HuggingFaceEncoder:
    """A ``tokenizer.json``, run by the library ``tokenizers``.

    Its regular expressions run in Oniguruma, which backtracks: ``(a+)+$`` can take seconds for a line. So the
    library is called in a thread, which can be abandoned.
    """

    def __init__(self, definition: str) -> None:
        with needing("a tokenizer.json"):
            import tokenizers
        check_json(definition)
        with running("not a tokenizer.json"):
            self._tokenizer = cast("Any", tokenizers).Tokenizer.from_str(definition)
            self._names = {index: token for token, index in self._tokenizer.get_vocab().items()}
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
            dropout = getattr(self._tokenizer.model, "dropout", None)
            # the steps as JSON, as the library read them: a file may leave types out
            names = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
            steps = [getattr(self._tokenizer, name) for name in names]
            states = [b"null" if step is None else step.__getstate__() for step in steps]
        self._joins_by_regex = b'"Regex"' in states[-1]  # of the decoder
        *encoding, decoding = map(json.loads, states)
        if max(_growth(encoding), _growth(decoding)) > MOST_GROWTH:
            raise _wrong(f"it may make a text more than {MOST_GROWTH} times as long")
        if dropout:
            raise UnsupportedOption("the tokenizer drops merges at random; set dropout to null in its file")
        self._seconds = 0.0  # processor time of all calls so far
        self._n_bytes = 0  # bytes of text in all calls so far
        self._n_tokens = max(self._names, default=-1) + 1
        if self._n_tokens > VOCABULARY_SIZE:
            raise UnreadableSource(
                f"an id is {self._n_tokens - 1}, not below {VOCABULARY_SIZE:,}; use another tokenizer"
            )

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int32]:
        """The texts as ids: ``(offsets, ids)``, without special tokens."""
        with running("the tokenizer has no ids for part of the text"):
            call = partial(self._tokenizer.encode_batch_fast, list(texts), add_special_tokens=False)
            n_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
            lists = [encoding.ids for encoding in self._call_in_time(call, n_bytes)]
        largest = max((max(ids) for ids in lists if ids), default=0)
        if largest >= max(1, self._n_tokens):
            raise UnreadableSource(
                f"the tokenizer produced the id {largest}, not below {self._n_tokens}; use another tokenizer"
            )
        return ragged(lists)

    def before(self) -> tuple[int, ...]:
        """The special tokens that the post-processor of the file puts before a text."""
        with running("the tokenizer has no ids for a letter"):
            batch = self._tokenizer.encode_batch
            calls = (partial(batch, ["a"], add_special_tokens=special) for special in (False, True))
            plain, framed = (self._call_in_time(call, 1)[0].ids for call in calls)
        # framed is the special tokens before a text, then plain, then the special tokens after it
        starts = range(len(framed) - len(plain) + 1)
        matches = (start for start in starts if framed[start : start + len(plain)] == plain)
        return tuple(framed[: next(matches, 0)])

    def tokens(self) -> tuple[str, ...]:
        """The tokens as the file spells them (GPT-2 writes a space as ``Ġ``)."""
        return name_all(self._names)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of consecutive ids, from the decoder of the file; an id without a token adds nothing."""
        with running("the tokenizer cannot join its tokens"):
            call = partial(self._tokenizer.decode_batch, [list(ids)], skip_special_tokens=False)
            return (self._call_in_time(call, ID_TEXT_BYTES * len(ids)) if self._joins_by_regex else call())[0]

    # The result of a call of the library; an error if all calls together take far too long.
    # The call must release the lock of the interpreter, or Ctrl-C has no effect.
    def _call_in_time(self, call: Callable[[], Any], n_bytes: int) -> Any:
        outcomes = SimpleQueue[tuple[Any, BaseException | None]]()

        def run() -> None:
            try:
                outcomes.put((call(), None))
            except BaseException as error:  # also a panic of Rust, which is not an Exception
                outcomes.put((None, error))

        self._n_bytes += n_bytes
        first = min(self._n_bytes, FIRST_TEXT_BYTES)
        allowed = START_SECONDS + BYTE_SECONDS * first + FURTHER_SECONDS * (self._n_bytes - first)
        clock_start = time.monotonic()
        processor_start = time.process_time()

        def elapsed() -> float:  # neither the waits of a busy machine nor the work of other threads count
            return min(time.monotonic() - clock_start, time.process_time() - processor_start)

        Thread(target=run, daemon=True).start()
        while True:
            with suppress(Empty):
                result, error = outcomes.get(timeout=POLL_SECONDS)
                self._seconds += elapsed()
                if error is not None:
                    raise error
                return result
            if elapsed() > allowed - self._seconds:
                raise UnreadableSource(
                    "the tokenizer takes several times as long as usual, probably because one of its regular "
                    "expressions backtracks without end; use another tokenizer"
                )


def check_json(definition: str) -> None:
    """Refuse a ``tokenizer.json`` with sizes that would make the library use too much memory or time."""
    if len(definition) > TOKENIZER_BYTES:
        raise _wrong(f"the file has {len(definition):,} characters, more than {TOKENIZER_BYTES:,}")
    try:
        read = json.loads(definition, object_pairs_hook=_distinct)
    except RecursionError as error:
        raise _wrong("the file is nested too deeply") from error
    except ValueError as error:
        raise _wrong(brief(str(error))) from error
    record = _object(read, "the file")
    model = _object(record.get("model", {}), "its model")
    vocab, added = model.get("vocab"), record.get("added_tokens")
    listed = [cast("list[Any]", tokens) for tokens in (vocab, added) if isinstance(tokens, list | dict)]
    _check_tokens(vocab, added, ids_most(sum(map(len, listed))))
    longest = model.get("max_input_chars_per_word", 0)
    if not isinstance(longest, int) or longest > LONGEST_WORDPIECE:
        raise _wrong(
            f"max_input_chars_per_word is {brief(str(longest))}, more than {LONGEST_WORDPIECE:,}, and the "
            "time for a word grows with its square"
        )
    if isinstance(vocab, list):
        _check_beginnings(cast("list[Any]", vocab), max(BEGINNINGS, len(definition) // 8))


# Checks the number of tokens, their lengths, and their ids, which must be below `most`. A vocabulary is a
# dict token → id, or for Unigram a list of [token, score] by id; an added token has its own id.
def _check_tokens(vocab: Any, added: Any, most: int) -> None:
    tokens: list[Any] = []  # of Unigram
    ids: list[tuple[str, Any]] = []  # of all other tokens
    size = 0
    if isinstance(vocab, list):
        size = len(cast("list[Any]", vocab))
        tokens += [pair[0] for pair in cast("list[Any]", vocab) if isinstance(pair, list) and pair]
    elif isinstance(vocab, dict):
        ids += cast("dict[str, Any]", vocab).items()
        size = len(ids)
        if len({str(index) for _, index in ids}) < size:
            raise _wrong("two tokens of the vocabulary have the same id")
    if size > VOCABULARY_SIZE:
        raise _wrong(f"the vocabulary has {size:,} tokens, more than {VOCABULARY_SIZE:,}")
    for item in cast("list[Any]", added) if isinstance(added, list) else []:
        entry = _object(item, "an added token")
        ids.append((str(entry.get("content")), entry.get("id", 0)))
    for token, index in ids:
        if type(index) is not int or not 0 <= index < most:
            raise _wrong(
                f"the id of {brief(token)!r} is {brief(str(index))}, not a whole number from 0 to {most - 1}"
            )
    for token in [*tokens, *(token for token, _ in ids)]:
        if isinstance(token, str) and len(token) > TOKEN_TEXT:
            raise _wrong(f"a token has {len(token):,} characters, more than {TOKEN_TEXT:,}")


# Refuses a Unigram vocabulary with too many distinct beginnings, each a node in the trie of the library. Each
# sorted token has as many new ones as it has bytes after the beginning that it shares with the token before.
def _check_beginnings(vocab: list[Any], most: int) -> None:
    texts = sorted(str(cast("list[Any]", pair)[0]) for pair in vocab if isinstance(pair, list) and pair)
    tokens = [text.encode("utf-8", "replace") for text in texts]
    if sum(map(len, tokens)) > most:
        shared = sum(len(commonprefix(pair)) for pair in pairwise(tokens))  # noqa: RUF071  no paths
        if sum(map(len, tokens)) - shared > most:
            raise _wrong(f"the tokens have more than {most:,} distinct beginnings")


# The factor by which a step of a tokenizer, or a list of steps, may lengthen a text. A step is a JSON object
# with a type. Steps inside it (`inner`) are applied one after the other, so their factors are multiplied.
def _growth(step: Any) -> float:
    if isinstance(step, list):
        return math.prod(map(_growth, cast("list[Any]", step)), start=1.0)
    if not isinstance(step, dict):
        return 1.0
    entry = cast("dict[str, Any]", step)
    inner = _growth([value for value in entry.values() if isinstance(value, list | dict)])
    match entry:
        case {"type": "Replace", "pattern": {"String": str(plain)}, "content": str(content)} if plain:
            return inner * max(1.0, len(content) / len(plain))
        case {"type": "Replace", "pattern": {"Regex": str(regex)}, "content": str(text)} if _consumes(regex):
            return inner * max(1, len(text))
        case {"type": "Replace", "content": str(added)} | {"type": "Prepend", "prepend": str(added)}:
            return inner * (1 + len(added))  # a match may be empty, between two characters
        case {"type": "Precompiled", "precompiled_charsmap": str(charsmap)}:
            return inner * _longest_replacement(charsmap)
        case {"type": "TemplateProcessing", "single": pieces}:
            return inner * max(1, sum("Sequence" in item for item in pieces))
        case _:
            return inner * (2 if entry.get("type") in DOUBLING else 1)


# Whether a regular expression is so simple that each match surely contains a character.
def _consumes(pattern: str) -> bool:
    plain = re.sub(r"\\[dDhHnprsStPwW\W]", "x", pattern)  # each of these escapes matches one character
    # without what may match nothing: quantifiers from 0, alternatives, anchors, groups, other escapes
    return plain != "" and re.search(r"[*?|^$()\\]|\{[0,]", plain) is None


# The most characters by which the table of SentencePiece replaces one character.
def _longest_replacement(charsmap: str) -> int:
    try:
        table = base64.b64decode(charsmap)
        size = int.from_bytes(table[:4], "little")
    except (ValueError, binascii.Error):
        return 1  # the library refuses it
    replacements = table[4 + size :].split(b"\0")  # after the size of a trie (4 bytes) and the trie
    return max(1, *(len(text.decode("utf-8", "replace")) for text in replacements))


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
