"""The page of an audit in a real browser: what is clicked is shown, and nothing in it can do harm."""

import numpy as np
import pytest

from attomaton.base.pages import embed_page
from attomaton.heads.audit.ladder import name_column
from attomaton.heads.audit.page import render_audit, write_audit
from tests.e2e.browser import Opened, chromium, find_serious
from tests.heads.audit.drawn_audit import RUNGS, TYPES, draw_audit

HOSTILE = (
    "</script><script>document.title='broken'</script>",
    "\"quoted'&amp;<b>",
    "<img/src=x/onerror=alert(1)>",
    "שלום\u202eabc",
    "👩‍🚀",
    "x" * 10_000,
    "--><!--",
    "\u2028line",
    "__proto__",
    "",
    " ",
    "\n",
    "\x00\x07",
)


@pytest.fixture(scope="module")
def browser():
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("heads")


@pytest.fixture(scope="module")
def drawn(folder):
    """A page of 270 heads, and its table."""
    table, about = draw_audit(30, 9)
    return table.to_pylist(), write_audit(table, about, folder / "drawn.html")


@pytest.fixture
def opened(browser, drawn):
    one = Opened(browser.new_page(viewport={"width": 1400, "height": 900}), drawn[1])
    yield one
    assert one.wrong == []
    one.page.close()


def listed(page):
    """The heads of the list, in order."""
    return [
        int(one)
        for one in page.eval_on_selector_all("#list tr[data-head]", "all => all.map(one => one.dataset.head)")
    ]


def test_a_click_on_a_head_shows_its_ladder_and_contexts(opened, drawn):
    page, rows = opened.page, drawn[0]
    for head in (0, 158, 269):
        page.click(f'#map [data-head="{head}"]')
        row = rows[head]
        assert page.inner_text("#panel h2") == f"L{row['layer']}H{row['number']} head {row['head']}"
        assert row["type"] in page.inner_text("#panel .named")
        assert row["type_reason"] in page.inner_text("#panel")
        shares = np.diff([row[name_column("explained", name)] for name in RUNGS], prepend=0.0)
        cells = page.locator("#panel .ladder tbody tr").all_inner_texts()
        assert len(cells) == len(RUNGS) + 2
        for name, share, cell in zip(RUNGS, shares, cells, strict=False):
            assert cell.split("\t")[0] == name
            assert abs(float(cell.split("\t")[2]) - share) < 2e-3
        assert cells[-1].split("\t")[0] == "contextual"
        assert abs(float(cells[-1].split("\t")[2]) - row["contextual"]) < 1e-3
        for at, context in enumerate(row["contexts"]):
            words = page.locator("#panel .context").nth(at).locator(".word")
            shown = [one.replace("␣", " ").replace("⏎", "\n") for one in words.all_inner_texts()]
            assert shown == [context["opening"], "…", *context["tokens"], context["label"]]
            assert words.locator("xpath=self::*[contains(@class, 'query')]").count() == 1
            title = words.nth(0).get_attribute("title")
            assert title.startswith(f"{100 * context['first'] / 255:.1f}\u00a0%")


def test_the_darkest_token_has_the_most_attention(opened, drawn):
    page = opened.page
    page.click('#map [data-head="7"]')
    shades = page.eval_on_selector_all(
        "#panel .context:first-of-type .word", "all => all.map(one => one.style.background)"
    )
    darkness = [-sum(map(int, one[4:-1].split(","))) for one in shades[2:-1]]
    assert np.argmax(darkness) == np.argmax(drawn[0][7]["contexts"][0]["attention"])


def test_the_map_is_coloured_by_what_is_chosen(opened, drawn):
    page, rows = opened.page, drawn[0]

    def colours():
        return page.eval_on_selector_all("#map .cell", "all => all.map(one => one.style.background)")

    of_type = {}
    for row, colour in zip(rows, colours(), strict=True):
        assert of_type.setdefault(row["type"], colour) == colour
    assert len(set(of_type.values())) == len(of_type) == len(TYPES)
    for name in (
        "explained by named rungs",
        "explainable by pairs",
        "contextual",
        "attention on the first token",
    ):
        page.select_option("#measure", label=name)
        assert colours() != list(of_type.values())
        assert page.locator(".scale").count() == 1
    page.select_option("#measure", label="contextual")
    shades = [sum(map(int, one[4:-1].split(","))) for one in colours()]
    order = np.argsort([row["contextual"] for row in rows])
    assert (np.diff(np.array(shades)[order]) <= 0).all()  # the larger the share, the darker
    for name in ("next-token seeking, z", *RUNGS):
        page.select_option("#measure", label=name)
    page.hover('#map [data-head="50"]')
    tip = page.inner_text("#tip")
    assert "L5H5 · 5.5" in tip
    assert rows[50]["type"] in tip
    assert f"z {rows[50]['seeking_z']:+.1f}".replace("-", "−") in tip


