"""The report, in a real browser: what it shows is what Python says, and nothing in it can do harm."""

import json
import time

import numpy as np
import pytest

import attomaton as at
from attomaton.base.tables import table_of
from attomaton.claims.stored import digest_trace, write_verdicts
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.heads.audit.course import audit_course
from attomaton.heads.audit.ladder import name_column
from attomaton.heads.audit.planning import AuditSettings
from attomaton.heads.audit.saved import About, mark
from attomaton.report.page import content
from attomaton.report.page.content import choose_queries
from attomaton.report.page.packing import Packer, differences
from attomaton.report.page.write import write_report
from tests.cli.inside import run_inside
from tests.e2e.browser import Opened, chromium, find_serious
from tests.heads.audit.standin import StandIn, draw_documents

HOSTILE = (
    "</script><script>document.title='broken'</script>",
    "\"quoted'&amp;<b>",
    "<img/src=x/onerror=alert(1)>",
    "שלום‮abc",
    "👩‍🚀🏳️‍🌈",
    "x" * 10_000,
    "--><!--",
    "\u2028line",
    "__proto__",
    "constructor",
)


FIRST_PAINT = """() => new Promise(resolve => new PerformanceObserver(
    list => list.getEntriesByName("first-contentful-paint").forEach(paint => resolve(paint.startTime))
).observe({ type: "paint", buffered: true }))"""
"""In milliseconds; a function that Playwright polls is refused by the page's own security policy."""

WORDS = "ant bee cat dog elk fox gnu hen ibis jay kite lark mole newt"

ANSWER = """rows => rows.map(row => {
    const shown = row.querySelector("data");
    return [row.dataset.token, shown.value, shown.textContent];
})"""

CLICK = """selector => {
    const nodes = document.querySelectorAll(selector), begun = performance.now();
    nodes[nodes.length - 1].dispatchEvent(new MouseEvent("click", { bubbles: true }));
    document.querySelector("#graph svg").getBoundingClientRect();
    return performance.now() - begun;
}"""
"""Clicks the last of these elements; the milliseconds until the page is laid out again."""


@pytest.fixture(scope="module")
def browser():
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


def draw_corpus(seed, n_tokens=14, n_samples=60):
    """Samples whose contexts leave ties, incomparable components, unseen tokens and unknown queries."""
    rng = np.random.default_rng(seed)
    contexts = [rng.integers(0, n_tokens - 2, rng.integers(2, 6)).tolist() for _ in range(n_samples)]
    for context in contexts:
        context[-1] %= 4  # few queries, so that the last tokens have no graph
    return at.Samples.from_lists(contexts, [context[0] for context in contexts], n_tokens=n_tokens)


@pytest.fixture(scope="module")
def drawn(folder):
    """A small automaton with words, its page, and 60 contexts."""
    samples = draw_corpus(3)
    words = tuple(WORDS.split())
    solved = at.learn(samples)
    automaton = at.Automaton(solved.components, solved.hard, solved.soft, Vocabulary(words))
    automaton.save(folder / "drawn")
    write_report(folder / "drawn", folder / "drawn.html")
    rng = np.random.default_rng(4)
    contexts = [rng.integers(0, 14, rng.integers(1, 7)).tolist() for _ in range(60)]
    for context in contexts[:45]:
        context[-1] %= 4
    return automaton, folder / "drawn.html", contexts


def shown_answer(page):
    """Token id → probability as shown, and the rule."""
    rows = page.eval_on_selector_all("#answer tbody tr", ANSWER)
    return {int(token): (float(value), float(text)) for token, value, text in rows}, page.inner_text("#rule")


def test_a_typed_context_is_answered_as_python_answers_it(browser, drawn):
    automaton, path, contexts = drawn
    opened = Opened(browser.new_page(), path)
    page = opened.page
    rules = set()
    for context in contexts:
        page.fill("#context-text", " ".join(map(automaton.name, context)))
        found, rule = shown_answer(page)
        expected = automaton.predict_proba(context)
        probabilities = np.zeros(automaton.n_tokens)
        for token, (value, text) in found.items():
            probabilities[token] = value
            assert abs(value - text) <= 5.1e-7
        assert np.abs(probabilities - expected).max() <= 1e-9
        assert set(found) == set(context)
        assert rule == automaton.explain(context).rule.name.lower().replace("_", " ")
        rules.add(rule)
    assert rules == {"determined", "incomparable", "unseen ignored", "no evidence"}
    assert opened.wrong == []
    page.close()


