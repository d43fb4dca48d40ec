"""``attomaton heads``: the audit of a model on disk."""

import json
import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from tests.cli.inside import run_inside
from tests.heads.audit.small import write_model, write_steps

PLAIN = [
    "heads",
    "model",
    "story.jsonl",
    "--window",
    "8",
    "--length",
    "12",
    "--random",
    "1",
    "--causal",
    "all",
    "--theory",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("heads")
    write_model(place)
    write_steps(place)
    return place


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A run of attomaton with its words, trained for forty steps."""
    place = tmp_path_factory.mktemp("own")
    for command in (
        ["example", "story.txt"],
        ["learn", "story.txt", "--documents", "line", "--window", "8", "--out", "run"],
        ["train", "story.txt", "--documents", "line", "--window", "8", "--steps", "40", "--out", "run"],
    ):
        assert run_inside(*command, "--quiet", cwd=place).returncode == 0
    return place


def test_a_table_a_file_and_a_figure(folder):
    ended = run_inside(*PLAIN, "--out", "heads.parquet", "--figure", "heads.png", cwd=folder, COLUMNS="80")
    assert ended.returncode == 0, ended.stderr
    assert "Explained share of attention" in ended.stdout
    table = pq.read_table(folder / "heads.parquet")
    assert table["head"].to_pylist() == ["0.0", "0.1"]
    assert {"explained_shrink", "alone_bigram", "pattern_rise", "ablation_rise"} <= set(table.column_names)
    assert (folder / "heads.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads(run_inside(*PLAIN, "--json", cwd=folder).stdout)
    assert [row["head"] for row in told["rows"]] == ["0.0", "0.1"]
    assert told["out"] is None


def test_one_head_is_shown_with_every_rung(folder):
    ended = run_inside(*PLAIN, "--show", "L0H1", "--examples", "2", cwd=folder, COLUMNS="160")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("Document") == 2
    assert "automaton" in ended.stdout


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--show", "first"], "such as 4.0 or L4H0"),
        (["--show", "3.0"], "there is no head 3.0"),
        (["--show", "0.0", "--figure", "one.pdf"], "leave --show out"),
        (["--figure", "heads.gif"], "end the name in .pdf"),
    ],
)
def test_wrong_asking_is_one_sentence(folder, asked, said):
    ended = run_inside(*PLAIN, *asked, cwd=folder)
    assert ended.returncode == 2
    assert said in ended.stderr


def test_text_without_a_tokenizer_is_refused(folder):
    (folder / "words.txt").write_text("to be or not to be " * 20)
    ended = run_inside("heads", "model", "words.txt", cwd=folder)
    assert ended.returncode == 2
    assert "the model has no tokenizer" in ended.stderr
    assert "give the model's tokenizer by --tokenizer" in ended.stderr


@pytest.mark.parametrize("corpus", ["words.txt", "story.jsonl", "nowhere.txt"])
@pytest.mark.parametrize("models", [["/nosuch"], ["steps/checkpoint-3", "steps/checkpoint-4"]])
def test_a_missing_model_is_named_and_not_its_tokenizer(folder, models, corpus):
    (folder / "words.txt").write_text("to be or not to be " * 20)
    ended = run_inside("heads", *models, corpus, cwd=folder)
    assert ended.returncode == 2
    assert models[-1] in ended.stderr
    assert "does not exist" in ended.stderr or "there is no file or folder" in ended.stderr


def test_a_checkpoint_that_is_served_twice_is_named(folder):
    copied = folder / "steps" / "checkpoint-200"
    shutil.copytree(folder / "steps" / "checkpoint-100", copied)
    ended = run_inside(*PLAIN[:1], "steps/checkpoint-100", "steps/checkpoint-200", *PLAIN[2:], cwd=folder)
    shutil.rmtree(copied)
    assert ended.returncode == 0, ended.stderr
    assert "Warning: steps/checkpoint-100 (step 100) and steps/checkpoint-200" in ended.stderr


def test_files_of_others_are_kept(folder):
    (folder / "mine.parquet").write_text("mine")
    ended = run_inside(*PLAIN, "--out", "mine.parquet", cwd=folder)
    assert ended.returncode == 2
    assert (folder / "mine.parquet").read_text() == "mine"


COURSE = [*PLAIN[2:], "--random", "0"]


def test_the_null_is_said(folder):
    ended = run_inside(*PLAIN, cwd=folder, COLUMNS="160")
    assert ended.returncode == 0, ended.stderr
    assert "1 draw of random heads" in ended.stdout


@pytest.mark.slow  # audits several checkpoints
def test_heads_over_training(folder):
    asked = ["heads", *(f"steps/checkpoint-{step}" for step in (100, 20, 3)), *COURSE]
    written = ["--out", "course.parquet", "--figure", "course.png"]
    ended = run_inside(*asked, *written, cwd=folder, COLUMNS="120")
    assert ended.returncode == 0, ended.stderr
    assert "HeadCourse(2 heads at 3 steps, 3 to 100)" in ended.stdout
    assert "own mean pattern | mean output" in ended.stdout
    table = pq.read_table(folder / "course.parquet")
    assert table["step"].to_pylist() == [3, 3, 20, 20, 100, 100]
    assert (folder / "course.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads(run_inside("heads", "steps/checkpoint-*", *COURSE, "--json", cwd=folder).stdout)
    assert [row["step"] for row in told["rows"]] == [3, 3, 20, 20, 100, 100]  # a glob in quotes
    assert told["model"] == "steps/checkpoint-100"
    alone = json.loads(run_inside("heads", "steps/checkpoint-100", *COURSE, "--json", cwd=folder).stdout)
    last = [
        {name: row[name] for name in one} for row, one in zip(told["rows"][4:], alone["rows"], strict=True)
    ]
    assert last == alone["rows"]
    two = run_inside(
        "heads", "steps/*", *COURSE, "--steps", "2", "--quiet", "--out", "two.parquet", cwd=folder
    )
    assert (two.returncode, two.stdout) == (0, "")
    assert pq.read_table(folder / "two.parquet")["step"].to_pylist() == [3, 3, 100, 100]


@pytest.mark.parametrize(
    ("models", "said"),
    [
        (["steps/checkpoint-3", "model"], "model is not named after a step"),
        (["steps/none-*"], "no file or folder matches steps/none-*"),
        (["steps/checkpoint-3", "steps/checkpoint-3"], "both at step 3"),
        (["steps/checkpoint-3", "other/checkpoint-5"], "the tokenizers of"),
        (["steps/checkpoint-3", "steps/checkpoint-20", "--revision", "main"], "one model of the hub"),
    ],
)
def test_models_that_are_no_training(folder, models, said):
    other = folder / "other" / "checkpoint-5"
    shutil.copytree(folder / "steps" / "checkpoint-20", other, dirs_exist_ok=True)
    (other / "tokenizer.json").write_text("{}")
    (folder / "steps" / "checkpoint-3" / "tokenizer.json").write_text("{ }")
    ended = run_inside("heads", *models, *COURSE, cwd=folder)
    (folder / "steps" / "checkpoint-3" / "tokenizer.json").unlink()
    assert ended.returncode == 2
    assert said in " ".join(ended.stderr.split())


def test_a_run_of_attomaton_is_read_with_its_own_words(own):
    asked = ["story.txt", "--documents", "line", "--window", "6", "--random", "2", "--json"]
    alone = json.loads(run_inside("heads", "run", *asked, cwd=own).stdout)
    assert alone["model"] == "AttentionModel, trial 0 at step 40"
    course = json.loads(run_inside("heads", "run", *asked, "--steps", "3", cwd=own).stdout)
    assert [row["step"] for row in course["rows"]] == [0, 20, 40]
    files = [f"run/training/checkpoints/{step:012}.safetensors" for step in (40, 20)]
    kept = json.loads(run_inside("heads", *files, *asked, cwd=own).stdout)
    assert kept["rows"] == course["rows"][1:]
    assert alone["rows"] == [{name: row[name] for name in alone["rows"][0]} for row in kept["rows"][1:]]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--figure", "heads.gif"], "end the name in .pdf, .png or .svg"),
        (["--show", "0.0", "--figure", "heads.png"], "leave --show out"),
        (["--out", "notes.txt"], "notes.txt"),
        (["--out", "heads.csv"], "end its name in .parquet"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_any_work(asked, said, tmp_path):
    (tmp_path / "notes.txt").write_text("my notes on PAR1", encoding="utf-8")
    done = run_inside("heads", "no-such-model", "no-such-corpus", *asked, cwd=tmp_path)
    assert said in " ".join(done.stderr.split())
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "my notes on PAR1"


def test_without_torch_the_command_says_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['torch'] = None; sys.argv = ['attomaton', 'heads', 'model', 'corpus']; "
        "from attomaton.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode
    assert "pip install 'attomaton[" in done.stderr
    assert "Traceback" not in done.stderr


COMMITS = {"step10": "a" * 40, "step2": "b" * 40}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub that has two steps of a model, each with the same tokenizer."""
    from types import SimpleNamespace

    from tests.heads import made

    for commit in COMMITS.values():
        made.write(tmp_path / commit, "gpt2", vocab_size=300, n_layer=1, n_head=2)
    write_tokenizer(tmp_path)

    class Api:
        def model_info(self, _, *, revision):
            return SimpleNamespace(sha=COMMITS.get(revision))

        def list_repo_files(self, _, *, revision):
            return [file.name for file in (tmp_path / revision).iterdir()]

    def download(_, name, *, revision):
        return str(tmp_path / revision / name)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=Api, hf_hub_download=download))
    return tmp_path


