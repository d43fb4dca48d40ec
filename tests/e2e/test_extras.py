"""Each extra: what it adds works where nothing else is installed, and without it the error says how.

The long tests make a fresh environment each and install the wheel with one extra, as a user would.
"""

import json
import re
import tomllib

import pytest

from tests.e2e.environments import ROOT, TORCH, Environment

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
NO_FEATURE = {"docs", "dev", "all", "heads", "gguf"}
"""For work on attomaton, several of the others at once, or (gguf) of use only beside train."""

TRACKERS = {"tensorboard", "wandb", "trackio"}
"""Not in ``all``: one of them is chosen, with an account of its own or none."""

SAMPLES = """
import attomaton as at
samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [3, 0, 2]], labels=[0, 1, 0], n_tokens=4)
"""
TOKENIZER = """
from pathlib import Path
import attomaton as at
Path("tokenizer.json").write_text(
    '{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,'
    ' "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,'
    ' "model": {"type": "WordLevel", "vocab": {"?": 0, "a": 1, "b": 2}, "unk_token": "?"}}'
)
corpus = at.read_corpus(["a b c a"], tokenizer="tokenizer.json")
"""
TRACKER = """
import numpy as np
from attomaton.training.callbacks import Trackio, WandB
with {tracker} as tracker:
    tracker(0, np.array([1.0, 3.0]))
    tracker(1, np.array([0.5, 2.5]))
"""
OTHERS = "import clarabel, cvxpy, highspy, piqp, scs"
CATCH = """except ImportError as error:
    from attomaton.base.errors import MissingExtra
    if not isinstance(error, MissingExtra):
        raise
    print(error)"""
FEATURES = {
    "train": f"""{SAMPLES}
trace = at.train(samples, at.AttentionModel(), at.GradientDescent(1.0), steps=3)
print(trace.losses[-1, 0] < trace.losses[0, 0])
""",
    "tensorboard": f"""{SAMPLES}
import warnings
from pathlib import Path
train, model, step = at.train, at.AttentionModel(), at.GradientDescent(1.0)
from attomaton.training.callbacks import TensorBoard
from attomaton.training.loop import Watch
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TensorBoard's own
    with TensorBoard("events") as tracker:
        train(samples, model, step, steps=3, watch=Watch([tracker]))
print(any(file.stat().st_size > 0 for file in Path("events").glob("events.out.*")))
""",
    "wandb": TRACKER.format(tracker="WandB('attention', {'mode': 'offline', 'dir': '.'})")
    + "\nfrom pathlib import Path\nprint(any(Path('wandb').glob('offline-run-*/*.wandb')))",
    "trackio": TRACKER.format(tracker="Trackio('attention')")
    + "\nfrom pathlib import Path\nprint(any(Path('kept').rglob('*attention*')))",
    "sklearn": """
import attomaton as at
fitted = at.AttentionLimit().fit([[0, 1, 2], [1, 0, 2], [3, 0, 2]], [0, 1, 0])
print(fitted.predict_proba([[1, 0, 2]]).round(6).tolist() == [[0.5, 0.5]])
""",
    "duckdb": """
import attomaton as at
at.tokenize_corpus(["a b a b c a b", "b a c b a"], "shards")
disk, memory = (at.learn("shards", window=4, engine=engine) for engine in ("duckdb", "memory"))
print(disk.hard.scores.equals(memory.hard.scores))
""",
    "spark": """
import attomaton as at
at.tokenize_corpus(["a b a b c a b", "b a c b a"], "shards")
spark, memory = (at.learn("shards", window=4, engine=engine) for engine in ("spark", "memory"))
print(spark.hard.scores.equals(memory.hard.scores))
""",
    "hf": TOKENIZER + "print(corpus.vocabulary.encode('a b').tolist() == [1, 2])",
    "remote": """
import attomaton as at
from attomaton.base.remote import RemotePath
RemotePath("s3://bucket/a").system()
RemotePath("memory://texts/a.txt").write_bytes(b"a b a b")
print(at.read_corpus("memory://texts/a.txt").ids.tolist() == [0, 1, 0, 1])
""",
    "report": """
from pathlib import Path
from attomaton.report.figures import Line, LinePanel, draw_line_panels
draw_line_panels([LinePanel("loss", [Line("", [0, 1, 2], [1, 1, 1], 0)])], Path("figure"), caption="A figure")
print(Path("figure.pdf").read_bytes().startswith(b"%PDF"))
""",
    "frames": """
import attomaton as at
fit = at.fit_choices(["a", "b"], losers=["b", "a"])
print(fit.to_pandas().shape == fit.to_polars().shape)
""",
    "formulas": """
import attomaton as at
fit = at.check_separation("y ~ x", {"x": [1.0, 2.0, 3.0, 4.0], "y": [0, 1, 0, 1]})
print(fit.exists)
""",
    "bench": f"""{SAMPLES}
{OTHERS}
from attomaton.solvers.hard.reference import Reference
components = at.find_components(at.extract_edges(samples))
hard = at.solve_graph_svm(components, rtol=1e-8, solver=Reference()).expect()
print(hard.certificate.certified)
""",
}