@pytest.mark.parametrize("kind", ["ids", "embeddings", "character", "byte", "word-lower", "word-punct"])
def test_other_tokenizers_read_the_context_as_python_does(browser, folder, kind):
    text = "the bee saw the é and the 🐝 saw the bee then the é sat by the bee"
    if kind in ("ids", "embeddings"):
        table = np.random.default_rng(6).normal(size=(14, 20)) if kind == "embeddings" else None
        automaton, context = at.learn(draw_corpus(5), embeddings=table), "3 5  4 1\n2"
        asked = [3, 5, 4, 1, 2]
    else:
        (folder / f"{kind}.txt").write_text(text, encoding="utf-8")
        automaton = at.learn(str(folder / f"{kind}.txt"), tokenizer=kind, window=8)
        context = asked = "The 🐝 É" if kind.startswith("word") else "the 🐝 é"
    automaton.save(folder / kind)
    write_report(folder / kind, folder / f"{kind}.html")
    opened = Opened(browser.new_page(), folder / f"{kind}.html")
    opened.page.fill("#context-text", context)
    found, _ = shown_answer(opened.page)
    expected = automaton.predict_proba(asked)
    assert found
    assert all(abs(expected[token] - value) <= 1e-9 for token, (value, _) in found.items())
    assert abs(sum(value for value, _ in found.values()) - 1) <= 1e-9
    assert opened.wrong == []
    opened.page.close()


def test_a_query_is_picked_by_keyboard(browser, drawn):
    automaton, path, _ = drawn
    opened = Opened(browser.new_page(), path)
    page = opened.page
    page.focus("#query-search")
    page.keyboard.type("cat")
    page.keyboard.press("Enter")
    assert page.inner_text("#graph h3") == "Query cat"
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    second = automaton.components.queries[Packer(automaton).by_samples[1]]
    assert page.inner_text("#graph h3") == f"Query {automaton.name(int(second))}"
    page.focus("#graph svg [tabindex='0']")
    before = page.get_attribute("#graph .chosen", "data-component")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("#graph .chosen", "data-component") != before
    assert page.evaluate("document.activeElement.classList.contains('chosen')")
    assert opened.wrong == []
    page.close()


def test_the_graph_shows_components_ties_and_support(browser, drawn):
    automaton, path, _ = drawn
    opened = Opened(browser.new_page(), path)
    page = opened.page
    components = automaton.components
    query = int(components.queries[Packer(automaton).by_samples[0]])
    mine = np.flatnonzero(components.query_of == query)
    boxes = page.locator("#graph .box:not(.pill)")
    hidden = sum(int(text.split()[1]) for text in page.locator("#graph .pill").all_inner_texts())
    assert boxes.count() + hidden == len(mine)
    assert page.locator("#graph .box.tie").count() == (components.sizes[mine] > 1).sum()
    page.locator("#graph .box").first.click()
    assert "support" in page.inner_text("#graph .detail")
    length = page.locator("#context-text").input_value()
    page.locator("#graph .detail .chip").first.click()
    assert len(page.locator("#context-text").input_value()) > len(length)
    assert opened.wrong == []
    page.close()


def test_a_script_that_somebody_adds_does_not_run(browser, folder, drawn):
    write_report(folder / "drawn", folder / "whole.html")
    text = (folder / "whole.html").read_text(encoding="utf-8")
    added = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
    (folder / "altered.html").write_text(text.replace("</body>", f"{added}</body>"), encoding="utf-8")
    page = browser.new_page()
    page.goto((folder / "altered.html").as_uri())
    assert "owned" in page.content()
    assert page.title() == "attomaton report"
    page.close()


def test_hostile_tokens_are_text(browser, folder):
    n = len(HOSTILE)
    contexts = [[one, (one + 1) % n, (one + 2) % n, 0] for one in range(n)] + [[1, 2, 3, 4, 5]]
    solved = at.learn(at.Samples.from_lists(contexts, [context[0] for context in contexts], n_tokens=n))
    automaton = at.Automaton(solved.components, solved.hard, solved.soft, Vocabulary(HOSTILE))
    automaton.save(folder / "hostile")
    write_report(folder / "hostile", folder / "hostile.html")
    opened = Opened(browser.new_page(viewport={"width": 390, "height": 800}), folder / "hostile.html")
    page = opened.page
    assert page.title() == "attomaton report"
    assert page.locator("script").count() == 2
    assert page.locator("img, b").count() == 0
    for token in (0, 1, 2, 4, 5, 8, 9):
        page.fill("#context-text", f"{HOSTILE[token]} {HOSTILE[0]}")
        found, _ = shown_answer(page)
        expected = automaton.predict_proba([token, 0])
        assert {one: value for one, (value, _) in found.items()} == pytest.approx(
            {one: expected[one] for one in {token, 0}}, abs=1e-9
        )
        shown = page.locator(f"#answer tr[data-token='{token}'] bdi").text_content()
        assert HOSTILE[token].startswith(shown.removesuffix("…"))
    page.fill("#token-search", "של")
    assert page.locator("#context-form .chip").first.text_content() == "שלום\\u{202e}abc"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert opened.wrong == []
    page.close()


