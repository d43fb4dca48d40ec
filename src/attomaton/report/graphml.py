"""Write the priority graphs of a run as one GraphML file for networkx and Gephi."""

# `write_graphml` writes a graph, which gives its nodes and its edges in batches of columns of text, and
# `_write_rows` joins the columns to lines of XML with Arrow.

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from xml.sax.saxutils import escape

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.runs.nodes import Outline
from attomaton.base.artifacts import begins_with, explained, write_target
from attomaton.base.ragged import offsets_of, ranges_of
from attomaton.base.tables import Bool, Int64, column
from attomaton.report.export import (
    ROWS_AT_A_TIME,
    TokenTexts,
    as_text,
    escape_text,
    join_columns,
    join_rows,
    scan_queries,
)

LABEL_TOKENS = 5  # tokens in the label of a component
SIGNATURE = "<!-- written by attomaton -->"
XML_HEAD = f"""<?xml version="1.0" encoding="UTF-8"?>
{SIGNATURE}
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">
"""
# Whether a file was written here, so that a new one may replace it.
is_graphml = begins_with(SIGNATURE.encode())

# Attribute → its type; all others are strings.
ATTRIBUTE_TYPES = {
    **dict.fromkeys(("edges", "support", "component"), "long"),
    **dict.fromkeys(("size", "height", "query_id", "token_id"), "int"),
    **dict.fromkeys(("hard", "soft"), "double"),
}

XmlColumns = Mapping[str, Any]
# For each batch of nodes or edges: the inside of their tags, as texts and columns of text, such as [' id="c',
# numbers, '"'], and their data by name, as columns of text.
XmlBatches = Generator[tuple[list[Any], XmlColumns]]


@dataclass
class GraphCounts:
    """The numbers of written ``nodes`` and ``edges``."""

    nodes: int = 0
    edges: int = 0


def write_graphml(
    automaton: Automaton, path: Path, queries: Bool, *, nodes: str = "components"
) -> GraphCounts:
    """Write the priority graphs of some queries as one directed graph in GraphML.

    Parameters
    ----------
    automaton : Automaton
        The automaton whose graphs are written.
    path : Path
        The file to write. An earlier GraphML file of attomaton is replaced.
    queries : array of bool, shape (n_tokens,)
        Which queries to write.
    nodes : str
        With ``"components"``, nodes are components, and an edge leads from a component to one that it
        precedes. With ``"tokens"``, nodes are tokens under a query, and an edge leads from winner to loser.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_graphml(at.learn(["a rose is a rose"]), Path(folder, "graphs.graphml"), np.ones(3, bool))
    GraphCounts(nodes=6, edges=4)
    """
    texts = TokenTexts(automaton, lambda text: escape(escape_text(text)))
    graph = {"components": _ComponentGraph, "tokens": _TokenGraph}[nodes](automaton, texts, queries)
    counts = GraphCounts()

    def write(draft: Path) -> None:
        declared = _declare_attributes("node", graph.nodes) + _declare_attributes("edge", graph.edges)
        with draft.open("wb") as file:
            file.write((XML_HEAD + declared).encode())
            file.write(b'<graph id="priorities" edgedefault="directed">\n')
            counts.nodes = _write_rows(file, "node", graph.nodes())
            counts.edges = _write_rows(file, "edge", graph.edges())
            file.write(b"</graph>\n</graphml>\n")

    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_target(path, write, is_ours=is_graphml)
    return counts


class _Graph:
    """The graph of some queries of an automaton; a subclass decides what its nodes and edges are."""

    def __init__(self, automaton: Automaton, texts: TokenTexts, queries: Bool) -> None:
        self._automaton = automaton
        self._texts = texts
        self._queries = queries

    def _rows(self, table: str) -> Iterator[dict[str, Any]]:
        # the columns of a table of the automaton, batch by batch, for the wanted queries
        for rows in scan_queries(self._automaton, table, self._queries):
            yield {name: column(rows, name) for name in rows.column_names}


