"""Find or start a Spark session, with errors that say what is missing."""

import atexit
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attomaton.base import errors
from attomaton.base.errors import AttomatonError, MissingExtra, UnsupportedOption, UnwritablePlace, needing
from attomaton.base.machine import parse_memory
from attomaton.base.options import show
from attomaton.corpora.readers.processes import SAFE_PATH

JAVA = "Spark needs Java 17 or later: apt install openjdk-17-jre-headless, or set JAVA_HOME"
# Spark refuses to start a driver with less than 450 MiB, and Java keeps some of what it is given.
LEAST_DRIVER_MEBIBYTES = 512
# Valid values of `master`.
MASTERS = re.compile(
    r"local(\[(\*|[1-9][0-9]{0,3})(, *[0-9]{1,4})?\])?|local-cluster\[.+\]|yarn|(spark|k8s)://\S+", re.ASCII
)

LOGS: list[Path] = []  # logs of the sessions started here
SETTINGS: dict[str, Any] = {
    "spark.ui.showConsoleProgress": False,
    "spark.sql.execution.arrow.maxRecordsPerBatch": 1 << 17,
    "spark.sql.execution.arrow.maxBytesPerBatch": 1 << 26,
}


def open_session(master: str | None, threads: int | None, memory: str | int | None) -> Any:
    """The active session if it matches ``master``, or a new one."""
    if master is not None:
        check_master(master, "master")
    builder = import_spark().sql.SparkSession.builder
    running = import_spark().sql.SparkSession.getActiveSession()
    if running is not None:
        current = running.sparkContext.master
        if master not in (None, current):
            raise UnsupportedOption(f"a Spark session on {current} is already running; stop it, or use it")
        return _prepared(running)
    master = master or f"local[{threads or '*'}]"
    settings = dict(SETTINGS)
    if master.startswith("local"):
        settings["spark.ui.enabled"] = False
        # half of the memory, but at least what Spark starts with
        settings["spark.driver.memory"] = f"{max(parse_memory(memory) >> 21, LEAST_DRIVER_MEBIBYTES)}m"
        settings["spark.driver.bindAddress"] = settings["spark.driver.host"] = "127.0.0.1"
    try:
        with _own_spark(), _logging():
            return _prepared(builder.master(master).appName("attomaton").config(map=settings).getOrCreate())
    except import_spark().sql.utils.PySparkRuntimeError as error:
        log = LOGS[-1].read_text("utf-8", "replace").split("\n")[:2]
        raise MissingExtra(f"Java did not start ({' '.join([str(error), *log]).strip()}); {JAVA}") from error


def check_master(master: object, name: str) -> str:
    if not isinstance(master, str) or not MASTERS.fullmatch(master):
        raise UnsupportedOption(
            f"{name} is {show(master)}; give local[2], spark://host:7077, yarn or k8s://…"
        )
    return master


# Make Python workers use this interpreter, unless the environment says otherwise.
def _prepared(session: Any) -> Any:
    context = session.sparkContext
    if "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    # workers never import modules from the directory in which Spark or its executors were started; this is
    # sent with every task, so it also applies to existing sessions
    context.environment[SAFE_PATH] = "1"
    return session


# Start Spark from where pyspark is installed, unless SPARK_HOME says otherwise.
@contextmanager
def _own_spark() -> Generator[None]:
    if "SPARK_HOME" in os.environ:
        yield
        return
    installed = Path(str(import_spark().__file__)).resolve().parent
    downloaded = installed / "spark-distribution"
    os.environ["SPARK_HOME"] = str(downloaded if downloaded.is_dir() else installed)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


# Redirect the stderr of Java, Spark and its workers to a file, kept only if Spark fails.
@contextmanager
def _logging() -> Generator[None]:
    stderr = os.dup(2)
    log, name = tempfile.mkstemp(prefix="attomaton-spark-", suffix=".log")
    os.dup2(log, 2)
    os.close(log)
    LOGS.append(Path(name))
    atexit.register(_remove_logs)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _remove_logs() -> None:
    for log in LOGS:
        log.unlink(missing_ok=True)


def import_spark() -> Any:
    """The library; raises an error if it or Java is missing, and starts nothing."""
    with needing("the Spark engine"):
        import pyspark.sql
    if not hasattr(pyspark.sql.DataFrame, "repartitionById"):
        raise MissingExtra(
            f"the Spark engine needs pyspark 4.1 or later, not {pyspark.__version__}: "
            "pip install 'attomaton[spark]'"
        )
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise MissingExtra(JAVA)
    return pyspark


def map_batches(frame: Any, function: Callable[[Iterable[Any]], Iterable[Any]], schema: str) -> Any:
    """``frame.mapInArrow``, without the warning about pandas, which is not used."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return frame.mapInArrow(function, schema)


@contextmanager
def explained_failure() -> Generator[None]:
    """Re-raise errors that an executor raised on purpose; explain other failures of Spark."""
    try:
        yield
    except AttomatonError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        raise _translated(str(error)) from error


def _translated(text: str) -> AttomatonError:
    raised = re.findall(r"attomaton\.base\.errors\.(\w+): (.*)", text)
    kind = getattr(errors, raised[-1][0], None) if raised else None
    if kind is not None:
        return kind(raised[-1][1])
    lines = [line for line in text.splitlines() if line.strip()] or ["no reason given"]
    atexit.unregister(_remove_logs)
    log = f" ({LOGS[-1]})" if LOGS else ""
    return UnwritablePlace(f"Spark failed ({lines[0]}); see its log{log}, correct the cause and run again")
