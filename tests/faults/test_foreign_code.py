"""No code from the working directory runs: not in commands, not in worker processes, not on Spark."""

import json
import sys
import textwrap

import pytest

from tests.engines.sparks import cluster_in
from tests.faults.foreign import MODULES, hostile_place, plain_place

slow = pytest.mark.slow
WORDS = "the cat sat on the mat and the dog sat on the cat near the mat " * 20


@pytest.fixture
def place(tmp_path):
    return hostile_place(tmp_path)


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(WORDS + f"word{number} " * 9)
    return folder


@pytest.mark.slow  # processes beside foreign files
def test_tokenize_in_workers(place, texts, tmp_path):
    """The smallest case of all: `attomaton tokenize --workers 2` beside a pickle.py."""
    place.assert_clean(place.attomaton("tokenize", texts, "--out", tmp_path / "out", "--workers", "2"))
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["documents"] == 3


@pytest.mark.slow  # processes beside foreign files
@pytest.mark.parametrize("options", [[], *(pytest.param([one], marks=slow) for one in ("-I", "-P", "-s"))])
def test_tokenize_under_python_s_own_options(place, texts, tmp_path, options):
    """A script of the user, elsewhere, that asks for workers."""
    script = tmp_path / "scripts" / "mine.py"
    script.parent.mkdir()
    source = str(next(path for path in sys.path if path and (texts / path / "attomaton").is_dir()))
    script.write_text(
        textwrap.dedent(f"""
            import sys
            sys.path.insert(0, {source!r})
            import attomaton as at

            if __name__ == "__main__":
                at.tokenize_corpus({str(texts)!r}, {str(tmp_path / "out")!r}, workers=2)
        """)
    )
    place.assert_clean(place.run([sys.executable, *options, script]))


@pytest.mark.slow  # processes beside foreign files
def test_a_script_keeps_what_it_has_itself(place, texts, tmp_path):
    """What lies beside a script is on its path by Python's own rule, and its workers find it too."""
    script = tmp_path / "scripts" / "mine.py"
    script.parent.mkdir()
    (script.parent / "beside.py").write_text("number = 2\n")
    script.write_text(
        textwrap.dedent(f"""
            import attomaton as at
            import beside

            if __name__ == "__main__":
                at.tokenize_corpus({str(texts)!r}, {str(tmp_path / "out")!r}, workers=beside.number)
        """)
    )
    place.assert_clean(place.run([sys.executable, script]))


def test_where_python_would_not_listen(place, texts, tmp_path):
    """With -E Python ignores PYTHONSAFEPATH, so there are no workers: the error says what to do."""
    source = next(path for path in sys.path if path and (texts / path / "attomaton").is_dir())
    code = (
        f"import sys; sys.path[0] = {str(source)!r}; import attomaton as at; "
        f"at.tokenize_corpus({str(texts)!r}, {str(tmp_path / 'out')!r}, workers=2)"
    )
    script = tmp_path / "mine.py"
    script.write_text(code)
    result = place.run([sys.executable, "-E", script])
    assert "add the option -P, or use one worker" in result.stderr
    assert not place.witness.exists()


def test_the_environment_is_given_back(monkeypatch):
    import os

    from attomaton.corpora.readers.processes import SAFE_PATH, safe_path

    for before in (None, "", "1"):
        monkeypatch.delenv(SAFE_PATH, raising=False)
        if before is not None:
            monkeypatch.setenv(SAFE_PATH, before)
        with safe_path():
            assert os.environ[SAFE_PATH] == "1"
        assert os.environ.get(SAFE_PATH) == before


COMMANDS = {
    "learn": ["learn", "TEXT", "--window", "8", "--out", "OUT"],
    "learn on duckdb": ["learn", "TEXT", "--window", "8", "--engine", "duckdb", "--out", "OUT"],
    "train": ["train", "TEXT", "--window", "8", "--steps", "3", "--out", "OUT"],
    "doctor": ["doctor", "--probe"],
    "reproduce": ["reproduce", "mechanics-path", "--trials", "1", "--out", "OUT"],
    "version": ["--version"],
}


@pytest.mark.slow  # processes beside foreign files
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=slow if name in ("doctor", "reproduce") else ()) for name in COMMANDS]
)
def test_commands(place, texts, tmp_path, name):
    given = {"TEXT": texts / "0.txt", "OUT": tmp_path / "out"}
    place.assert_clean(place.attomaton(*(given.get(part, part) for part in COMMANDS[name])))


