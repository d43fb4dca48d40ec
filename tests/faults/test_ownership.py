"""Nothing that attomaton did not write is ever changed, whatever it is called and wherever it stands."""

import contextlib
import os
import random
import shutil
import warnings

import pytest

import attomaton as at
from attomaton.base.errors import AttomatonError
from attomaton.report.csv_tables import write_csv
from attomaton.report.export import pick_queries
from attomaton.report.graphml import write_graphml
from attomaton.report.page.write import write_report
from attomaton.theories.scansnap.law import Rates
from attomaton.theories.scansnap.survey import survey_samples
from attomaton.training.checkpoints import Store
from attomaton.training.loop import Watch
from tests.cli.inside import run_inside
from tests.faults.counts import trials
from tests.faults.strangers import look, place, scatter

TEXT = "a b a c a b c a b b a c\n" * 3


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A text, its automaton, and folders of ours of every kind."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text(TEXT)
    auto = at.learn(folder / "text.txt", window=4, out=folder / "run")
    train(auto, folder / "run", steps=2)
    at.tokenize_corpus(folder / "text.txt", folder / "tokens")
    write_csv(auto, folder / "tables", pick_queries(auto))
    survey(auto).save(folder / "survey")
    return folder, auto


def train(auto, out, steps=3, **how):
    return at.train(
        auto.samples, at.AttentionModel(), at.GradientDescent(1.0), steps=steps, out=Store(out, **how)
    )


def survey(auto):
    return survey_samples(auto.samples, Rates(decoder=1.0, attention=0.1))


def writers(made):
    """Every way to write: name → function of the place."""
    folder, auto = made
    text, chosen = folder / "text.txt", pick_queries(auto)
    return {
        "learn": lambda out: at.learn(text, window=3, out=out, overwrite=True),
        "learn duckdb": lambda out: at.learn(
            text,
            window=3,
            engine=at.engines.Engine("duckdb", threads=1, memory="1GB"),
            out=out,
            overwrite=True,
        ),
        "save": lambda out: auto.save(out, overwrite=True),
        "train": lambda out: train(auto, out, overwrite=True),
        "resume": lambda out: train(auto, out, resume=True),
        "tokenize": lambda out: at.tokenize_corpus(text, out, tokenizer="byte", overwrite=True),
        "fit": lambda out: at.fit_choices(["a", "b"], losers=["b", "a"]).save(out, overwrite=True),
        "csv": lambda out: write_csv(auto, out, chosen),
        "survey": lambda out: survey(auto).save(out),
        "graphml": lambda out: write_graphml(auto, out, chosen),
        "report": lambda out: write_report(folder / "run", out),
        "trace": lambda out: _trace(auto).save(out),
        "verify": lambda out: run_inside("verify", out, "--quiet", cwd=out if out.is_dir() else out.parent),
        "example": lambda out: run_inside("example", out, cwd=out.parent),
    }


def _trace(auto):
    return at.train(auto.samples, at.AttentionModel(), at.GradientDescent(1.0), steps=1)


