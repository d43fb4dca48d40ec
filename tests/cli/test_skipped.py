"""What ``--skip-bad`` leaves out is counted: on stderr, in JSON, in manifests, and as a warning in Python."""

import json

import pytest
import typer

import attomaton as at
from attomaton.base.errors import SkippedDocuments
from attomaton.cli import app
from attomaton.corpora.readers import Reading
from tests.cli.inside import run_inside
from tests.relabelling import relabel

SENTENCE = "1 document was skipped; the first: broken.jsonl, line 2, is not JSON"
ARGUMENTS = {
    "learn": ["broken.jsonl", "--window", "3"],
    "learn-duckdb": ["broken.jsonl", "--window", "3", "--engine", "duckdb", "--memory", "1GB"],
    "learn-writes": ["broken.jsonl", "--window", "3", "--writes", "successor"],
    "begin": ["broken.jsonl", "--window", "2"],
    "begin-duckdb": ["broken.jsonl", "--window", "2", "--engine", "duckdb", "--memory", "1GB"],
    "score": ["run", "broken.jsonl"],
    "scan-snap": ["broken.jsonl", "--window", "3"],
    "train": ["broken.jsonl", "--window", "3", "--steps", "5"],
    "tokenize": ["broken.jsonl"],
    "diff": ["run", "broken.jsonl"],
    "generate": ["whole", "to be", "-n", "1", "--step", "10", "--learned-from", "broken.jsonl"],
}
WRITES = {name: "training/" if name == "train" else "" for name in ARGUMENTS}
for _name in ("score", "diff", "generate"):
    del WRITES[_name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("skipping")
    good = json.dumps({"text": "to be or not to be or to do be to be"})
    (place / "broken.jsonl").write_text(f'{good}\n{{"text": "or not\n{good}\n', encoding="utf-8")
    (place / "good.jsonl").write_text(f"{good}\n", encoding="utf-8")
    at.learn(place / "good.jsonl", window=3, out=place / "run")
    at.learn([json.loads(good)["text"]] * 2, window=3, out=place / "whole")
    return place


def test_every_command_that_skips_is_tried_here():
    commands = typer.main.get_command(app).commands
    able = {name for name, one in commands.items() if any("--skip-bad" in of.opts for of in one.params)}
    assert able == {name.partition("-d")[0].partition("-w")[0] for name in ARGUMENTS} | {"choices", "heads"}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_commands_count_what_they_skip(name, folder, tmp_path):
    command = ["scan-snap"] if name == "scan-snap" else [name.partition("-")[0]]
    command += [*ARGUMENTS[name], "--skip-bad"]
    out = ["--out", tmp_path / "out"] if name in WRITES else []
    told = run_inside(*command, *out, "--json", cwd=folder)
    assert told.returncode == 0, told.stderr
    assert f"Warning: {SENTENCE}" in told.stderr
    record = json.loads(told.stdout)
    assert (record["skipped"], record["first_skipped"].partition(" (")[0]) == (1, SENTENCE.partition(": ")[2])
    if name in WRITES:
        manifest = json.loads((tmp_path / "out" / WRITES[name] / "manifest.json").read_text("utf-8"))
        assert manifest.get("input", manifest)["skipped"]["count"] == 1


def test_what_was_skipped_as_it_was_tokenised_is_counted_by_those_who_read_the_tokens(folder, tmp_path):
    run_inside("tokenize", "broken.jsonl", "--skip-bad", "--out", tmp_path / "tokens", cwd=folder)
    told = run_inside("learn", tmp_path / "tokens", "--out", tmp_path / "run", "--json", cwd=folder)
    assert json.loads(told.stdout)["skipped"] == 1
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))
    assert manifest["input"]["skipped"]["count"] == 1


def test_quiet_commands_say_it_once_and_others_nothing_where_nothing_is_skipped(folder):
    told = run_inside("learn", "good.jsonl", "--skip-bad", "--json", cwd=folder)
    assert SENTENCE not in told.stderr
    assert (
        run_inside("learn", "broken.jsonl", "--skip-bad", "--quiet", cwd=folder).stderr.count(SENTENCE) == 1
    )
    record = json.loads(told.stdout)
    assert (record["skipped"], record["first_skipped"]) == (0, None)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_python_warns_and_results_hold_the_count(engine, folder, tmp_path):
    file, reading = folder / "broken.jsonl", Reading(skip_bad=True)
    with pytest.warns(SkippedDocuments, match="1 document was skipped") as told:
        at.learn(
            file,
            window=3,
            reading=reading,
            engine=at.engines.Engine(engine, memory="1GB"),
            out=tmp_path / "run",
        )
    assert (told[0].message.count, told[0].message.first.count("line 2")) == (1, 1)
    with pytest.warns(SkippedDocuments):
        begun = at.begin(file, window=2, reading=reading, engine=at.engines.Engine(engine, memory="1GB"))
    begun.save(tmp_path / "begun")
    assert at.Beginning.load(tmp_path / "begun").skipped.count == begun.skipped.count == 1
    with pytest.warns(SkippedDocuments):
        at.learn_decoder(file, reading=reading, engine=at.engines.Engine(engine, memory="1GB"))


def test_samples_keep_the_count_of_their_corpus(folder):
    documents = at.read_corpus(folder / "broken.jsonl", reading=Reading(skip_bad=True))
    samples = documents.windows(window=2)
    again = relabel(samples.take([0, 1]), list(range(samples.n_tokens))) + samples
    assert (samples.skipped.count, again.skipped.count) == (1, 2)