@pytest.mark.slow  # a process with another matplotlib
def test_report_with_figures(place, texts, tmp_path):
    """Its figures are the same beside a matplotlibrc that would have TeX and another backend."""
    pictures = {}
    plain = plain_place(tmp_path)
    plain.assert_clean(plain.attomaton("learn", texts / "0.txt", "--window", "8", "--out", tmp_path / "run"))
    (place.folder / "matplotlibrc").write_text(
        "backend: module://hostile\ntext.usetex: True\ntext.latex.preamble: \\input{hostile}\nfigure.dpi: 7\n"
        "axes.facecolor: red\nsavefig.facecolor: red\npath.effects: []\n"
    )
    (place.folder / "hostile.tex").write_text("\\relax\n")
    for one in (plain, place):
        folder = tmp_path / f"figures-{one.folder.name}"
        options = ["--figures", folder, "--out", tmp_path / "page.html"]
        one.assert_clean(one.attomaton("report", tmp_path / "run", *options))
        pictures[one] = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
    assert pictures[plain] == pictures[place] != {}


@pytest.mark.slow  # a process with another matplotlib
def test_a_damaged_matplotlibrc(texts, tmp_path):
    place = plain_place(tmp_path)
    place.assert_clean(place.attomaton("learn", texts / "0.txt", "--window", "8", "--out", tmp_path / "run"))
    for number, (blob, code) in enumerate([(b"\xff\xfe\x00", 2), (b"figure.dpi: [\nno.such: 1", 0)]):
        (place.folder / "matplotlibrc").write_bytes(blob)
        options = ["--figures", tmp_path / f"figures{number}", "--out", tmp_path / "page.html"]
        result = place.attomaton("report", tmp_path / "run", *options)
        assert "Traceback" not in result.stderr
        assert result.returncode == code, result.stderr


@pytest.mark.slow  # processes beside foreign files
@pytest.mark.parametrize("command", ["learn on duckdb", "train"])
def test_as_a_module(tmp_path, texts, command):
    """``python -m attomaton``, beside modules that Python has not loaded before it comes to attomaton."""
    early = ("attomaton", "warnings", "tokenize")  # by then attomaton.py is what was asked for
    place = hostile_place(tmp_path, [name for name in MODULES if name not in early])
    given = {"TEXT": texts / "0.txt", "OUT": tmp_path / "out"}
    arguments = [given.get(part, part) for part in COMMANDS[command]]
    place.assert_clean(place.run([sys.executable, "-m", "attomaton", *arguments]))


@pytest.mark.slow  # processes beside foreign files
def test_workers_as_a_module(tmp_path, texts):
    place = hostile_place(tmp_path, ["pickle", "json", "random", "numpy", "pyarrow", "multiprocessing"])
    arguments = ["tokenize", texts, "--out", tmp_path / "out", "--workers", "2"]
    place.assert_clean(place.run([sys.executable, "-m", "attomaton", *arguments]))


@pytest.mark.slow  # processes beside foreign files
def test_safely_as_a_module(place, texts, tmp_path):
    """With -P nothing at all is found there."""
    arguments = ["tokenize", texts, "--out", tmp_path / "out", "--workers", "2"]
    place.assert_clean(place.run([sys.executable, "-P", "-m", "attomaton", *arguments]))


def test_other_programs_keep_their_path(tmp_path):
    """``python -m mine`` that imports attomaton still finds its neighbours."""
    place = plain_place(tmp_path)
    (place.folder / "mine").mkdir()
    (place.folder / "mine" / "__init__.py").write_text("import attomaton\n")
    (place.folder / "mine" / "__main__.py").write_text("import neighbour\n")
    (place.folder / "neighbour.py").write_text("print('found')\n")
    result = place.run([sys.executable, "-m", "mine"])
    assert result.stdout == "found\n", result.stderr


SPARK = ["learn", "TEXT", "--window", "8", "--engine", "spark", "--quiet"]


@pytest.mark.slow  # processes beside foreign files
def test_spark(place, texts):
    """The driver, Java, and Python workers, all started in that directory."""
    result = place.attomaton(*SPARK[:1], texts / "0.txt", *SPARK[2:], "--master", "local[2]")
    place.assert_clean(result)


@slow
def test_a_spark_session_of_the_user_s_own(place, texts, tmp_path):
    """The session is not ours, but the workers that run our code are."""
    script = tmp_path / "mine.py"
    script.write_text(
        textwrap.dedent(f"""
            import os, pyspark
            os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
            from pyspark.sql import SparkSession
            session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
            import attomaton as at
            print(at.learn({str(texts / "0.txt")!r}, window=8, engine="spark").coverage.n_edges)
        """)
    )
    result = place.run([sys.executable, script])
    place.assert_clean(result)
    assert int(result.stdout) > 0


@slow
def test_a_spark_cluster_started_there(place, texts, tmp_path, monkeypatch):
    """Master, workers and executors whose working directories are hostile, or lie below one."""
    monkeypatch.chdir(place.folder)
    with cluster_in(tmp_path / "cluster") as cluster:
        result = place.attomaton(*SPARK[:1], texts / "0.txt", *SPARK[2:], "--master", cluster.master)
        place.assert_clean(result)
