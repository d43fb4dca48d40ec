"""What is measured in a process of its own."""

import subprocess
import sys

MEASURED = """
import re, resource, sys
from pathlib import Path
from attomaton.corpora.readers import Reading, read_corpus
from attomaton.base.errors import AttomatonError
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
try:
    told = len(read_corpus(sys.argv[1], reading=Reading(skip_bad=sys.argv[2] == "skip")).ids)
except AttomatonError as error:
    told = error
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024, told)
"""


def measure(path, skip="stop"):
    """The peak of reading a file in a process of its own, in MB, and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, path, skip], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    megabytes, said = done.stdout.split(" ", 1)
    return int(megabytes), said.strip()


def cli(*arguments, seconds=60, **options):
    command = [sys.executable, "-c", "from attomaton.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, **options)