def attempt(write, out):
    with contextlib.suppress(AttomatonError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(out)


@pytest.mark.slow  # campaign
def test_no_foreign_byte_is_changed_in_random_folders(made, tmp_path):
    """Strangers in the target, beside it, and inside a folder of ours that is to be replaced."""
    folder, _ = made
    ways = list(writers(made).items())
    rng = random.Random(int(os.environ.get("ATTOMATON_SEED", "0")))  # noqa: S311
    written = 0
    for number in range(trials(200)):
        here = tmp_path / str(number)
        here.mkdir()
        out = here / rng.choice(
            ["out", "out", "out.html", "out.graphml", "report.html", "training.txt", "a*", "x" * 255]
        )
        kind = rng.choice(["target", "beside", "ours"])
        if kind == "target":
            with contextlib.suppress(OSError):
                out.mkdir()
                scatter(out, rng)
        elif kind == "ours":
            shutil.copytree(folder / rng.choice(["run", "tokens", "tables", "survey"]), out)
            if rng.random() < 0.8:
                inside = rng.choice([out, *[path for path in out.rglob("*") if path.is_dir()]])
                with contextlib.suppress(FileExistsError):
                    place(
                        inside
                        / rng.choice(["notes.txt", "epoch10.safetensors", "report.docx", "novel.draft"]),
                        rng,
                    )
        with contextlib.suppress(FileExistsError):
            scatter(here, rng, most=3)
        before = look(here)
        ours = (
            look(folder / "run") | look(folder / "tokens") | look(folder / "tables") | look(folder / "survey")
        )
        name, write = rng.choice(ways)
        attempt(write, out)
        after = look(here)
        strangers = {
            path: what for path, what in before.items() if path.removeprefix(f"{out.name}/") not in ours
        }
        lost = {path for path, what in strangers.items() if path != out.name and after.get(path) != what}
        assert not lost, (number, name, kind, lost)
        written += after != before
        shutil.rmtree(here)
    assert written > trials(200) / 10  # the campaign reaches places that can be written


def test_a_corpus_named_like_a_part_of_a_run_survives(tmp_path):
    """`attomaton example training.txt; attomaton learn training.txt --out .` deleted the text."""
    assert run_inside("example", "training.txt", cwd=tmp_path).returncode == 0
    for name in ("report.docx", "order.csv", "novel.draft"):
        (tmp_path / name).write_text("mine")
    before = look(tmp_path)
    refused = run_inside("learn", "training.txt", "--window", 8, "--out", ".", cwd=tmp_path)
    assert refused.returncode == 2
    assert "contains the corpus" in refused.stderr
    assert look(tmp_path) == before
    (tmp_path.parent / "else.txt").write_text(TEXT)
    refused = run_inside("learn", "../else.txt", "--out", ".", cwd=tmp_path)
    assert (refused.returncode, "contains files" in refused.stderr) == (2, True)
    assert look(tmp_path) == before


def test_checkpoints_of_others_survive(made, tmp_path):
    """`train --out proj` deleted ``proj/training/checkpoints/epoch10.safetensors``."""
    _, auto = made
    (tmp_path / "training" / "checkpoints").mkdir(parents=True)
    (tmp_path / "training" / "checkpoints" / "epoch10.safetensors").write_bytes(b"weeks of work")
    before = look(tmp_path)
    for how in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(at.AttomatonError):
            train(auto, tmp_path, **how)
    assert look(tmp_path) == before


def test_shards_of_others_survive(made, tmp_path):
    """`tokenize --out` deleted foreign ``part-0000N-*.parquet``."""
    folder, _ = made
    (tmp_path / "part-00007-00000.parquet").write_bytes(b"not ours")
    before = look(tmp_path)
    with pytest.raises(at.AttomatonError, match="contains files"):
        at.tokenize_corpus(folder / "text.txt", tmp_path, overwrite=True)
    assert look(tmp_path) == before


def test_a_folder_that_holds_the_input_is_refused(made, tmp_path):
    folder, _ = made
    shutil.copytree(folder / "run", tmp_path / "run")
    with pytest.raises(at.AttomatonError, match=r"contains the corpus|not a run|holds"):
        at.learn(tmp_path / "run" / "edges-00000.parquet", out=tmp_path / "run", overwrite=True)
    assert look(tmp_path / "run") == look(folder / "run")


def test_a_report_does_not_replace_what_it_did_not_write(made, tmp_path):
    folder, _ = made
    (tmp_path / "report.html").write_text("<html>mine</html>")
    refused = run_inside("report", folder / "run", cwd=tmp_path)
    assert (refused.returncode, "attomaton did not write it" in refused.stderr) == (2, True)
    assert (tmp_path / "report.html").read_text() == "<html>mine</html>"
    assert run_inside("report", folder / "run", "--out", "mine.html", cwd=tmp_path).returncode == 0
    assert run_inside("report", folder / "run", "--out", "mine.html", cwd=tmp_path).returncode == 0
    before = look(folder / "run")
    refused = run_inside(
        "report", folder / "run", "--out", folder / "run" / "edges-00000.parquet", cwd=tmp_path
    )
    assert (refused.returncode, look(folder / "run")) == (2, before)


def test_learn_replaces_the_training_of_another_corpus_with_the_run(made, tmp_path):
    """`learn B --out run` kept A's training beside B."""
    folder, _ = made
    shutil.copytree(folder / "run", tmp_path / "run")
    (tmp_path / "b.txt").write_text("x y x z y x\n" * 4)
    with pytest.raises(at.AttomatonError, match="already contains a run"):
        at.learn(tmp_path / "b.txt", window=4, out=tmp_path / "run")
    assert (tmp_path / "run" / "training").exists()
    at.learn(tmp_path / "b.txt", window=4, out=tmp_path / "run", overwrite=True)
    assert not (tmp_path / "run" / "training").exists()


def test_links_and_devices_are_not_written_through(made, tmp_path):
    folder, auto = made
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "link.html").symlink_to("precious")
    (tmp_path / "lost").symlink_to("nowhere")
    for target in ("link.html", "lost", "/dev/null", "/dev/stdout"):
        refused = run_inside("report", folder / "run", "--out", target, cwd=tmp_path)
        assert (refused.returncode, "Traceback" in refused.stderr) == (2, False), target
    assert (tmp_path / "precious").read_text() == "mine"
    assert (tmp_path / "link.html").is_symlink()
    with pytest.raises(at.AttomatonError, match="a broken link"):
        auto.save(tmp_path / "lost")
    (tmp_path / "real").mkdir()
    (tmp_path / "there").symlink_to("real")
    auto.save(tmp_path / "there")  # a link to a folder is a name of that folder
    assert (tmp_path / "there").is_symlink()
    assert at.Automaton.load(tmp_path / "real").n_tokens == auto.n_tokens


