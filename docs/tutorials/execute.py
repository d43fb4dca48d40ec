"""Run tutorials anew, write them back: ``python docs/tutorials/execute.py [NAME …]``.

What is written is the same on every machine: no times of execution, no random ids of
cells, and no paths.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("ATTOMATON_DATA", HERE / "../../../shared/data")).resolve()
"""Real corpora, for the tutorials that ask for ``ATTOMATON_DATA``."""

SOURCE = HERE.parents[1] / "src"
"""The library of this checkout, whichever is installed."""

VOLATILE = "volatile"
"""The tag of cells whose output differs from run to run, such as seconds."""

KERNEL = {
    "kernelspec": {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    }
}
MOST_SECONDS = 300


def find_tutorials(names: list[str] | None = None) -> list[Path]:
    """All tutorials, or those of these names."""
    if not names:
        return sorted(HERE.glob("*.ipynb"))
    return [HERE / f"{Path(name).stem}.ipynb" for name in names]


def read_tutorial(path: Path) -> NotebookNode:
    """A notebook as it is on disk."""
    return nbformat.read(path, as_version=4)


def needs_data(notebook: NotebookNode) -> bool:
    """Whether it reads real corpora."""
    return any("ATTOMATON_DATA" in cell.source for cell in notebook.cells)


def run_tutorial(path: Path) -> NotebookNode:
    """The notebook with new outputs, run in a temporary folder by its own kernel."""
    notebook = read_tutorial(path)
    with tempfile.TemporaryDirectory(prefix="tutorial-") as folder:
        work = Path(folder, "work")
        work.mkdir()
        client = NotebookClient(
            notebook,
            timeout=MOST_SECONDS,
            km=AsyncKernelManager(
                kernel_name="python3", transport="ipc", ip=f"{folder}/kernel"
            ),
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": str(work)}},
        )
        own = {
            "ATTOMATON_DATA": str(DATA),
            "IPYTHONDIR": str(Path(folder, "ipython")),
            "PYTHONPATH": os.pathsep.join(
                [str(SOURCE), os.environ.get("PYTHONPATH", "")]
            ),
        }
        client.execute(env={**os.environ, **own}, cleanup_kc=True)
        return clean(
            notebook,
            path.stem,
            hidden=(f"{work}/", str(work), f"{DATA}/", str(DATA)),
        )


def clean(
    notebook: NotebookNode, name: str, *, hidden: tuple[str, ...] = ()
) -> NotebookNode:
    """The same notebook without what differs from machine to machine."""
    notebook.metadata = nbformat.from_dict(KERNEL)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{name}-{number:02d}"
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        for output in cell.get("outputs", []):
            output.pop("metadata", None)
            if output.output_type == "stream":
                output.text = _hide(output.text, hidden)
            else:
                output.metadata = nbformat.from_dict({})
                for kind, shown in output.get("data", {}).items():
                    output.data[kind] = (
                        _hide(shown, hidden) if kind.startswith("text/") else shown
                    )
    nbformat.validate(notebook)
    return notebook


def texts_of(notebook: NotebookNode) -> list[list[str]]:
    """What each cell must show in every run: its texts, and that there is a picture."""
    return [[] if _is_volatile(cell) else _texts(cell) for cell in notebook.cells]


def write_tutorial(notebook: NotebookNode, path: Path) -> None:
    """Write it, the same bytes for the same notebook."""
    path.write_text(nbformat.writes(notebook).rstrip("\n") + "\n", encoding="utf-8")


def _is_volatile(cell: NotebookNode) -> bool:
    return VOLATILE in cell.metadata.get("tags", [])


def _texts(cell: NotebookNode) -> list[str]:
    shown: list[str] = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        shown.append(_strip(output.get("text", data.get("text/plain", ""))))
        shown += ["picture" for kind in data if kind.startswith("image/")]
    return shown


def _strip(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


def _hide(text: str, hidden: tuple[str, ...]) -> str:
    for path in hidden:
        text = text.replace(path, "")
    return text


def main(names: list[str]) -> int:
    """Run and write the tutorials of these names, or all."""
    for path in find_tutorials(names):
        start = time.perf_counter()
        write_tutorial(run_tutorial(path), path)
        sys.stdout.write(f"{path.stem}: {time.perf_counter() - start:.1f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
