"""The notebooks, run as scripts and cell by cell as Jupyter and Databricks do, on a lake that has some of
everything.
"""

import builtins
import json
import os
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.databricks.notebooks import cells_of, jupyter, write_notebooks
from lakehouse.errors import LakehouseError
from lakehouse.spark.api import notebook as runtime
from tests.support.paths import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))
EXPLORE = ROOT / "notebooks/explore_silver.py"
Run = Callable[..., str]


@pytest.fixture
def executed(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Run:
    """Runs a notebook as a script, in an empty folder, with parameters from the environment."""
    for name in list(os.environ):
        if name.startswith("LAKEHOUSE_") and name not in ("LAKEHOUSE_CACHE", "LAKEHOUSE_MAVEN"):
            monkeypatch.delenv(name)

    def execute(name: str, **said: str) -> str:
        monkeypatch.chdir(tmp_path)
        for parameter, value in {"lake": str(shop), **said}.items():
            monkeypatch.setenv(f"LAKEHOUSE_{parameter.upper()}", value)
        runpy.run_path(str(ROOT / f"notebooks/{name}.py"))
        return str(capsys.readouterr().out)

    return execute


def drawn(folder: Path) -> set[str]:
    """The pictures in a folder that show something."""
    return {path.name for path in folder.glob("*.png") if path.stat().st_size > 4000}


def in_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.filterwarnings("ignore::lakehouse.api.NotExact")
def test_explore_silver_shows_states_changes_and_the_history_of_a_row(executed: Run, tmp_path: Path) -> None:
    said = in_one_line(executed("explore_silver", table="shop.orders", key="1"))

    assert "shop shop.orders incomplete 2 dead letters of unknown tables in the source 2026-11-21" in said
    assert "shop.customers 0 9 1" in said
    assert "shop.orders 2 25 21" in said
    assert "update note, sum" in said
    assert "shop None json True 2" in said or "shop json True 2" in said
    assert drawn(tmp_path) == {"changes.png", "columns.png", "lag.png", "timeline.png"}


@pytest.mark.filterwarnings("ignore::lakehouse.api.NotExact")
def test_time_travel_shows_the_tables_of_a_manifest_and_what_is_different_today(
    executed: Run, tmp_path: Path
) -> None:
    said = in_one_line(executed("time_travel", table="shop.orders"))

    assert "shop.orders removed 1" in said
    assert "shop.orders added 15" in said
    assert "***************0001 Wien" in said
    assert "example.com" not in said
    assert drawn(tmp_path) == {"differences.png", "rows.png"}


@pytest.mark.filterwarnings("ignore::lakehouse.api.NotExact")
def test_quality_shows_results_and_rejected_rows_and_runs_the_suite(executed: Run, tmp_path: Path) -> None:
    said = in_one_line(executed("quality"))

    assert "shop shop.orders expect_column_values_to_be_in_set(note) warn 55 1" in said
    assert '{"id":90,"total":-1.00,"note":"new","kind":"web"}' in said
    assert "shop.orders: expect_column_values_to_be_between(total): 0 rows of gold fail it" in said
    assert drawn(tmp_path) == {"failures.png"}


@pytest.mark.filterwarnings("ignore::lakehouse.api.NotExact")
def test_dead_letters_shows_bytes_and_decodes_again(executed: Run, tmp_path: Path) -> None:
    said = executed("dead_letters", redrive="shop")

    assert '{"type": "INSERT"' in said
    assert (
        json.loads(next(one for one in said.splitlines() if "'requeued'" in one).replace("'", '"'))[
            "requeued"
        ]
        == 2
    )
    assert (tmp_path / "dead_letters.png").stat().st_size > 3000


@pytest.mark.filterwarnings("ignore::lakehouse.api.NotExact")
def test_a_notebook_for_jupyter_runs_cell_by_cell_and_shows_its_tables(
    executed: Run, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("LAKEHOUSE_LAKE", str(shop))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    written = {path.stem: path for path in write_notebooks(tmp_path / "books")}
    book = json.loads(written["dead_letters"].read_text("utf-8"))
    tables: list[Any] = []
    monkeypatch.setattr(builtins, "display", tables.append, raising=False)

    scope: dict[str, Any] = {}
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), scope)

    assert set(written) == {path.stem for path in NOTEBOOKS}
    assert [list(table.columns)[:2] for table in tables[:2]] == [
        ["source", "dead_letters"],
        ["source", "table"],
    ]
    assert len(tables) == 4
    assert not list(tmp_path.glob("*.png"))
    assert capsys.readouterr().out.strip() == "name a source in `redrive` to decode its dead letters again"
    with pytest.raises(LakehouseError, match=r"ipynb: expected no such file, found one"):
        write_notebooks(tmp_path / "books")


class Widgets:
    """What Databricks gives a notebook for its parameters."""

    def __init__(self, filled: dict[str, str]) -> None:
        self.filled, self.widgets = filled, self
        self.made: dict[str, str] = {}

    def text(self, name: str, default: str) -> None:
        self.made[name] = default

    def get(self, name: str) -> str:
        return self.filled.get(name, self.made[name])


def test_on_databricks_the_parameters_are_widgets(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_TABLE", "of.the.environment")
    widgets = Widgets({"lake": str(shop), "table": "shop.orders"})
    shown: list[Any] = []

    found = runtime.Notebook(
        {"lake": "./lake", "table": "", "key": ""}, {"dbutils": widgets, "display": shown.append}
    )
    found.show(found.open().tables())

    assert set(widgets.made) == {"lake", "catalog", "bronze", "silver", "gold", "ops", "table", "key"}
    assert (found.said["table"], found.said["key"], found.said["gold"]) == ("shop.orders", "", "gold")
    assert list(shown[0]["table"]) == ["shop.orders", "shop.customers"]


def test_without_matplotlib_a_notebook_says_once_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(runtime, "find_spec", lambda _: None)

    runtime.Notebook({}, {}).plot("x.png", lambda: pytest.fail("it draws"))

    assert capsys.readouterr().out == (
        "no plots: matplotlib is not installed (pip install 'lakehouse-cdc[notebooks]')\n"
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_begins_with_what_it_is_and_its_parameters(path: Path) -> None:
    text = path.read_text("utf-8")
    cells = list(cells_of(text))
    book = json.loads(jupyter(text))

    assert text.startswith("# Databricks notebook source\n# MAGIC %md\n# MAGIC # ")
    assert [kind for kind, _ in cells[:2]] == ["markdown", "code"]
    assert "PARAMETERS = {" in cells[1][1]
    assert not any("MAGIC" in source for _, source in cells)
    assert ["".join(cell["source"]) for cell in book["cells"]] == [source for _, source in cells]
    assert len({cell["id"] for cell in book["cells"]}) == len(cells)
