"""Run a notebook in a kernel of its own.

`python -m tests.notebooks.execute` writes the committed notebooks with fresh outputs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import nbformat
    from jupyter_client import KernelManager

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
# Whatever else an editor or a kernel adds differs from machine to machine.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


# A kernel that runs one notebook after another keeps its imported modules, and nothing else.
_FRESH = "%reset -f\nimport os as _os\n_os.chdir({folder!r})\ndel _os"


def execute(
    path: Path, folder: Path, *, then: str = "", kernel: KernelManager | None = None
) -> nbformat.NotebookNode:
    """Run a notebook from top to bottom.

    Args:
        path: The notebook; it stays as it is.
        folder: Where the kernel works.
        then: Code to run after the last cell, which sees what the notebook made.
        kernel: A kernel that others use too; by default one of its own.

    Returns:
        The notebook with its outputs, without the cell of `then`.
    """
    import nbformat  # takes four seconds, as does the next one
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    if then:
        notebook.cells.append(nbformat.v4.new_code_cell(then))
    if kernel is not None:
        notebook.cells.insert(0, nbformat.v4.new_code_cell(_FRESH.format(folder=str(folder))))
    client = NotebookClient(
        notebook,
        km=kernel,
        timeout=None,
        startup_timeout=3600,
        iopub_timeout=3600,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()
    if then:
        notebook.cells.pop()
    if kernel is not None:
        notebook.cells.pop(0)
    notebook.metadata = nbformat.from_dict(METADATA)
    return notebook


def main() -> None:
    """Run every notebook and keep its outputs."""
    import nbformat

    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            notebook = execute(path, Path(folder))
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