def test_an_audit_of_heads_has_a_section(browser, drawn, folder):
    _, path, _ = drawn
    plain = Opened(browser.new_page(), path)
    assert plain.page.locator("#heads, #heads-link").count() == 0  # without an audit there is none
    plain.page.close()
    models = [StandIn(n_layers=1, seed=seed) for seed in range(2)]
    course = audit_course(
        models, draw_documents(), steps=[5, 50], causal="all", settings=AuditSettings(window=6, length=10)
    )
    write_report(folder / "drawn", folder / "heads.html", heads=course.save(folder / "heads.parquet"))
    opened = Opened(browser.new_page(viewport={"width": 390, "height": 800}), folder / "heads.html")
    page, rungs = opened.page, len(course.rungs)
    headers = page.locator("#heads thead th").all_inner_texts()
    assert headers[-2:] == ["loss, own mean pattern", "loss, mean output"]
    assert headers[rungs + 1 : rungs + 4] == ["next-token excess", "z", "seeks the next token"]
    cells = page.locator("#heads tbody tr").first.locator("td").all_inner_texts()
    shown = [float(text.replace("−", "-")) for text in (*cells[:rungs], *cells[-2:])]
    worth = [one.value[0] for one in (course.audits[-1].causal.pattern, course.audits[-1].causal.ablation)]
    assert shown == pytest.approx([*course.shares[-1, :, 0], *worth], abs=6e-4)
    assert page.locator("#heads svg.bars rect").count() == 2 * rungs
    assert page.locator("#heads svg.chart path").count() == 2
    text = page.inner_text("#heads")
    assert "There are no random heads to compare with" in text
    assert "not evidence about where a head looks" in text
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert opened.wrong == []
    page.close()


def test_hostile_names_of_heads_are_text(browser, drawn, folder):
    import pyarrow.parquet as pq

    named, rungs = HOSTILE[0], HOSTILE[1:4]
    numbers = ("layer", "number", "inside", "first", "seeking_mass", "seeking_excess", "seeking_z")
    columns = {"head": [named], "seeks": [False], **{name: [0.5] for name in numbers}}
    columns |= {name_column(kind, one): [0.25] for kind in ("explained", "z") for one in rungs}
    pq.write_table(mark(table_of(columns), About(named, rungs, 3, 9, 0)), folder / "bad.parquet")
    write_report(folder / "drawn", folder / "bad.html", heads=folder / "bad.parquet")
    opened = Opened(browser.new_page(), folder / "bad.html")
    assert opened.page.title() == "attomaton report"
    assert opened.page.locator("script").count() == 2
    assert opened.page.locator("img, b").count() == 0
    assert opened.page.locator("#heads .lead bdi").text_content() == named
    assert opened.wrong == []
    opened.page.close()


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.parametrize("shape", ["star", "chain", "random"])
def test_a_graph_of_a_thousand_components_stays_quick(browser, folder, shape):
    n = 1_001
    rng = np.random.default_rng(0)
    pairs = {
        "star": [(0, loser) for loser in range(1, n)],
        "chain": [(one, one + 1) for one in range(n - 1)],
        "random": [tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(4 * n)],
    }[shape]
    samples = at.Samples.from_lists(
        [[*pair, n - 1] for pair in pairs] + [[0, 1]], [pair[0] for pair in pairs] + [0], n_tokens=n
    )
    automaton = at.learn(samples)
    assert len(automaton.components.tokens(0)) == 1
    assert len(automaton.components) >= 1_000
    automaton.save(folder / shape)
    write_report(folder / shape, folder / f"{shape}.html")
    opened = Opened(browser.new_page(), folder / f"{shape}.html")
    page = opened.page
    taken = {"choose": [], "expand": []}
    for _ in range(8):
        taken["choose"].append(page.evaluate(CLICK, "#graph .box:not(.pill)"))
        if page.locator("#graph .pill").count():
            taken["expand"].append(page.evaluate(CLICK, "#graph .pill"))
    query = page.evaluate(CLICK, "#query-list [role=option]:first-child")
    for name, times in taken.items():
        assert np.median(times) < 100, (name, times)
    assert query < 100
    assert opened.wrong == []
    page.close()


