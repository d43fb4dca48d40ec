"""Choose the queries that fit on a page, and gather the content of the page as one JSON record."""

# `choose_queries` packs queries until the page is full, and `gather_page` adds the rest of the page.

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.explanation import Rule
from attomaton.automaton.prediction import HARD_TIE
from attomaton.base.pages import to_json
from attomaton.base.printing import cut_long
from attomaton.base.tables import Int64
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.report.page.packing import FIELDS, Packer, differences

PAGE_BYTES = 4_700_000  # of queries and tokens; with code and text a page stays below 5 MB
MOST_TOKEN_BYTES = 1_500_000  # of a vocabulary that is included in full
LONGEST_TYPED = 10_000  # characters of a token that can be typed; longer ones are shown cut
LARGE_RUN = 2_000_000  # nodes and order pairs above which a run is large
MOST_QUERY_SIZE = 250_000  # nodes and order pairs of a query that is tried, in a large run
MOST_MISSES = 50  # queries that do not fit, after which the search stops


@dataclass(frozen=True, eq=False)
class Chosen:
    """The queries of a page: their indices by number of samples, their JSON, and their share of samples."""

    indices: Int64
    packed: tuple[str, ...]
    samples_share: float


def choose_queries(packer: Packer, *, room: int, most: int | None = None) -> Chosen:
    """Choose the queries with the most samples that fit into ``room`` bytes, at most ``most`` queries."""
    indices: list[int] = []
    packed: list[str] = []
    n_misses: int = 0
    is_large = int(packer.sizes.sum()) > LARGE_RUN
    for index in packer.by_samples.tolist():
        if n_misses == MOST_MISSES or len(indices) == most:
            break
        if is_large and packer.sizes[index] > MOST_QUERY_SIZE:
            continue
        text = to_json(packer.pack(index))  # numbers only, so a character is a byte
        if len(text) > room:
            n_misses += 1
            continue
        room -= len(text) + 1  # and a comma
        indices.append(index)
        packed.append(text)
    chosen = np.array(indices, np.int64)
    total = int(packer.samples.sum())
    return Chosen(chosen, tuple(packed), int(packer.samples[chosen].sum()) / total if total else 0.0)


def gather_page(automaton: Automaton, packer: Packer, chosen: Chosen, about: Mapping[str, Any]) -> str:
    """The JSON of a page: ``about`` the run, the rules of predictions, the tokens, and the chosen queries."""
    hidden = np.delete(packer.queries, chosen.indices)
    vocabulary = automaton.vocabulary
    coverage = automaton.coverage.to_dict()
    numbers = ("query", "size", "tokens")  # the page already has the texts, truncated if very long
    largest = [{name: query[name] for name in numbers} for query in coverage["largest"]]
    record = {
        **about,
        "tie": HARD_TIE,
        "rules": {rule.name: rule.value for rule in Rule},
        "n_tokens": automaton.n_tokens,
        "tokenizer": None if vocabulary is None else vocabulary.tokenizer,
        "coverage": {**coverage, "largest": largest},
        "note": automaton.coverage.note,
        "n_shown": len(chosen.indices),
        "samples_share": chosen.samples_share,
        "hidden": differences(hidden),
        "fields": FIELDS,
    }
    # the queries are JSON already, so they are put in by hand before the last brace
    return (
        to_json(record)[:-1]
        + f',"tokens":{_tokens_json(automaton, packer, chosen)},"queries":[{",".join(chosen.packed)}]}}'
    )


def measure_tokens(automaton: Automaton) -> int:
    """The bytes of the whole vocabulary in a page, or the limit if only a part of it fits."""
    if automaton.vocabulary is None:
        return 0
    return min(len(to_json(_shown_texts(automaton.vocabulary)).encode()), MOST_TOKEN_BYTES)


def _shown_texts(vocabulary: Vocabulary) -> list[str]:
    return [text if len(text) <= LONGEST_TYPED else cut_long(text) for text in vocabulary.tokens]


def _tokens_json(automaton: Automaton, packer: Packer, chosen: Chosen) -> str:
    # all texts, if they fit; otherwise those of the tokens in the chosen queries, as many as fit, and ids for
    # the rest
    vocabulary = automaton.vocabulary
    if vocabulary is None:
        return "null"
    names = _shown_texts(vocabulary)
    if len(to_json(names).encode()) <= MOST_TOKEN_BYTES:
        return to_json({"ids": None, "texts": names})
    ids = np.unique(
        np.concatenate([np.empty(0, np.int32), *(packer.graph(index).tokens for index in chosen.indices)])
    )
    texts: list[str] = []
    room = MOST_TOKEN_BYTES
    for token in map(int, ids):
        n_bytes = len(to_json(names[token]).encode()) + 8  # with a comma, and its entry in ids
        fits = n_bytes <= room
        room -= n_bytes if fits else 0
        texts.append(names[token] if fits else f"#{token}")
    return to_json({"ids": differences(ids), "texts": texts})
