"""Spark for the tests: a local session, and a standalone cluster of one master and two workers."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java for short lives: it starts with half the work."""

SETTINGS = {
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.maxResultSize": "1m",  # nothing that grows with the corpus may reach the driver
    "spark.sql.shuffle.partitions": 2,
    "spark.executor.memory": "1g",
    "spark.executor.extraJavaOptions": QUICK,
}


@contextmanager
def session_on(master, **settings):
    """A Spark session for as long as the block runs."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    earlier = SparkSession.getActiveSession()
    if earlier is not None:  # a process has one, and what an earlier test left would be given out again
        earlier.stop()
    session = SparkSession.builder.master(master).config(map={**SETTINGS, **settings}).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


@dataclass
class Cluster:
    """Processes of a standalone cluster on 127.0.0.1."""

    folder: Path
    processes: list = field(default_factory=list)
    orphans: list = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._launch("master.Master", "--port", str(self.port), "--webui-port", str(free_port()))
        self._wait("Starting Spark master|I have been elected leader")
        for _ in range(2):
            self.add_worker()
        return self

    def add_worker(self):
        options = ["--cores", "1", "--memory", "2g", "--webui-port", str(free_port())]
        self._launch("worker.Worker", *options, "--work-dir", str(self.folder / "work"), self.master)
        self._wait("Successfully registered with master")

    def kill_worker(self):
        """Kill −9 the youngest worker. Its executor may live on, with tasks, until the next is killed."""
        self._bury()
        worker = self.processes.pop()
        self.orphans = psutil.Process(worker.pid).children(recursive=True)
        worker.send_signal(signal.SIGKILL)
        worker.wait()

    def _bury(self):
        """Kill −9 executors that did not end with their worker: some never do, and each takes 0.3 GB."""
        while self.orphans:
            with suppress(psutil.NoSuchProcess):
                self.orphans.pop().kill()

    def stop(self):
        self._bury()
        while self.processes:
            process = self.processes.pop()
            process.terminate()
            process.wait()

    def _launch(self, name, *options):
        import pyspark

        home = Path(pyspark.__file__).parent
        command = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1"]
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "SPARK_NO_DAEMONIZE": "1"}
        environment |= {"SPARK_LOCAL_DIRS": str(self.folder / "local"), "SPARK_DAEMON_JAVA_OPTS": QUICK}
        self.log = self.folder / f"{len(list(self.folder.glob('*.log')))}.log"
        with self.log.open("wb") as log:
            self.processes.append(
                subprocess.Popen([*command, *options], env=environment, stdout=log, stderr=subprocess.STDOUT)
            )

    def _wait(self, sign):
        for _ in range(6000):
            if re.search(sign, self.log.read_text()):
                return
            assert self.processes[-1].poll() is None, self.log.read_text()
            time.sleep(0.1)
        raise TimeoutError(self.log.read_text())


@contextmanager
def cluster_in(folder):
    """A running cluster for as long as the block runs."""
    cluster = Cluster(folder)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@contextmanager
def spark_on(name, tmp_path_factory):
    """``spark-local`` or ``spark-cluster`` with a session; its master."""
    with ExitStack() as stack:
        master = "local[2]"
        if name == "spark-cluster":
            master = stack.enter_context(cluster_in(tmp_path_factory.mktemp("cluster"))).master
        stack.enter_context(session_on(master))
        yield master


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
