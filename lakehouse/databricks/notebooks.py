"""The notebooks as Jupyter has them: each file in Databricks' source format becomes an `.ipynb` of its cells.

# Databricks notebook source      the first line
# COMMAND ----------              between two cells
# MAGIC %md, # MAGIC …            a cell of Markdown
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakehouse.databricks.bundle import template
from lakehouse.errors import LakehouseError

HEADER = "# Databricks notebook source\n"
BETWEEN = "# COMMAND ----------\n"
MAGIC = "# MAGIC"
MARKDOWN = "%md"


def write_notebooks(folder: Path) -> list[Path]:
    """Write the notebooks into a folder. LakehouseError if a file exists already; then nothing is written."""
    sources = sorted((template() / "notebooks").glob("*.py"))
    files = {folder / f"{path.stem}.ipynb": path for path in sources}
    taken = next((path for path in files if path.exists()), None)
    if taken is not None:
        raise LakehouseError(
            f"{taken}: expected no such file, found one; write the notebooks into another folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for target, source in files.items():
        target.write_text(jupyter(source.read_text(encoding="utf-8")), encoding="utf-8")
    return list(files)


def jupyter(text: str) -> str:
    """A notebook in Databricks' source format as an `.ipynb` (nbformat 4.5)."""
    cells = [_cell(number, kind, source) for number, (kind, source) in enumerate(cells_of(text), 1)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def cells_of(text: str) -> Iterator[tuple[str, str]]:
    """The cells of a notebook in Databricks' source format: `markdown` or `code`, and the text."""
    for part in text.removeprefix(HEADER).split(BETWEEN):
        lines = part.strip("\n").splitlines()
        if lines and all(line.startswith(MAGIC) for line in lines):
            words = [line.removeprefix(MAGIC).removeprefix(" ") for line in lines]
            yield "markdown", "\n".join(words[1:] if words[0] == MARKDOWN else words)
        elif lines:
            yield "code", "\n".join(lines)


def _cell(number: int, kind: str, source: str) -> dict[str, Any]:
    lines = source.splitlines(keepends=True)
    cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines}
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}
