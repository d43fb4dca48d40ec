import os
import tempfile

import pytest

from tests.faults.commands import prepare


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a template of all that commands read, and room for each case."""
    folder = tmp_path_factory.mktemp("options")
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    os.environ["MPLCONFIGDIR"] = str(folder / "matplotlib")
    prepare(folder / "template")
    (folder / "case").mkdir()
    yield folder
    tempfile.tempdir = before
