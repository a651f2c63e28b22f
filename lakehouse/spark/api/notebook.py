"""The place where a notebook runs: Databricks, Jupyter, or plain Python. Parameters, tables and plots are
shown there as each of them shows such things.

                  parameters                    tables              plots
    Databricks    widgets                       display             below the cell
    Jupyter       the values of the notebook    display             below the cell
    python        the same                      printed as text     PNG files in the current folder

On a laptop an environment variable LAKEHOUSE_<PARAMETER> comes before the value of the notebook.
"""

import builtins
import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.spark.api.opened import OpenLake, open_lake
from lakehouse.spark.lake import LAYERS, quote

# where a lake is: parameters that every notebook has
PLACE = {
    "lake": "./lake",
    "catalog": "",
    "bronze": "bronze",
    "silver": "silver",
    "gold": "gold",
    "ops": "ops",
}
ROWS = 50
WIDEST = 80
NO_PLOTS = "no plots: matplotlib is not installed (pip install 'lakehouse-cdc[notebooks]')"


class Notebook:
    """A running notebook. `said` are its parameters, `scope` its globals, where Databricks and Jupyter put
    what they offer.
    """

    def __init__(self, parameters: Mapping[str, str], scope: Mapping[str, Any]) -> None:
        self._display = scope.get("display") or getattr(builtins, "display", None)
        self.said = _values({**PLACE, **parameters}, scope.get("dbutils"))
        self._draws = find_spec("matplotlib") is not None
        if not self._draws:
            print(NO_PLOTS)

    def open(self) -> OpenLake:
        """The lake of the parameters."""
        schemas = {layer: self.said[layer] for layer in LAYERS}
        return open_lake(self.said["lake"], catalog=self.said["catalog"] or None, schemas=schemas)

    def show(self, frame: DataFrame | pd.DataFrame, rows: int = ROWS) -> None:
        """Show the first rows of a table."""
        taken = frame.head(rows + 1) if isinstance(frame, pd.DataFrame) else _plain(frame, rows + 1)
        shown = taken.head(rows)
        if self._display is not None:
            self._display(shown)
        else:
            print("(no rows)" if shown.empty else shown.to_string(index=False, max_colwidth=WIDEST))
        if len(taken) > rows:
            print(f"… the first {rows} rows")

    def plot(self, file: str, draw: Callable[..., Any], *frames: Any) -> None:
        """Draw the frames with one of the functions of `plots`, and show the figure, else write it to a
        file.
        """
        if not self._draws:
            return
        import matplotlib.pyplot as plt

        figure = draw(*frames)
        if self._display is not None:
            plt.show()
        else:
            figure.savefig(file, dpi=100)
            print(file)
        plt.close(figure)


def _values(defaults: Mapping[str, str], dbutils: Any) -> dict[str, str]:
    if dbutils is None:
        return {name: os.environ.get(f"LAKEHOUSE_{name.upper()}", value) for name, value in defaults.items()}
    for name, value in defaults.items():
        dbutils.widgets.text(name, value)
    return {name: dbutils.widgets.get(name) for name in defaults}


def _plain(frame: DataFrame, most: int) -> pd.DataFrame:
    """The first rows, rows in rows as JSON text and lists as words."""
    columns = []
    for field in frame.schema.fields:
        column = F.col(quote(field.name))
        if isinstance(field.dataType, T.StructType):
            column = F.to_json(column)
        elif isinstance(field.dataType, T.ArrayType) and isinstance(field.dataType.elementType, T.StringType):
            column = F.array_join(column, ", ")
        elif isinstance(field.dataType, T.BinaryType):
            column = F.hex(column)
        columns.append(column.alias(field.name))
    return frame.select(*columns).limit(most).toPandas()