def write_tokenizer(place):
    from tests.heads.made_gguf import learn_tokens

    for commit in COMMITS.values():
        learn_tokens(300).save(str(place / commit / "tokenizer.json"))


SERIES = ["--window", "4", "--random", "0", "--documents", "line"]


def test_revisions_of_a_hub_model_are_a_series_with_its_tokenizer(hub):
    text = "\n".join(f"Once upon a time there's {n} girl{'s' * (n % 3)} and a dog." for n in range(40))
    (hub / "text.txt").write_text(text)
    revisions = [word for name in COMMITS for word in ("--revision", name)]
    ended = run_inside("heads", "owner/name", "text.txt", *revisions, *SERIES, "--json", cwd=hub)
    assert ended.returncode == 0, ended.stderr
    rows = json.loads(ended.stdout)["rows"]
    assert sorted({row["step"] for row in rows}) == [2, 10]
    assert "their weights are probably the same" in ended.stderr
    ended = run_inside("heads", "owner/name", "text.txt", "--revision", "step2", *SERIES, cwd=hub)
    assert ended.returncode == 0, ended.stderr
    (hub / COMMITS["step2"] / "tokenizer.json").write_text('{"other": 1}')
    ended = run_inside("heads", "owner/name", "text.txt", *revisions, *SERIES, cwd=hub)
    assert ended.returncode == 2
    assert "the tokenizers of owner/name@step2 and owner/name@step10 differ" in ended.stderr