def test_every_extra_has_its_feature():
    assert set(FEATURES) == set(EXTRAS) - NO_FEATURE


def test_all_gathers_every_extra_of_a_user():
    assert gather("all") == set(EXTRAS) - TRACKERS - {"bench", "docs", "dev"}
    assert gather("heads") == {"heads", "train", "hf", "report", "gguf"}


def gather(extra):
    """An extra and those that it names, and so on."""
    named = [re.fullmatch(r"attomaton\[(.*)\]", requirement) for requirement in EXTRAS[extra]]
    inner = [name for match in named if match for name in match[1].split(",")]
    return {extra}.union(*map(gather, inner))


@pytest.mark.slow  # a second environment
@pytest.mark.parametrize("extra", FEATURES)
def test_without_its_extra_a_feature_says_what_to_install(plain, extra):
    needed = FEATURES[extra].replace(OTHERS, "")  # other people's errors are not ours
    code = "\n".join(["try:", *(f"    {line}" for line in needed.splitlines()), CATCH])
    wanted = "train" if extra == "tensorboard" else extra  # what calls the callback is missing, too
    assert f"pip install 'attomaton[{wanted}]'" in plain.python(code)


@pytest.mark.slow  # a fresh environment
@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("train", ["train", "story.txt", "--out", "trained"]),
        ("train", ["reproduce", "mechanics-global", "--out", "figures"]),
        ("hf", ["learn", "story.txt", "--tokenizer", "tokenizer.json"]),
        ("duckdb", ["learn", "story.txt", "--engine", "duckdb"]),
        ("spark", ["learn", "story.txt", "--engine", "spark"]),
    ],
)
def test_commands_say_it_in_one_line(plain, extra, command):
    plain.run("attomaton", "example", "story.txt")
    (plain.folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    result = plain.run("attomaton", *command)
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert f"pip install 'attomaton[{extra}]'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("extra", FEATURES)
def test_an_extra_alone_is_enough(wheel, tmp_path, extra):
    environment = install(wheel, tmp_path, extra)
    told = environment.python(FEATURES[extra], WANDB_SILENT="true", TRACKIO_DIR="kept", HF_HUB_OFFLINE="1")
    assert "True" in told.splitlines()  # trackers say a last word of their own
    record = json.loads(environment.run("attomaton", "doctor", "--json").stdout)
    assert next(found for found in record["extras"] if found["name"] == extra)["install"] is None


@pytest.mark.slow
def test_all_is_all_features_of_a_user(wheel, tmp_path):
    environment = install(wheel, tmp_path, "all")
    for extra in ("train", "sklearn", "hf", "report", "frames"):
        assert environment.python(FEATURES[extra]).splitlines()[-1] == "True"


@pytest.mark.slow
def test_docs_builds_the_docs(wheel, tmp_path):
    environment = install(wheel, tmp_path, "docs")
    result = environment.run(
        "mkdocs", "build", "--strict", "--quiet", "-f", ROOT / "mkdocs.yml", "--site-dir", tmp_path / "site"
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "site" / "index.html").exists()


def install(wheel, folder, extra):
    """A fresh environment with the wheel and one extra."""
    environment = Environment(folder)
    if any(name.startswith("torch") for inner in gather(extra) for name in EXTRAS[inner]):
        environment.install(TORCH)
    environment.install(f"attomaton[{extra}] @ {wheel.as_uri()}")
    return environment
