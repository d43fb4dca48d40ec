"""SIGTERM ends a real command as Ctrl-C does: it says how to resume, and the same command then goes on."""

import json
import shlex
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.inside import run_inside

PROGRAM = [sys.executable, "-c", "from attomaton.cli import main; main()"]
COMMANDS = {
    "learn": ["learn", "long.txt", "--engine", "duckdb", "--memory", "1G", "--threads", "1", "--out", "run"],
    "train": ["train", "short.txt", "--window", "8", "--dim", "64", "--steps", "1200", "--out", "run"],
    "heads": ["heads", "model", "stories.jsonl", "--tokenizer", "tok512.bin", "--out", "heads.parquet"],
    "reproduce": ["reproduce", "heads-course", "--data", "stories.jsonl", "--work", "work"],
}
STAGES = {
    "learn": "extracting edges",
    "train": "training",
    "heads": "explaining heads",
    "reproduce": "heads-course",
}


@pytest.fixture(scope="module")
def sources(stories_model, tinystories, wikitext):
    text = (wikitext / "valid.txt").read_text("utf-8")
    stories = json.loads(tinystories.read_text("utf-8"))[:100]
    texts = [story if isinstance(story, str) else story["text"] for story in stories]
    return {
        "long.txt": text,
        "longest.txt": text * 10,
        "short.txt": text[:20_000],
        "stories.jsonl": "\n".join(json.dumps({"text": text}) for text in texts),
    }, stories_model


@pytest.fixture
def folder(tmp_path, sources):
    texts, model = sources
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "model").symlink_to(model / "hf")
    (tmp_path / "tok512.bin").symlink_to(model / "tok512.bin")
    return tmp_path


def stop_in(stage, command, folder, number, after=0.5):
    """Run a command, send it a signal a while after this stage has begun, and return how it ended."""
    process = subprocess.Popen(
        [*PROGRAM, *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith(stage):
            time.sleep(after)
            process.send_signal(number)
            break
    sent = time.monotonic()
    stdout, rest = process.communicate(timeout=60)
    assert time.monotonic() - sent < 10  # after 10 s `docker stop` kills
    assert (stdout, "Traceback" in rest) == ("", False), rest
    return process.returncode, rest.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize(
    "name", ["train", "learn", *(pytest.param(n, marks=pytest.mark.slow) for n in ("heads", "reproduce"))]
)
def test_a_stopped_command_says_how_to_resume_and_does(folder, name, number):
    command = COMMANDS[name]
    code, last = stop_in(STAGES[name], command, folder, number)
    assert code == 128 + number
    before, _, advice = last.partition("To resume, run: attomaton ")
    assert before == "Stopped. "
    added = ["--resume"] if name == "train" else []
    assert shlex.split(advice) == [*command, *added]
    if name != "reproduce":  # which takes hours
        done = run_inside(*shlex.split(advice), "--quiet", cwd=folder)
        assert done.returncode == 0, done.stderr
    left = [path.name for path in folder.rglob("*") if "partial" in path.name or "lock" in path.name]
    assert not [name for name in left if "partial" in name]


@pytest.mark.parametrize("seconds", [0.0, 0.2, 0.5])
def test_a_command_that_is_stopped_as_it_starts_says_so(folder, seconds):
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "print('.', flush=True); from attomaton.cli import main; main()",
            "learn",
            "longest.txt",
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.readline()
    time.sleep(0.3 + seconds)
    process.send_signal(signal.SIGTERM)
    stderr = process.communicate(timeout=60)[1]
    assert process.returncode in (143, -15)  # -15: before attomaton was imported
    if process.returncode == 143:
        assert (stderr.splitlines()[-1], "Traceback" in stderr) == ("Stopped.", False)


def test_a_second_signal_ends_it_at_once(folder):
    code = (
        "import time, attomaton.corpora.readers.corpus as corpus\n"
        "def read(*_, **__):\n"
        "    try: time.sleep(60)\n"
        "    finally: time.sleep(60)\n"
        "corpus.read_documents_and_entry = read\n"
        "from attomaton.cli import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "scan-snap", "short.txt"], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr.readline().startswith("reading")
    for _ in range(2):
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
    assert process.wait(10) == -15
    process.stderr.close()
