"""The Python API: read a lake's tables, their changes, and what they were at any moment. Nothing is written.

    from lakehouse.api import open_lake

    lake = open_lake("./lake")
    lake.tables()                                   # every table with its state
    lake.table("shop.orders")                       # the rows, as published
    lake.changes("shop.orders")                     # every change, from what to what
    lake.history_of("shop.orders", 1001)            # those of one row
    lake.table_at("shop.orders", "2026-11-21")      # the rows at a moment of the source
    lake.diff("shop.orders", "2026-11-20", None)    # what differs between two moments

`import lakehouse` stays light: only this module imports Spark.
"""

from lakehouse.errors import LakehouseError
from lakehouse.spark.api import plots
from lakehouse.spark.api.moments import Moment
from lakehouse.spark.api.notebook import Notebook
from lakehouse.spark.api.opened import OpenLake, open_lake
from lakehouse.spark.api.states import NotExact, TableState

__all__ = ["LakehouseError", "Moment", "NotExact", "Notebook", "OpenLake", "TableState", "open_lake", "plots"]