class _ComponentGraph(_Graph):
    """A graph whose nodes are components and whose edges are the pairs of their order."""

    def nodes(self) -> XmlBatches:
        for _, outline in self._automaton.outlines(np.flatnonzero(self._queries)):
            yield from self._nodes_of(outline)

    def edges(self) -> XmlBatches:
        for rows in self._rows("order"):
            above, below = as_text(rows["above"]), as_text(rows["below"])
            ends = [' source="c', above, '" target="c', below, '"']
            yield ends, {name: as_text(rows[name]) for name in ("edges", "support")}

    # The members of component c are rows[offsets[c] : offsets[c + 1]], which are indices of nodes;
    # `starts` are the same offsets for the components of a batch alone, so into `tokens`.
    def _nodes_of(self, outline: Outline) -> XmlBatches:
        components = outline.components
        offsets, rows = components.members
        for start in range(0, max(len(components), 1), ROWS_AT_A_TIME):
            batch = np.arange(start, min(start + ROWS_AT_A_TIME, len(components)))
            numbers = batch[self._queries[components.query_of[batch]]]
            sizes = components.sizes[numbers]
            starts = offsets_of(sizes)
            tokens = components.token_of_node[rows[ranges_of(offsets[numbers], sizes)]]
            query = components.query_of[numbers]
            yield (
                [' id="c', as_text(outline.number[numbers]), '"'],
                {
                    "label": self._labels(starts, tokens),
                    "query": self._texts.of(query),
                    "query_id": as_text(query),
                    "tokens": self._texts.lists(starts, tokens),
                    "size": as_text(sizes),
                    "height": as_text(components.heights[numbers]),
                    "hard": as_text(outline.hard[rows[offsets[numbers]]]),  # equal for all members
                },
            )

    def _labels(self, offsets: Int64, tokens: Any) -> Any:
        # the first tokens of each component, and "…" if it has more; its tokens are between two offsets
        sizes = np.diff(offsets)
        n_shown = np.minimum(sizes, LABEL_TOKENS)
        first_tokens = tokens[ranges_of(offsets[:-1], n_shown)]
        shown = join_rows(offsets_of(n_shown), self._texts.of(first_tokens), " ")
        return join_columns(shown, as_text(np.where(sizes > LABEL_TOKENS, " …", "")))


class _TokenGraph(_Graph):
    """A graph whose nodes are tokens under a query and whose edges are data edges."""

    def nodes(self) -> XmlBatches:
        for rows in self._rows("nodes"):
            query, token = rows["query"], rows["token"]
            yield (
                [' id="q', as_text(query), "t", as_text(token), '"'],
                {
                    "label": self._texts.of(token),
                    "query": self._texts.of(query),
                    "query_id": as_text(query),
                    "token_id": as_text(token),
                    **{name: as_text(rows[name]) for name in ("component", "hard", "soft")},
                },
            )

    def edges(self) -> XmlBatches:
        for rows in self._rows("edges"):
            query, winner, loser = (as_text(rows[name]) for name in ("query", "winner", "loser"))
            ends = [' source="q', query, "t", winner, '" target="q', query, "t", loser, '"']
            yield ends, {"support": as_text(rows["support"])}


def _declare_attributes(kind: str, batches: Callable[[], XmlBatches]) -> str:
    # the keys of GraphML for the data of nodes or edges, whose names are those of the first batch
    _, columns = next(batches())
    return "".join(
        f'<key id="{kind}_{name}" for="{kind}" attr.name="{name}" '
        f'attr.type="{ATTRIBUTE_TYPES.get(name, "string")}"/>\n'
        for name in columns
    )


def _write_rows(file: IO[bytes], kind: str, batches: XmlBatches) -> int:
    # write each node or edge as a line, and return their number
    written = 0
    for tag, columns in batches:
        texts: list[Any] = [f"<{kind}", *tag, ">"]
        for name, values in columns.items():
            texts += [f'<data key="{kind}_{name}">', values, "</data>"]
        lines = join_columns(*texts, f"</{kind}>\n")
        if len(lines):
            # Arrow has the texts of a column one after the other in a buffer, which is written as it is
            _, ends, data = lines.buffers()
            length = int(np.frombuffer(ends, np.int64)[len(lines)])
            file.write(memoryview(data)[:length])
            written += len(lines)
    return written