def test_colours_switch_and_follow_the_system(browser, drawn):
    _, path, _ = drawn
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.goto(path.as_uri())
        seen = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.click("#theme")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != seen
        page.close()


@pytest.mark.slow  # fetches axe from npm
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_no_serious_finding_of_axe(browser, drawn, axe, scheme, width):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(drawn[1].as_uri())
    assert find_serious(page, axe) == []
    page.close()


def test_large_runs_show_the_queries_with_most_samples(drawn):
    automaton, _, _ = drawn
    packer = Packer(automaton)
    whole = choose_queries(packer, room=10**9)
    assert len(whole.indices) == len(automaton.components.queries)
    assert whole.samples_share == 1.0
    room = sum(map(len, whole.packed[:2])) + 2
    part = choose_queries(packer, room=room)
    assert part.indices.tolist() == whole.indices[:2].tolist()
    assert choose_queries(packer, room=10**9, most=1).indices.tolist() == whole.indices[:1].tolist()


def test_a_query_left_out_is_said_to_be(browser, drawn, folder):
    automaton, _, _ = drawn
    written = write_report(folder / "drawn", folder / "part.html", most_queries=1)
    assert written.n_shown == 1
    opened = Opened(browser.new_page(), folder / "part.html")
    hidden = automaton.components.queries[Packer(automaton).by_samples[-1]]
    opened.page.fill("#context-text", f"bee {automaton.name(int(hidden))}")
    assert "is not in this page" in opened.page.inner_text("#context-answer")
    assert "holds 1 of the" in opened.page.inner_text("#summary")
    opened.page.fill("#context-text", "bee nobody")
    assert "nobody" in opened.page.inner_text(".problem")
    opened.page.close()


def test_tokens_of_a_tokenizer_file_are_added_one_by_one(browser, drawn, folder):
    solved, _, _ = drawn
    words = Vocabulary(tuple(WORDS.split()), "tokenizer.json", "{}")
    automaton = at.Automaton(solved.components, solved.hard, solved.soft, words)
    automaton.save(folder / "subwords")
    write_report(folder / "subwords", folder / "subwords.html")
    opened = Opened(browser.new_page(), folder / "subwords.html")
    page = opened.page
    assert page.locator("#context-text").count() == 0
    page.click("text=Clear")
    for word in ("fox", "hen", "hen", "cat"):
        page.fill("#token-search", word)
        page.press("#token-search", "Enter")
    found, rule = shown_answer(page)
    context = [5, 7, 7, 2]
    expected = automaton.predict_proba(context)
    assert {token: value for token, (value, _) in found.items()} == pytest.approx(
        {token: expected[token] for token in set(context)}, abs=1e-9
    )
    assert rule == automaton.explain(context).rule.name.lower().replace("_", " ")
    assert opened.wrong == []
    page.close()


def test_of_a_large_vocabulary_the_tokens_shown_are_kept(browser, drawn, folder, monkeypatch):
    automaton, _, _ = drawn
    monkeypatch.setattr(content, "MOST_TOKEN_BYTES", 70)
    write_report(folder / "drawn", folder / "few.html", most_queries=1)
    opened = Opened(browser.new_page(), folder / "few.html")
    names = json.loads(opened.page.locator("#data").text_content())["tokens"]
    packer = Packer(automaton)
    ids = packer.graph(int(packer.by_samples[0])).tokens
    assert names["ids"] == differences(ids)
    assert names["texts"][0] == automaton.name(int(ids[0]))
    assert names["texts"][-1] == f"#{ids[-1]}"  # no room for its text
    context = [int(ids[-1]), int(ids[0]), int(automaton.components.queries[packer.by_samples[0]])]
    opened.page.fill("#context-text", " ".join(names["texts"][ids.tolist().index(one)] for one in context))
    expected = automaton.predict_proba(context)
    found, _ = shown_answer(opened.page)
    assert all(abs(expected[token] - value) <= 1e-9 for token, (value, _) in found.items())
    assert set(found) == set(context)
    assert opened.wrong == []
    opened.page.close()


