# Databricks notebook source
# MAGIC %md
# MAGIC # Explore silver
# MAGIC What changed, when, and from what to what: silver keeps every distinct change of every table, with
# MAGIC the DDL between them. All times are those of the source, in UTC.
# MAGIC
# MAGIC On Databricks the parameters are widgets. On a laptop, after `lakehouse demo`, edit them below,
# MAGIC or run `LAKEHOUSE_TABLE=shop.orders python notebooks/explore_silver.py`.

# COMMAND ----------

from lakehouse.api import LakehouseError, Notebook, plots

PARAMETERS = {
    "lake": "./lake",  # its folder or URL
    "catalog": "",  # of a catalog's lake; its schemas are the parameters bronze, silver, gold, ops
    "table": "",  # whose rows are looked at; by default the one that changed most
    "key": "",  # the row: JSON, such as 1001 or {"id": 1, "line": 2}; by default the one that changed most
    "since": "",  # changes from this time on, such as 2026-11-21 10:00
    "until": "",  # and before this one
}
notebook = Notebook(PARAMETERS, globals())
lake = notebook.open()
said = notebook.said

# COMMAND ----------

# MAGIC %md
# MAGIC ## The tables, and whether they are right
# MAGIC `exact` equals the source at `upto`. Any other state has its reason in `why`.

# COMMAND ----------

notebook.show(lake.tables()[["source", "table", "state", "why", "upto_time", "delta"]])

# COMMAND ----------

# MAGIC %md
# MAGIC ## When did what change?
# MAGIC Changes by table and kind. The lines are DDL statements; their numbers are those of the table
# MAGIC below.

# COMMAND ----------

ddl = notebook.pandas(lake.ddl(), rows=200)
ddl.insert(0, "number", range(1, len(ddl) + 1))
activity = lake.activity(since=said["since"] or None, until=said["until"] or None)
notebook.plot("changes.png", plots.activity, activity, ddl)

# COMMAND ----------

notebook.show(ddl[["number", "committed_at", "table", "ddl"]], rows=100)

# COMMAND ----------

notebook.show(
    activity.pivot_table(
        index="table", columns="op", values="changes", aggfunc="sum", fill_value=0
    ).reset_index()
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## How late was it?
# MAGIC When silver finished a batch, how old was the newest change up to which everything had arrived? A
# MAGIC recording is as old as it is.

# COMMAND ----------

notebook.plot("lag.png", plots.lag, lake.lag())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Which columns change most?

# COMMAND ----------

by_table = activity.groupby("table")["changes"].sum().sort_values(ascending=False)
table = said["table"] or next(iter(by_table.index), None)
if table is None:
    raise LakehouseError("no table has changes in this time: change `since` and `until`")
changes = lake.changes(table, said["since"] or None, said["until"] or None)
columns = (
    changes.selectExpr("explode(changed) AS column")
    .groupBy("column")
    .count()
    .orderBy("count", ascending=False)
)
notebook.plot(
    "columns.png", plots.ranking, notebook.pandas(columns, rows=15), f"Updates of {table}, by column"
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What happened to one row?
# MAGIC Each lane is a column, each line a change of the row or a DDL of its table.

# COMMAND ----------

import json

rows = changes.groupBy("key").count().orderBy("count", "key", ascending=[False, True])
busiest = rows.where("key <> '[]'").first()
key = json.loads(said["key"] or (busiest.key if busiest else "null"))
if lake.key(table) and key is not None:
    print(table, key)
    notebook.plot("timeline.png", plots.timeline, lake.timeline(table, key))
    history = lake.history_of(table, key)
    notebook.show(history.select("committed_at", "op", "changed", "before", "after", "published"))
else:
    print(f"{table} has no key: choose from lake.changes({table!r})")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What could not be decoded?
# MAGIC The notebook *dead letters* has more.

# COMMAND ----------

notebook.show(
    lake.dead_letters().groupBy("source", "table", "code", "open").count().orderBy("source", "code")
)
