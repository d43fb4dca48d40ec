"""``attomaton learn --writes``, and the commands that answer by such a run."""

import json

from tests.cli.inside import run_inside

TEXT = "the cat sat on the mat and the dog sat on the log\na dog and a cat sat and the cat ran to the dog\n"


def test_a_head_that_writes_is_learned_and_asked(tmp_path):
    (tmp_path / "story.txt").write_text(TEXT)
    learned = run_inside(
        "learn", "story.txt", "--window", "6", "--writes", "successor", "--out", "run", cwd=tmp_path
    )
    assert learned.returncode == 0, learned.stderr
    assert "label in the context " in learned.stdout
    assert "realisable (a context token writes the label)" in learned.stdout
    told = run_inside("explain", "run", "a dog and a", "--json", cwd=tmp_path)
    answer = json.loads(told.stdout)
    assert sum(probability for _, probability in answer["written"]) > 0.999
    quiet = run_inside("explain", "run", "a dog and a", "--quiet", cwd=tmp_path)
    assert quiet.stdout.strip() in [token for token, _ in answer["written"]]
    assert "Written" in run_inside("explain", "run", "a dog and a", cwd=tmp_path).stdout
    scored = json.loads(run_inside("score", "run", "story.txt", "--json", cwd=tmp_path).stdout)
    assert scored["n_samples"] > 0
    written = run_inside("generate", "run", "a dog", "-n", "4", "--json", cwd=tmp_path)
    assert len(json.loads(written.stdout)["tokens"]) == 4


def test_a_map_is_read_from_a_file(tmp_path):
    (tmp_path / "story.txt").write_text(TEXT)
    (tmp_path / "map.json").write_text('{"cat": "sat", "dog": "sat"}')
    learned = run_inside("learn", "story.txt", "--writes", "map.json", "--json", cwd=tmp_path)
    assert json.loads(learned.stdout)["settling"]["settled"]
    for text in ("[1]", "{", '{"cat": 1.5}'):
        (tmp_path / "bad.json").write_text(text)
        refused = run_inside("learn", "story.txt", "--writes", "bad.json", cwd=tmp_path)
        assert refused.returncode == 2
        assert "tokens to tokens" in refused.stderr
    assert "nor a file that can be read" in " ".join(
        run_inside("learn", "story.txt", "--writes", "successors", cwd=tmp_path).stderr.split()
    )


def test_what_such_a_run_cannot_answer_is_refused(tmp_path):
    (tmp_path / "story.txt").write_text(TEXT)
    options = ("--writes", "identity+successor", "--out", "run", "--quiet")
    run_inside("learn", "story.txt", *options, cwd=tmp_path)
    steps = ("--step", "10", "--learned-from", "story.txt")
    for command in (("score", "run", "story.txt", *steps), ("export", "run", "--csv", "out")):
        refused = run_inside(*command, cwd=tmp_path)
        assert refused.returncode == 2
        told = " ".join(refused.stderr.split())
        assert "a run of --writes" in told or "learn_writing" in told