@pytest.mark.filterwarnings("ignore::attomaton.base.errors.NothingRealisable")
def test_a_run_without_any_query_has_a_page(browser, folder):
    at.learn(at.Samples.from_lists([[0, 1], [1, 0]], [2, 2])).save(folder / "empty")
    assert write_report(folder / "empty", folder / "empty.html").n_shown == 0
    opened = Opened(browser.new_page(), folder / "empty.html")
    assert "does not apply" in opened.page.inner_text("#summary")
    opened.page.fill("#context-text", "0 1")
    assert shown_answer(opened.page) == ({0: (0.5, 0.5), 1: (0.5, 0.5)}, "no evidence")
    assert opened.wrong == []
    opened.page.close()


def test_training_and_verdicts_are_shown(browser, folder):
    samples = at.synthetic.draw_cyclic(np.random.default_rng(1))
    at.learn(samples).save(folder / "trained")
    trace = at.train(samples, at.AttentionModel(), at.GradientDescent(1.0), steps=300, out=folder / "trained")
    reason = "<b>smallest</b> margin"
    verdict = {"claim": "feasible", "status": "holds", "value": 1.0, "bound": 1.0, "reason": reason}
    silent = {"value": None, "bound": None, "reason": "two trials"}
    early = {**silent, "claim": "finite part", "status": "too_early", "more_steps": 700}
    outside = {**silent, "claim": "convex", "status": "not_applicable"}
    judged = [verdict, early, outside]
    assert write_verdicts(folder / "trained", judged, digest_trace(folder / "trained")) == ""
    write_report(folder / "trained", folder / "trained.html")
    opened = Opened(browser.new_page(), folder / "trained.html")
    page = opened.page
    assert page.locator("#training svg").count() == 2
    assert page.locator("#training path.predicted").count() == 2
    data = json.loads(page.locator("#data").text_content())["training"]
    step, loss, norm = data["predicted"][-1]
    assert step == trace.steps[-1] == 300
    assert loss == pytest.approx(trace.losses[-1, 0], rel=1e-4)
    assert norm == pytest.approx(np.linalg.norm(trace.weights[-1, 0]), rel=1e-4)
    assert reason in page.inner_text(".verdicts")
    assert "1 holds, 2 not judged" in page.inner_text("#summary .figures")
    shown = page.inner_text("#training")
    assert "1 holds, 2 not judged: 1 needs more steps of training, 1 does not apply here." in shown
    ordered = page.inner_text("#summary")
    assert "in one line" not in ordered
    assert (
        "components that the corpus does not order" in ordered or "any two components are ordered" in ordered
    )
    assert opened.wrong == []
    page.close()


def report(*arguments, cwd):
    return run_inside("report", *arguments, cwd=cwd)


def test_the_command_writes_and_says_what(drawn, folder):
    printed = report("drawn", "--out", "made.html", "--json", cwd=folder)
    assert printed.returncode == 0, printed.stderr
    record = json.loads(printed.stdout)
    assert record["out"] == "made.html"
    assert record["bytes"] == (folder / "made.html").stat().st_size
    assert record["queries_shown"] == record["queries"] == len(drawn[0].components.queries)
    assert record["samples_share"] == 1.0
    assert report("drawn", "--out", "quiet.html", "--quiet", cwd=folder).stdout == ""
    assert (folder / "quiet.html").read_bytes() == (folder / "made.html").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "has no manifest.json"),
        (["drawn", "--out", "."], "is a folder"),
        (["drawn", "--out", "no/such/place.html"], "cannot be written"),
    ],
)
def test_errors_say_what_to_do(drawn, folder, arguments, says):
    printed = report(*arguments, cwd=folder)
    assert printed.returncode == 2
    assert says in printed.stderr
    assert "Traceback" not in printed.stderr


@pytest.mark.slow
@pytest.mark.timing
def test_wikitext_paints_within_a_second(browser, folder, wikitext):
    at.learn(str(wikitext / "valid.txt"), out=folder / "wikitext")
    written = write_report(folder / "wikitext", folder / "wikitext.html")
    assert written.n_bytes <= 5_000_000
    assert written.n_shown < written.n_queries
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        opened = Opened(browser.new_page(), folder / "wikitext.html")
        opened.page.wait_for_selector("#answer")
        times.append(time.perf_counter() - begun)
        assert opened.page.evaluate(FIRST_PAINT) < 1_000
        assert opened.wrong == []
        opened.page.close()
    assert np.median(times) < 2