def test_an_empty_folder_that_one_stands_in_is_filled(made, tmp_path):
    folder, _ = made
    with contextlib.chdir(tmp_path):
        assert run_inside("learn", folder / "text.txt", "--window", 4, "--out", ".", cwd=".").returncode == 0
        again = run_inside("learn", folder / "text.txt", "--window", 4, "--out", ".", "--overwrite", cwd=".")
        assert "it is your working directory" in again.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        path for path in look(folder / "run") if "/" not in path
    } - {"training"}


def test_standard_output_is_a_dash(made, tmp_path):
    folder, _ = made
    for command in (["report", folder / "run", "--out", "-"], ["export", folder / "run", "--graphml", "-"]):
        told = run_inside(*command, cwd=tmp_path)
        assert told.returncode == 0, told.stderr
        assert told.stdout.rstrip().endswith(("</html>", "</graphml>"))
        assert run_inside(*command, "--json", cwd=tmp_path).returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_run_inside_a_run_is_not_ours_to_remove(made, tmp_path):
    _, auto = made
    auto.save(tmp_path / "run")
    auto.save(tmp_path / "other")
    (tmp_path / "other").rename(tmp_path / "run" / "other")
    with pytest.raises(at.AttomatonError, match="did not write \\('other'\\)"):
        auto.save(tmp_path / "run", overwrite=True)
    assert at.Automaton.load(tmp_path / "run" / "other").n_tokens == auto.n_tokens


def test_a_damaged_run_with_a_training_is_not_replaced_unasked(made, tmp_path):
    folder, auto = made
    shutil.copytree(folder / "run", tmp_path / "run")
    (tmp_path / "run" / "edges-00000.parquet").unlink()
    with pytest.raises(at.AttomatonError, match="already contains a run"):
        auto.save(tmp_path / "run")
    assert (tmp_path / "run" / "training" / "trace.safetensors").exists()


def test_a_copy_with_an_unlucky_name_stays(made, tmp_path):
    folder, auto = made
    for name in ("run", "run.partial-20241105"):
        shutil.copytree(folder / "run", tmp_path / name)
    before = look(tmp_path / "run.partial-20241105")
    auto.save(tmp_path / "run", overwrite=True)
    assert look(tmp_path / "run.partial-20241105") == before


def test_notes_in_an_unfinished_training_stay(made, tmp_path):
    _, auto = made

    def stop(step, losses):
        raise KeyboardInterrupt

    settings = {"steps": 3, "watch": Watch([stop]), "out": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        at.train(auto.samples, at.AttentionModel(), at.GradientDescent(1.0), **settings)
    [partial] = (tmp_path / "run").glob("training.partial-*")
    (partial / "notes.txt").write_text("mine")
    with pytest.warns(UserWarning, match="did not write"):
        train(auto, tmp_path / "run", overwrite=True)
    assert (partial / "notes.txt").read_text() == "mine"


def test_the_lock_does_not_depend_on_where_one_stands(made, tmp_path):
    from attomaton.base.artifacts.folders import lock_target, resolve_target

    _, auto = made
    auto.save(tmp_path / "run")
    with (
        lock_target(resolve_target(tmp_path / "run")),
        contextlib.chdir(tmp_path / "run"),
        pytest.raises(at.AttomatonError, match="is being written by process"),
        lock_target(resolve_target(".")),
    ):
        pass


def test_verdicts_belong_to_the_training_that_was_judged(made, tmp_path):
    from attomaton.claims.stored import digest_trace, read_verdicts, write_verdicts

    folder, auto = made
    shutil.copytree(folder / "run", tmp_path / "run")
    judged = digest_trace(tmp_path / "run")
    train(auto, tmp_path / "run", steps=5, overwrite=True)
    assert "was replaced in the meantime" in write_verdicts(tmp_path / "run", [{"claim": "x"}], judged)
    assert read_verdicts(tmp_path / "run") == []


def test_a_corpus_folder_may_hold_the_output(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    for _ in range(2):
        done = run_inside("learn", ".", "--window", 4, "--out", "run", "--overwrite", "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    at.tokenize_corpus(tmp_path / "a.txt", tmp_path / "tokens")
    assert at.read_corpus(tmp_path).vocabulary.tokens == ("a", "b", "c", "<eos>")


def test_the_mode_of_a_folder_stays(made, tmp_path):
    _, auto = made
    auto.save(tmp_path / "run")
    (tmp_path / "run").chmod(0o2770)
    auto.save(tmp_path / "run", overwrite=True)
    assert (tmp_path / "run").stat().st_mode & 0o7777 == 0o2770
