"""What Java and Spark say as they start goes to a log, not on stderr."""

import os
import subprocess
from types import SimpleNamespace

import pytest

from attomaton.base.errors import MissingExtra
from attomaton.engines import sparksession


class Builder:
    """Starts something that writes on stderr, as Java does, and then perhaps fails."""

    def __init__(self, failure=None):
        self._failure = failure

    def __getattr__(self, _):
        return lambda *_, **__: self

    def getOrCreate(self):
        subprocess.run(["sh", "-c", "echo WARNING: Using incubator modules >&2"], check=True)
        os.write(2, b"Setting default log level\n")
        if self._failure is not None:
            raise self._failure
        return SimpleNamespace(sparkContext=SimpleNamespace(environment={}))


@pytest.fixture
def start(monkeypatch):
    """Start a session with a builder."""

    def begin(builder):
        session = SimpleNamespace(builder=builder, getActiveSession=lambda: None)
        sql = SimpleNamespace(SparkSession=session, utils=SimpleNamespace(PySparkRuntimeError=RuntimeError))
        found = SimpleNamespace(sql=sql, __file__="/pyspark/__init__.py")
        monkeypatch.setattr(sparksession, "import_spark", lambda: found)
        monkeypatch.setattr(sparksession, "LOGS", [])
        return sparksession.open_session(None, 1, "1GB")

    return begin


def test_nothing_is_on_stderr_and_all_of_it_in_the_log(start, capfd):
    start(Builder())
    os.write(2, b"afterwards\n")
    assert capfd.readouterr().err == "afterwards\n"
    [log] = sparksession.LOGS
    assert log.read_text() == "WARNING: Using incubator modules\nSetting default log level\n"
    sparksession._remove_logs()
    assert not log.exists()


def test_if_java_does_not_start_the_error_says_what_it_said(start, capfd):
    with pytest.raises(MissingExtra, match=r"Java did not start \(no port WARNING: Using incubator"):
        start(Builder(RuntimeError("no port")))
    assert capfd.readouterr().err == ""
    sparksession._remove_logs()