def test_the_list_is_filtered_and_sorted(opened, drawn):
    page, rows = opened.page, drawn[0]
    names = [row["type"] for row in rows]
    rarest = min(set(names), key=names.count)
    assert rows[listed(page)[0]]["type"] == rarest
    page.click(f'#legend button:has-text("{rarest}")')
    shares = [rows[head]["type_share"] for head in listed(page)]
    assert len(shares) == names.count(rarest)
    assert shares == sorted(shares, reverse=True)
    assert page.locator("#map .cell.faint").count() == len(rows) - len(shares)
    page.click(f'#legend button:has-text("{rarest}")')
    page.click("#list thead button:has-text('share')")
    shares = [round(rows[head]["type_share"], 4) for head in listed(page)]
    assert shares == sorted((round(row["type_share"], 4) for row in rows), reverse=True)[:200]
    page.click("text=Show all 270")
    assert len(listed(page)) == 270
    for asked in ("17.5", "L17H5", "l17h5"):
        page.fill("#search", asked)
        assert listed(page) == [17 * 9 + 5]
    page.fill("#search", "layer 17")
    assert sorted(listed(page)) == list(range(153, 162))
    page.click("#list tr[data-head]")
    assert page.inner_text("#panel h2").startswith("L17H")


def test_everything_is_reached_by_keyboard(opened):
    page = opened.page
    page.focus("#map .cell[tabindex='0']")
    start = int(page.evaluate("document.activeElement.dataset.head"))
    page.click('#map [data-head="100"]')
    for key, head in (("ArrowRight", 101), ("ArrowDown", 110), ("ArrowLeft", 109), ("ArrowUp", 100)):
        page.keyboard.press(key)
        assert int(page.evaluate("document.activeElement.dataset.head")) == head
        assert page.is_visible("#tip")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.inner_text("#panel h2").startswith("L12H1")
    assert start != 109
    page.focus("#legend button")
    page.keyboard.press("Space")
    assert page.locator("#legend button").first.get_attribute("aria-pressed") == "true"
    page.wait_for_selector("#legend :focus")
    page.focus("#list tbody button")
    page.keyboard.press("Enter")
    assert page.locator("#list tr.chosen").count() == 1


def test_hostile_texts_are_text(browser, folder):
    table, about = draw_audit(2, 3, words=HOSTILE, rungs=(HOSTILE[0], HOSTILE[3], "a"), model=HOSTILE[2])
    for name in ("type", "type_reason"):
        texts = [HOSTILE[at] for at in (0, 1, 2, 3, 8, 5)]
        table = table.set_column(table.column_names.index(name), name, [texts])
    path = write_audit(table, about, folder / "hostile.html")
    assert path.stat().st_size < 200_000  # long tokens are cut
    opened = Opened(browser.new_page(viewport={"width": 400, "height": 800}), path)
    page = opened.page
    shown = ""
    for head in range(6):
        page.click(f'#map [data-head="{head}"]')
        shown += page.inner_text("body")
    assert page.title() == "Attention heads"
    assert page.locator("script").count() == 2
    assert page.locator("img").count() == 0
    assert "</script><script>document" in shown
    assert "\u202e" not in shown
    assert "\\u{202e}" in shown
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert opened.wrong == []
    page.close()


@pytest.mark.parametrize("options", [{"types": False}, {"contexts": 0}, {"types": False, "contexts": 0}])
def test_a_table_may_lack_types_or_contexts(browser, folder, options):
    opened = Opened(browser.new_page(), write_audit(*draw_audit(2, 3, **options), folder / "bare.html"))
    opened.page.click('#map [data-head="4"]')
    assert opened.page.inner_text("#panel h2").startswith("L1H1")
    assert opened.page.locator("#panel .context").count() == options.get("contexts", 3)
    assert opened.wrong == []
    opened.page.close()


@pytest.mark.parametrize("size", [(30, 9), (32, 32)])
@pytest.mark.parametrize("width", [1400, 400])
def test_a_large_model_opens_within_a_second_and_fits(browser, folder, size, width):
    path = write_audit(*draw_audit(*size), folder / "large.html")
    page = browser.new_page(viewport={"width": width, "height": 900})
    metrics = page.context.new_cdp_session(page)
    metrics.send("Performance.enable")
    opened = Opened(page, path)
    seconds = {one["name"]: one["value"] for one in metrics.send("Performance.getMetrics")["metrics"]}
    assert seconds["ThreadTime"] < 1.0  # of the processor: others may run beside the test
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#map .cell").count() == size[0] * size[1]
    box = page.locator("#map").bounding_box()
    assert box["x"] + box["width"] <= width
    assert opened.wrong == []
    page.close()


def test_a_notebook_shows_the_page_in_a_frame(browser, folder):
    path = folder / "notebook.html"
    page_text = render_audit(*draw_audit(4, 4, words=HOSTILE))
    path.write_text(f"<!doctype html><title>notebook</title>{embed_page(page_text, height=700)}", "utf-8")
    opened = Opened(browser.new_page(), path)
    frame = opened.page.frame_locator("iframe")
    frame.locator('.cell[data-head="9"]').click()
    assert frame.locator("#panel h2").inner_text().startswith("L2H1")
    assert opened.page.title() == "notebook"
    assert [one for one in opened.wrong if one != "about:srcdoc"] == []
    opened.page.close()


@pytest.mark.slow  # fetches axe from npm
@pytest.mark.parametrize("width", [1400, 400])
def test_no_serious_finding_of_axe(browser, drawn, axe, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(drawn[1].as_uri())
    for name in ("type", "contextual", "next-token seeking, z"):
        page.select_option("#measure", label=name)
        assert find_serious(page, axe) == []
    page.close()
