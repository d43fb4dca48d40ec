"""What notebooks show: well-formed, escaped, without anything to run, and small whatever the value's size."""

import re
import time
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.base.printing import Bar, Bars, Chip, Chips, Grid, Listing, Signal, draw_html, shorten
from attomaton.base.tables import make_table
from attomaton.claims.verdicts import Judgement, Verdict, Verdicts, VerdictStatus
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.graphs.components import NODE_SCHEMA, ORDER_SCHEMA, Components
from attomaton.graphs.edges import EDGE_SCHEMA, QUERY_SCHEMA, EdgeTable

HOSTILE = (
    "</script><script>alert(1)</script>",
    "\"' onmouseover='alert(1)",
    "\u202eevil\u2066",
    "😀",
    "שלום",
    "x" * 10_000,
    "&lt;b&gt;",
    "<img src=x onerror=alert(1)>",
)
ALLOWED = {"div", "span", "b", "bdi", "br", "code", "table", "thead", "tbody", "tr", "th", "td"}


class Read(HTMLParser):
    """The text of a piece of HTML, if every element is allowed, closed, and has a style and nothing else."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.cells = [], "", []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert tag in ALLOWED
        assert {name for name, _ in attributes} <= {"style"}
        style = dict(attributes).get("style", "")
        assert re.fullmatch(r"[\w\s:;,.%#()-]*", style), style
        assert not re.search(r"url|expression|var\(|position", style)
        if tag != "br":
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if "td" in self.open:
            self.cells[-1] += data


def hostile_automaton():
    samples = at.Samples.from_lists(
        [[0, 1, 7], [1, 0, 7], [2, 0, 7], [3, 4, 5, 6, 7]], [0, 1, 2, 3], n_tokens=8
    )
    comps = at.find_components(at.extract_edges(samples))
    vocabulary = Vocabulary(HOSTILE, "word")
    return at.Automaton(comps, at.solve_graph_svm(comps), at.solve_luce(samples, comps), vocabulary)


@given(st.text(), st.text(), st.floats(-2, 2))
def test_any_text_is_shown_as_text(one, other, share):
    bar, signal = Bar(share, one), Signal(other, good=False)
    html = draw_html(
        [
            one,
            signal,
            Grid(one, ["", ""], [(one, signal), (other, bar)]),
            Grid(other, [one, other], [[other, 1], [one, 2]]),
            Listing([one, "item"], [[other, one]]),
            Bars([(one, bar)]),
            Chips([Chip(one, 0.5, other), Chip(other)], before=one),
        ]
    )
    first, second = (shorten(text, 600) for text in (one, other))
    facts, table = [first, second, second, f" {first}"], [second, "1", first, "2"]
    read = Read(html)
    assert read.cells == [*facts, *table, second, first, first, f" {first}"]
    assert read.text.startswith(first + second + first)
    assert read.text.endswith(f"{first} {shorten(one)}{second}{shorten(other)}")


@pytest.mark.parametrize("token", HOSTILE)
def test_hostile_tokens_in_what_is_shown(token):
    auto = hostile_automaton()
    query = HOSTILE[7]
    shown = auto.show([token, query])._repr_html_()
    for html in (shown, auto._repr_html_()):
        read = Read(html)
        assert "<script" not in html.lower()
        assert "\u202e" not in html
        assert len(html) < 20_000
        if html == shown:
            assert shorten(token) in read.text
    assert "xxx… (10,000 characters)" in Read(auto.show([HOSTILE[5], query])._repr_html_()).text
    assert "\\u202eevil\\u2066" in repr(auto.show([HOSTILE[2], query]))


def test_the_order_of_what_stands_around_a_token_is_kept():
    html = hostile_automaton().show([3, 4, 7])._repr_html_()
    assert "→ <bdi>שלום</bdi> ×1" in html
    assert "<bdi>שלום</bdi>: <bdi>ש&lt;ש</bdi>" in draw_html(["שלום: ש<ש"])


def test_an_automaton_says_how_large_and_how_sure():
    auto = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 2]], [0, 1, 1], n_tokens=4))
    read = Read(auto._repr_html_())
    assert read.text.startswith("Automaton(1 query, 2 components, 4 tokens)Coverage")
    facts = dict(zip(read.cells[::2], read.cells[1::2], strict=False))
    assert facts["samples read"] == "3"
    assert facts["realisable (label in the context)"].strip() == "100.0%"
    assert facts["hard side (which component wins)"].startswith("certified, gap")
    assert read.cells[-3:] == ["2", "2", "1 0"]


def test_an_automaton_that_learned_nothing_says_so():
    with pytest.warns(at.base.errors.NothingRealisable):
        auto = at.learn(at.Samples.from_lists([[0, 1], [1, 2]], [2, 0]))
    assert "This theory does not apply" in Read(auto._repr_html_()).text


def test_solutions_say_first_whether_they_are_certified():
    auto = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1]))
    for solution in (auto.hard, auto.soft):
        html = solution._repr_html_()
        read = Read(html)
        assert read.text.startswith(f"{type(solution).__name__}(3 scores, certified: {solution.certificate}")
        assert "#009E73" in html
        assert read.cells[-3:] == ["2", "2", f"{solution.scores.column('score')[-1].as_py():.6g}"]
    assert "#D55E00" in draw_html([Signal("uncertified", good=False)])


def test_edges_components_coverage_fits_and_expansions():
    samples = at.Samples.from_lists([[0, 1, 2]] * 1000 + [[1, 0, 2]], [0] * 1000 + [1])
    auto = at.learn(samples)
    read = Read(auto.components.edges._repr_html_())
    assert "1,001 samples" in read.text
    assert read.cells[:4] == ["2", "0", "1", "1000"]
    assert Read(auto.components._repr_html_()).cells == ["2", "0", "0", "2", "1", "0", "2", "2", "1"]
    assert "100.0%" in Read(auto.coverage._repr_html_()).text
    assert "ln t" in Read(at.expand(auto, samples)._repr_html_()).text
    fit = at.fit_choices(["<b>", "coffee", "<b>"], [["<b>", "coffee"]] * 2 + [["<b>", "water"]])
    read = Read(fit._repr_html_())
    assert read.cells[:7] == ["1", "1–3", "<b>", "+0.000", "0.707", "-1.386 to +1.386", "3"]
    assert read.cells[-7:-4] == ["3", "1–3", "water"]
    assert read.cells[-3:] == ["-", "-", "1"]


def test_verdicts_are_a_list_and_failures_are_marked():
    holds, fails = (Judgement(1.0, 2.0, enough, "<b>").about("direction") for enough in (True, False))
    silent = Verdict("finite part", VerdictStatus.NOT_APPLICABLE, None, None, "no tie")
    verdicts = Verdicts([silent, holds, fails])
    assert verdicts == [silent, holds, fails]
    assert isinstance(verdicts, list)
    html = verdicts._repr_html_()
    read = Read(html)
    assert read.text.startswith("1 holds, 1 fails, 1 not judged (1 does not apply here)")
    assert read.cells[3:] == [
        "direction",
        "holds",
        "1 (bound 2): <b>",
        "direction",
        "fails",
        "1 (bound 2): <b>",
    ]
    assert html.count("#D55E00") == 2  # the summary, and the claim that fails
    assert "1 holds" in Read(Verdicts([holds])._repr_html_()).text
    assert Read(Verdicts()._repr_html_())


def test_a_long_table_is_cut_and_numbers_stand_at_the_right():
    html = draw_html([Grid("", ["token", "score"], [["a", f"{number:,}"] for number in range(1_000)])])
    read = Read(html)
    assert read.text.endswith("and 800 more rows")
    assert html.count("text-align:right") == 201
    assert read.cells[-2:] == ["a", "199"]


@pytest.mark.timing
def test_nine_million_rows_are_shown_in_milliseconds():
    size, n_tokens = 9_000_000, 30_000
    rows = np.arange(size)
    query, token = (rows // 3_000).astype(np.int32), (rows % 3_000).astype(np.int32)
    whole = {"query": query, "winner": token, "loser": token + 1, "support": rows + 1}
    table = make_table(EDGE_SCHEMA, whole)
    pieces = pa.concat_tables([table.slice(0, size // 2), table.slice(size // 2)])
    counted = {name: np.arange(3_000) for name in QUERY_SCHEMA.names}
    edges = EdgeTable(pieces, make_table(QUERY_SCHEMA, counted), n_tokens)
    nodes = make_table(NODE_SCHEMA, {"query": query, "token": token, "component": rows})
    comps = Components(edges, nodes, ORDER_SCHEMA.empty_table())
    repr(comps)  # counts its components, once
    for value in (edges, comps):
        began = time.perf_counter()
        html = value._repr_html_()
        assert time.perf_counter() - began < 0.1
        assert "and 8,999,992 more rows" in Read(html).text
        assert len(html) < 20_000
        assert html.count("<tr") == 9
