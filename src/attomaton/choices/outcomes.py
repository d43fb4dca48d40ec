"""How each pair ends, as tables write it: by name, side, word, score, or one column for each side."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import show
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.columns import number_values, read_numbers
from attomaton.choices.numbering import BadRows, is_missing

FIRST, SECOND, TIE = 0, 1, 2
"""How a pair ends."""

LISTED_OUTCOMES = 4
"""How many unreadable outcomes an error names."""

UNREAD = -1
"""In place of how a pair ends: the outcome cannot be read."""

TIES = ("tie", "draw", "tied")
"""Names of columns that mark ties."""

TIE_WORDS = (*TIES, "drawn", "bothbad", "bothgood")
"""Words for a tie; ``tie (…)`` also counts."""

SCORES = {"1": 1.0, "1.0": 1.0, "0": 0.0, "0.0": 0.0, "0.5": 0.5}
"""Strings for the score of the first of a pair."""

FLAGS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
"""Strings for truth values."""

INDEX_NAMES = (
    *("winner", "winning", "victor", "chosen", "choice", "pick", "select", "prefer", "better", "best"),
    *("vote", "label"),
)
"""What the name of a column contains that may hold the index of the winner."""

SIDES = (
    (("a",), ("b",), ()),
    (("1", "first"), ("2", "second"), ("x",)),
    (("left", "l"), ("right", "r"), ()),
    (("white", "w"), ("black", "b"), ("d",)),
    (("home", "h"), ("away", "a"), ("d", "x")),
    (("win", "won", "w"), ("loss", "lost", "lose", "l"), ("d", "t")),
)
"""Words for a win of the first, a win of the second, and a tie, as one table may use them together."""

USUAL_WORDS = {word for words in SIDES for meaning in words for word in meaning}

HIGHER = "the higher one wins, equal scores are a tie"
"""How two scores decide."""

_ADORNED = re.compile(r"(?:model|player|team|response|answer|option|assistant)?(.+?)(?:wins|win|won)?")
_RESULT = re.compile(r"(\d{0,3}(?:\.\d)?)\s*[-–:]\s*(\d{0,3}(?:\.\d)?)")
_NAME_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def read_flags(values: Any) -> Bool:
    """Truth values as tables spell them, shape (n_rows,)."""
    number, distinct = number_values(values)
    flags = [
        FLAGS.get(str(value).strip().lower(), FLAGS.get(str(value).removesuffix(".0"))) for value in distinct
    ]
    bad = np.array([flag is None for flag in flags], bool)[number]
    if bad.any():
        value = distinct[number[np.argmax(bad)]]
        raise BadRows(f"tied is {show(value)} in ", bad, "; give True or False")
    return np.array(flags, bool)[number]


def read_amounts(values: Any, role: str, n_rows: int) -> Float64:
    """A column of numbers; true and yes count as 1, false and no as 0."""
    distinct = number_values(values)[1]
    if all(str(value).strip().lower() in FLAGS for value in distinct):
        return read_flags(values).astype(np.float64)
    return read_numbers(values, role, n_rows)


def is_tie(value: Any) -> bool:
    """Whether this is a word for a tie."""
    word = _squash(value)
    return word in TIE_WORDS or word.startswith("tie(")


def _squash(value: Any) -> str:
    """A word without case, spaces, underscores and inner hyphens: Both-bad is bothbad, -1 is not 1."""
    return re.sub(r"[\s_]+|(?<!^)-", "", str(value).strip().casefold())


def read_outcomes(
    values: Any,
    items: tuple[Any, ...],
    pair: tuple[Int64, Int64],
    names: tuple[Any, Any],
    dropped: Collection[Any],
    column: Any,
) -> tuple[Int64, str]:
    """How each pair ends: FIRST or SECOND if that item won, TIE if it is a tie, shape (n_rows,).

    Outcomes that are dropped afterwards need not be readable. The text says how the ``column`` was read; it
    is empty where outcomes are names of items, names of columns, or ties.
    """
    number, distinct = number_values(values)
    if len(number) != len(pair[0]):
        raise InvalidSamples("the outcome is not a column with one entry per row; give one for each pair")
    special = {*names, *TIES, 0, 0.5, 1, *SCORES}
    item_names = set(items)
    both = next(
        (value for value in distinct if value in item_names and (value in special or is_tie(value))), None
    )
    if both is not None:
        raise InvalidSamples(
            f"the outcome {show(both)} is also the name of an item; give columns of winner and loser"
        )
    used = [value for value in distinct if value not in dropped]
    ends, reading = _read_values(used, items, names, column)
    codes = np.array([ends.get(value, TIE) for value in distinct], np.int64)
    end = find_side(number, distinct, items, pair, codes)
    bad = end == UNREAD
    if bad.any():
        value = distinct[number[np.argmax(bad)]]
        unread = [distinct[index] for index in dict.fromkeys(number[bad].tolist())]
        listed = [show(entry) for entry in unread if not is_missing(entry)][:LISTED_OUTCOMES]
        leave_out = f"drop such rows: drop=[{', '.join(listed)}]"
        if is_missing(value):
            leave_out = "leave the row out (on the command line: --skip-bad)"
        raise BadRows(
            "the outcome in ",
            bad,
            f" is {'missing' if is_missing(value) else show(value)}; give the winner, its column "
            f"({show(names[0])} or {show(names[1])}), words of one kind ('home' and 'away'), 'tie', or the "
            f"score of {show(names[0])} (1, 0.5 or 0), or {leave_out}",
        )
    absent = [show(value) for value in dropped if value not in distinct]
    if absent:
        reading += (
            "; " * bool(reading) + f"nothing was dropped for {', '.join(absent)}: no row has this outcome"
        )
    return end, reading


def find_side(
    number: Int64, distinct: Sequence[Any], items: Sequence[Any], pair: tuple[Int64, Int64], ends: Int64
) -> Int64:
    """FIRST or SECOND where a value names that item of the pair, else what ``ends`` has for the value."""
    item_number = {item: number for number, item in enumerate(items)}
    named = np.array(
        [-1 if isinstance(value, bool) else item_number.get(value, -1) for value in distinct], np.int64
    )
    winner = named[number]
    return np.where(winner == pair[0], FIRST, np.where(winner == pair[1], SECOND, ends[number]))


def _read_values(
    values: Sequence[Any], items: Sequence[Any], names: tuple[Any, Any], column: Any
) -> tuple[dict[Any, int], str]:
    """How a pair with each outcome ends if the outcome does not name the winner, and how they were read."""
    ends = dict.fromkeys(values, UNREAD)
    words = dict[Any, str]()
    scores = dict[Any, float]()
    results = dict[Any, int]()
    item_names = set(items)
    for value in values:
        if is_missing(value):
            continue
        if isinstance(value, str) and value in names:
            ends[value] = names.index(value)
        elif is_tie(value):
            ends[value] = TIE
        elif (score := _score(value)) is not None:
            scores[value] = score
        elif isinstance(value, bool) or value in item_names:
            continue
        elif (result := _compare_result(value)) is not None:
            results[value] = result
        else:
            words[value] = _squash(int(value) if isinstance(value, float) and value.is_integer() else value)
    wins = [value for value, score in scores.items() if score == 1]
    if "2" in map(_strip, words.values()) and not isinstance(next(iter(wins), None), bool):
        if len(wins) == len(scores):  # 1 and 2 name the sides
            words.update(dict.fromkeys(wins, "1"))
            scores = {}
        else:  # beside 0 or 0.5, a 2 has no meaning
            words = {value: word for value, word in words.items() if _strip(word) != "2"}
    readings = [_describe_scores(scores, names, column)] if scores else []
    ends |= {value: {1.0: FIRST, 0.0: SECOND, 0.5: TIE}[score] for value, score in scores.items()}
    if results:
        ends |= results
        readings.append(
            f"{show(column)} was read as the scores of {show(names[0])} and {show(names[1])}: {HIGHER}"
        )
    if words:
        spelled = {_squash(item) for item in items}
        words = {value: _strip(word) for value, word in words.items() if word not in spelled}
        sides = _read_words(set(words.values()), names, column)
        read = {value: sides[word] for value, word in words.items() if word in sides}
        ends |= read
        if read:
            meaning = {
                FIRST: f"a win of {show(names[0])}",
                SECOND: f"a win of {show(names[1])}",
                TIE: "a tie",
            }
            spellings = ", ".join(f"{show(value)} is {meaning[end]}" for value, end in read.items())
            readings.append(f"{show(column)} was read: {spellings}")
    return ends, "; ".join(readings)


def _strip(word: str) -> str:
    """A word without what often comes with it: "modela" is "a", "whitewins" is "white"."""
    adorned = _ADORNED.fullmatch(word)
    return word if adorned is None else adorned[1]


def _score(value: Any) -> float | None:
    """The score of the first of a pair, if the outcome is one."""
    score = SCORES.get(value.strip()) if isinstance(value, str) else value
    return score if score in (0, 0.5, 1) else None


def _compare_result(value: Any) -> int | None:
    """How a pair with the result ``2-1`` or ``½-½`` ends; None if this is not a result."""
    if not isinstance(value, str):
        return None
    result = _RESULT.fullmatch(value.strip().replace("1/2", ".5").replace("½", ".5"))
    if result is None:
        return None
    first, second = (float(score or "nan") for score in result.groups())
    if first != first or second != second:
        return None
    return TIE if first == second else FIRST if first > second else SECOND


def _describe_scores(scores: Collection[Any], names: tuple[Any, Any], column: Any) -> str:
    """How scores were read; rejects 0 and 1 that may be those of the second, or the index of the winner."""
    (first, second), name = map(show, names), str(column).lower()
    of_first, of_second = (bool(apart & _words_of(column)) for apart in words_apart(names))
    if of_second and not of_first:
        raise InvalidSamples(
            f"the column {show(column)} seems to say when {second} wins, not when {first} does; name "
            f"{second} as the first and {first} as the second, or write {first} or {second} in the column"
        )
    index = any(word in name for word in INDEX_NAMES) and not of_first and bool not in map(type, scores)
    if index and 0.5 not in map(_score, scores):
        raise InvalidSamples(
            f"0 and 1 in the column {show(column)} may be the score of {first} or the index of the winner; "
            f"write {first} or {second} instead (in pandas: .map({{0: {first}, 1: {second}}}) if an index)"
        )
    return f"{show(column)} was read as the score of {first}: 1 is a win, 0 a loss, 0.5 a tie"


def _read_words(words: set[str], names: tuple[Any, Any], column: Any) -> Mapping[str, int]:
    """The side of each word, by the names of the two columns or by usual words; empty if there is none."""
    apart = words_apart(names)
    sides = {_squash(name): side for side, name in enumerate(names)}
    sides |= {token: side for side, tokens in enumerate(apart) for token in tokens}
    initials = [{token[0] for token in tokens} for tokens in apart]
    words = words & {*sides, *initials[FIRST], *initials[SECOND], *USUAL_WORDS}  # others have no meaning
    if words <= sides.keys():
        return sides
    readings: list[Mapping[str, int]] = []
    for first, second, tie in SIDES:
        if first[0] in apart[SECOND] or second[0] in apart[FIRST]:
            first, second = second, first
        usual = {**dict.fromkeys(first, FIRST), **dict.fromkeys(second, SECOND), **dict.fromkeys(tie, TIE)}
        agree = all(usual[word] == sides[word] for word in words & usual.keys() & sides.keys())
        if words <= usual.keys() and agree and not words <= set(tie):
            readings.append(usual)
    if words <= initials[FIRST] ^ initials[SECOND]:
        readings.append({word: FIRST if word in initials[FIRST] else SECOND for word in words})
    word = next((word for word in sorted(words) if len({usual[word] for usual in readings}) > 1), None)
    if word is not None:
        raise InvalidSamples(
            f"{show(word)} in the column {show(column)} may be a win of {show(names[0])} or of "
            f"{show(names[1])}; write {show(names[0])} or {show(names[1])} instead"
        )
    return readings[0] if readings else {}


def words_apart(names: tuple[Any, Any]) -> tuple[set[str], set[str]]:
    """The parts of each of two names that the other lacks: home and away of ``HomeTeam``, ``AwayTeam``."""
    first, second = map(_words_of, names)
    return first - second, second - first


def _words_of(name: Any) -> set[str]:
    """The words of a name such as ``HomeTeam`` or ``model_a``."""
    return set(map(str.casefold, _NAME_WORDS.findall(str(name))))


def read_score_columns(
    columns: Sequence[Any], titles: Sequence[Any], names: tuple[Any, Any], n_rows: int
) -> tuple[Int64, str]:
    """How each pair ends, from a score of each of the two, or from columns of which one is 1 in each row."""
    (first, second), listed = map(show, names), ", ".join(map(show, titles))
    if len(columns) not in (2, 3):
        raise InvalidSamples(
            f"the outcome has {len(columns)} columns ({listed}); give the scores of {first} and {second}, or "
            f"three columns that mark a win of {first}, a win of {second}, and a tie"
        )
    apart = words_apart(names)
    words = [_words_of(title) for title in titles]
    if apart[SECOND] & words[0] and apart[FIRST] & words[1]:
        raise InvalidSamples(
            f"the columns of the outcome are {listed}; name the column of {first} before the column of "
            f"{second}"
        )
    scores = [
        read_amounts(values, f"{show(title)} (outcome)", n_rows)
        for values, title in zip(columns, titles, strict=True)
    ]
    if len(scores) == 2:
        end = np.where(scores[0] == scores[1], TIE, np.where(scores[0] > scores[1], FIRST, SECOND))
        return end, f"{listed} were read as the scores of {first} and {second}: {HIGHER}"
    marked = np.column_stack(scores) > 0
    bad = marked.sum(axis=1) != 1
    if bad.any():
        raise BadRows("", bad, f" does not mark exactly one of {listed}; mark the outcome, or drop the row")
    return marked.argmax(axis=1), ""
