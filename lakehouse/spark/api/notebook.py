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
from pyspark.sql import Column, DataFrame
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

    def pandas(self, frame: DataFrame, rows: int = 1000) -> pd.DataFrame:
        """The first rows as a pandas table: times in UTC, rows in rows as JSON text, lists as words."""
        fields = frame.schema.fields
        plain = frame.select(*[_plain(field).alias(field.name) for field in fields]).limit(rows).toPandas()
        times = [field.name for field in fields if isinstance(field.dataType, T.TimestampType)]
        return plain.assign(**{name: pd.to_datetime(plain[name], unit="us", utc=True) for name in times})

    def show(self, frame: DataFrame | pd.DataFrame, rows: int = ROWS) -> None:
        """Show the first rows of a table; its times are UTC."""
        taken = frame.head(rows + 1) if isinstance(frame, pd.DataFrame) else self.pandas(frame, rows + 1)
        times = taken.select_dtypes("datetimetz")
        shown = taken.head(rows).assign(
            **{name: times[name].dt.tz_localize(None).dt.floor("ms") for name in times}
        )
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
        if any(isinstance(frame, pd.DataFrame) and frame.empty for frame in frames[:1]):
            print(f"nothing to draw for {file}")
        elif self._draws:
            self._drawn(file, draw(*frames))

    def _drawn(self, file: str, figure: Any) -> None:
        import matplotlib.pyplot as plt

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


def _plain(field: T.StructField) -> Column:
    """A column as a pandas table can show it."""
    column, kind = F.col(quote(field.name)), field.dataType
    if isinstance(kind, T.StructType):
        return F.to_json(column)
    if isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.StringType):
        return F.array_join(column, ", ")
    if isinstance(kind, T.BinaryType):
        return F.hex(column)
    return F.unix_micros(column) if isinstance(kind, T.TimestampType) else column