def test_a_gguf_file_brings_its_tokenizer(tmp_path):
    gguf = pytest.importorskip("gguf")
    assert gguf
    from tests.heads import made
    from tests.heads.reading import test_gguf

    test_gguf.write(
        tmp_path / "model.gguf",
        "llama",
        made.make("llama", vocab_size=300),
        tokenizer=test_gguf.learn_tokens(300),
    )
    text = "\n".join(f"Once upon a time there's {n} girl{'s' * (n % 3)} and a dog." for n in range(40))
    (tmp_path / "text.txt").write_text(text)
    ended = run_inside("heads", "model.gguf", "text.txt", *SERIES, "--show", "1.3", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "query Ġ" in ended.stdout


@pytest.fixture(scope="module")
def deeper(tmp_path_factory):
    """A model of three layers and its text, as ids."""
    import numpy as np

    from tests.heads import made

    place = tmp_path_factory.mktemp("deeper")
    made.write(place / "model", "llama", vocab_size=12, num_hidden_layers=3)
    rng = np.random.default_rng(0)
    lines = (json.dumps({"text": rng.integers(0, 12, 24).tolist()}) + "\n" for _ in range(24))
    (place / "story.jsonl").write_text("".join(lines))
    return place


def test_ctrl_c_leaves_a_table_and_the_same_command_goes_on(deeper, monkeypatch):
    from attomaton.heads import HeadAudit
    from attomaton.heads.audit import heads

    command = ["heads", "model", "story.jsonl", "--window", "8", "--quiet", "--out"]
    assert run_inside(*command, "whole.parquet", cwd=deeper).returncode == 0
    whole, measure, count = HeadAudit.load(deeper / "whole.parquet"), heads.measure_layer, iter(range(9))

    def stop(*args, **options):
        if next(count) == 2:
            raise KeyboardInterrupt
        return measure(*args, **options)

    monkeypatch.setattr(heads, "measure_layer", stop)
    ended = run_inside(*command, "heads.parquet", cwd=deeper)
    assert ended.returncode == 130
    assert "heads.parquet contains the finished layers: HeadAudit(16 heads of 2 of 3 layers" in ended.stderr
    assert "To resume, run: attomaton heads model story.jsonl" in ended.stderr
    partial = HeadAudit.load(deeper / "heads.parquet")
    assert (partial.layers, partial.n_layers) == ([0, 1], 3)
    assert (deeper / "heads.parquet.partial").is_dir()
    ended = run_inside(*command, "heads.parquet", "--seed", "1", cwd=deeper)
    assert ended.returncode == 2
    assert "layers of another audit" in " ".join(ended.stderr.split())
    assert run_inside(*command, "heads.parquet", cwd=deeper).returncode == 0
    assert next(count) == 4  # the layers 0 and 1, 2, and 2 again
    assert HeadAudit.load(deeper / "heads.parquet").table().equals(whole.table())
    assert not (deeper / "heads.parquet.partial").exists()
    monkeypatch.setattr(heads, "measure_layer", interrupt)
    ended = run_inside(*command, "heads.parquet", cwd=deeper)
    assert "heads.parquet still contains the earlier audit" in ended.stderr
    assert HeadAudit.load(deeper / "heads.parquet").table().equals(whole.table())


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_finished_layers_that_another_process_writes_are_left_alone(deeper):
    from attomaton.base.artifacts.ownership import locked

    with locked(deeper / "shared.parquet.partial", deeper):
        options = ("--window", "8", "--out", "shared.parquet")
        ended = run_inside("heads", "model", "story.jsonl", *options, cwd=deeper)
    assert ended.returncode == 2
    assert "shared.parquet.partial is being written by" in ended.stderr


@pytest.mark.slow  # starts processes
def test_a_killed_audit_goes_on(deeper):
    import time

    from attomaton.heads import HeadAudit

    command = ["heads", "model", "story.jsonl", "--window", "8", "--quiet", "--out"]
    assert run_inside(*command, "whole.parquet", cwd=deeper).returncode == 0
    code = "import sys; from attomaton.cli import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code, *command, "killed.parquet"], cwd=deeper)
    first = deeper / "killed.parquet.partial" / "layer-0000.parquet"
    while process.poll() is None and not first.exists():
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert first.exists() or (deeper / "killed.parquet").exists()
    assert run_inside(*command, "killed.parquet", cwd=deeper).returncode == 0
    tables = [HeadAudit.load(deeper / f"{name}.parquet").table() for name in ("whole", "killed")]
    assert tables[0].equals(tables[1])
    assert not (deeper / "killed.parquet.partial").exists()


def test_some_heads_on_some_documents(folder):
    chosen = ["--heads", "L0H1", "--limit", "22", "--json"]
    answer = json.loads(run_inside(*PLAIN, *chosen, cwd=folder).stdout)
    assert [answer[name] for name in ("layers", "heads", "limit")] == [None, ["0.1"], 22]
    assert [row["head"] for row in answer["rows"]] == ["0.1"]
    answer = json.loads(run_inside(*PLAIN, "--layers", "0-0", "--json", cwd=folder).stdout)
    assert [answer[name] for name in ("layers", "heads", "limit")] == [[0], None, None]
    assert [row["head"] for row in answer["rows"]] == ["0.0", "0.1"]


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (["--layers", "first"], "'first' is not a layer or a range"),
        (["--layers", "2-1"], "'2-1' is not a layer"),
        (["--layers", "0,1"], "layers is 1"),
        (["--heads", "0.1,0"], "--heads: '0' is not a head"),
        (["--heads", "0.1", "--layers", "0"], "give one of them"),
        (["--show", "0.1", "--layers", "0"], "leave --layers and --heads out"),
    ],
)
def test_a_wrong_choice_of_heads_is_one_sentence(folder, chosen, words):
    ended = run_inside(*PLAIN, *chosen, cwd=folder)
    assert ended.returncode == 2
    assert words in ended.stderr
