"""What a tokenizer file may say: checked before a library, which believes all of it, is given the file."""

import base64
import binascii
import json
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, cast

from attomaton.base.errors import AttomatonError, UnreadableSource
from attomaton.corpora.budgets import TOKEN_TEXT, TOKENIZER_BYTES, VOCABULARY, ids_most, shown

LONGEST_WORD = 1000
"""Characters of a word that WordPiece may look at: it takes time with their square, and asks for 100."""

GROWTH = 64
"""How many times longer the replacements of a tokenizer may make a text."""

RESTORE = "restore the file"
MEND = "restore the file, or give another"


def check_json(definition: str) -> None:
    """Raise if a ``tokenizer.json`` asks for what no tokenizer needs."""
    if len(definition) > TOKENIZER_BYTES:
        raise _wrong(f"it has {len(definition):,} characters, more than {TOKENIZER_BYTES:,}")
    try:
        read = json.loads(definition, object_pairs_hook=_distinct)
    except RecursionError as error:
        raise _wrong("it is nested too deeply") from error
    except ValueError as error:
        raise _wrong(shown(str(error))) from error
    whole = _object(read, "the file")
    model = _object(whole.get("model", {}), "its model")
    vocab, added = model.get("vocab"), whole.get("added_tokens")
    n_tokens = sum(len(cast("list[Any]", one)) for one in (vocab, added) if isinstance(one, list | dict))
    _check_vocabulary(vocab, ids_most(n_tokens))
    _check_added(added, ids_most(n_tokens))
    longest = model.get("max_input_chars_per_word", 0)
    if not isinstance(longest, int) or longest > LONGEST_WORD:
        raise _wrong(
            f"max_input_chars_per_word is {shown(str(longest))}, more than {LONGEST_WORD:,}, and the time "
            "for a word grows with its square"
        )
    if _growth(whole.get("normalizer")) * _growth(whole.get("pre_tokenizer")) > GROWTH:
        raise _wrong(f"what it replaces may grow more than {GROWTH}-fold")


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
        raise UnreadableSource(f"the ranks do not hold every single byte with a rank from 0 on; {RESTORE}")
    if len(set(ranks.values())) < len(ranks):
        raise UnreadableSource(f"two tokens have one rank; {MEND}")
    return ranks


@contextmanager
def running(what: str) -> Generator[None]:
    """Errors of a tokenizer's library as ours, its panics too; these are not ``Exception`` for Python."""
    try:
        yield
    except (AttomatonError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        reason = shown(str(error).strip() or type(error).__name__)
        raise UnreadableSource(f"{what} ({reason}); {MEND}") from error


def _parse_line(line: str, number: int, most: int) -> tuple[bytes, int]:
    parts = line.split()
    try:
        token = base64.b64decode(parts[0], validate=True)
    except (ValueError, binascii.Error) as error:
        raise _bad_line(number, "is not a token in base64 and its rank") from error
    if len(parts) != 2 or not token or not (parts[1].isascii() and parts[1].isdigit()):
        raise _bad_line(number, "is not a token in base64 and its rank")
    if len(token) > TOKEN_TEXT:
        raise _bad_line(number, f"has a token of {len(token):,} bytes, more than {TOKEN_TEXT:,}")
    if len(parts[1]) > 9 or int(parts[1]) >= most:
        raise _bad_line(number, f"has the rank {shown(parts[1])}, and ranks end below {most:,}")
    return token, int(parts[1])


def _bad_line(number: int, what: str) -> UnreadableSource:
    return UnreadableSource(f"line {number} {what}; {RESTORE}")


def _check_vocabulary(vocab: Any, most: int) -> None:
    if isinstance(vocab, list):  # Unigram: [token, score] by id
        pairs = cast("list[Any]", vocab)
        _check_size(len(pairs))
        _check_texts(cast("list[Any]", pair)[0] for pair in pairs if isinstance(pair, list) and pair)
    elif isinstance(vocab, dict):
        numbered = cast("dict[str, Any]", vocab)
        _check_size(len(numbered))
        for token, index in numbered.items():
            _check_id(token, index, most)
        _check_texts(numbered)
        if len(set(numbered.values())) < len(numbered):
            raise _wrong("two tokens of its vocabulary have one id")


def _check_added(added: Any, most: int) -> None:
    for one in cast("list[Any]", added) if isinstance(added, list) else []:
        entry = _object(one, "an added token")
        _check_id(str(entry.get("content")), entry.get("id", 0), most)
        _check_texts([str(entry.get("content"))])


def _check_size(size: int) -> None:
    if size > VOCABULARY:
        raise _wrong(f"it has {size:,} tokens, more than {VOCABULARY:,}")


def _check_id(token: str, index: Any, most: int) -> None:
    if type(index) is not int or not 0 <= index < most:
        raise _wrong(
            f"the id of {shown(token)!r} is {shown(str(index))}, and its ids are whole numbers from 0 to "
            f"{most - 1}"
        )


def _check_texts(tokens: Iterable[Any]) -> None:
    for token in tokens:
        if isinstance(token, str) and len(token) > TOKEN_TEXT:
            raise _wrong(f"a token has {len(token):,} characters, more than {TOKEN_TEXT:,}")


def _growth(part: Any) -> float:
    """How many times longer a text may become by what replaces, prepends or strips parts of it."""
    if isinstance(part, list):
        product = 1.0
        for one in cast("list[Any]", part):
            product *= _growth(one)
        return product
    if not isinstance(part, dict):
        return 1.0
    entry = cast("dict[str, Any]", part)
    inner = _growth([value for value in entry.values() if isinstance(value, list | dict)])
    content = entry.get("content")
    if entry.get("type") != "Replace" or not isinstance(content, str):
        return inner
    pattern = entry.get("pattern")
    plain = cast("dict[str, Any]", pattern).get("String") if isinstance(pattern, dict) else None
    return inner * max(1.0, len(content) / max(1, len(plain) if isinstance(plain, str) else 1))


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(f"{what} is {type(cast('object', value)).__name__}, not an object")
    return cast("dict[str, Any]", value)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("an object says one name twice")
    return made


def _wrong(what: str) -> UnreadableSource:
    return UnreadableSource(f"not a tokenizer.json ({what}); {MEND}")
