"""An automaton as a card for notebooks: what it knows, how well it is proven, and what to ask it."""

import numpy as np

from attomaton.automaton.runs.coverage import Coverage
from attomaton.base.display import (
    SHOWN,
    Cell,
    Html,
    render_card,
    render_code,
    render_facts,
    render_note,
    render_status,
    render_table,
    shorten,
)
from attomaton.base.tables import column
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.vocabulary import name_token
from attomaton.graphs.evidence import count_evidence
from attomaton.solvers.solved import Solved


def render_automaton(solved: Solved, coverage: Coverage, vocabulary: Vocabulary | None) -> Html:
    """The card of the automaton that these parts make."""
    tokens = f"{solved.n_tokens:,}" + ("" if vocabulary is None else f" ({vocabulary.tokenizer})")
    rows = _largest_queries(solved, vocabulary)
    headers = ["query", "samples", "components", "retrieved first"]
    return render_card(
        "Automaton",
        *(
            render_status(
                one.status.name.lower(), f"{side} side: {one.certificate}", good=one.certificate.certified
            )
            for side, one in (("hard", solved.hard), ("soft", solved.soft))
        ),
        render_facts([("tokens", tokens), *coverage.facts]),
        *([render_note(coverage.note)] if coverage.note else []),
        render_table(
            headers, rows, title="Queries with the most samples", n_rows=len(solved.components.queries)
        ),
        render_code(*_next_steps(solved, vocabulary)),
    )


def _largest_queries(solved: Solved, vocabulary: Vocabulary | None) -> list[list[Cell]]:
    """The queries with the most samples: name, samples, components, and the tokens of the highest score."""
    components, read = solved.components, solved.components.edges.queries
    samples, queries = column(read, "realisable"), column(read, "query")
    rows: list[list[Cell]] = []
    shown = np.argsort(-samples, kind="stable")[:SHOWN]
    evidence = count_evidence(components, queries[shown])
    for place in shown:
        query = int(queries[place])
        first, last = np.searchsorted(components.query_of_node, [query, query + 1])
        if first == last:
            continue
        scores = column(solved.hard.scores, "score")[first:last]
        top = np.flatnonzero(scores == scores.max())
        best = components.token_of_node[first:last][
            top[np.argsort(-evidence[first:last][top], kind="stable")]
        ]
        number = len(np.unique(components.component_of_node[first:last]))
        named = " ".join(shorten(name_token(vocabulary, int(token)), 20) for token in best[:5])
        rest = f" and {len(best) - 5:,} more" if len(best) > 5 else ""
        rows.append([shorten(name_token(vocabulary, query)), int(samples[place]), number, named + rest])
    return rows


def _next_steps(solved: Solved, vocabulary: Vocabulary | None) -> list[str]:
    """Calls that work: a context of the best supported edge."""
    edges = solved.components.edges
    if not len(edges):
        return ["auto.coverage"]
    row = int(np.argmax(edges["support"]))
    ids = [int(edges[name][row]) for name in ("winner", "loser", "query")]
    asked = ids if vocabulary is None else [name_token(vocabulary, token) for token in ids]
    context = repr(asked) if len(repr(asked)) < 80 else repr(ids)
    return [f"auto.show({context})", f"auto.explain({context})"]
