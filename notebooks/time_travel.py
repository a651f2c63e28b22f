# Databricks notebook source
# MAGIC %md
# MAGIC # Time travel
# MAGIC What was published when, what the tables were then, and what is different now.
# MAGIC
# MAGIC A *manifest* is one instant of the source: every table at the version that belongs to it. Any
# MAGIC other moment up to the watermark is folded from silver.
# MAGIC
# MAGIC On Databricks the parameters are widgets. On a laptop edit them below, or run
# MAGIC `LAKEHOUSE_MANIFEST=0 python notebooks/time_travel.py`.

# COMMAND ----------

import pandas as pd

from lakehouse.api import LakehouseError, Notebook, plots

PARAMETERS = {
    "lake": "./lake",  # its folder or URL
    "catalog": "",  # of a catalog's lake; its schemas are the parameters bronze, silver, gold, ops
    "manifest": "0",  # the number of the manifest to look at
    "table": "",  # whose rows are looked at; by default the first one that differs
    "moment": "",  # a TSO, or a time of the source such as 2026-11-21 10:00; by default the manifest's
}
notebook = Notebook(PARAMETERS, globals())
lake = notebook.open()
said = notebook.said

# COMMAND ----------

# MAGIC %md
# MAGIC ## What was published?

# COMMAND ----------

every = lake.manifests(last=100_000)
manifests = every.tail(50)
notebook.show(manifests.drop(columns=["position"]))

# COMMAND ----------

# MAGIC %md
# MAGIC ## How many rows did the tables have?
# MAGIC By the last manifests, at the source's time. The lines are DDL statements.

# COMMAND ----------

chosen = int(said["manifest"])
points = []
for each in manifests.tail(20).itertuples():
    when = each.published_at if pd.isna(each.upto_time) else each.upto_time
    rows = {name: frame.count() for name, frame in lake.at_manifest(each.number).items()}
    points += [{"at": when, "name": name, "value": count} for name, count in rows.items()]
counts = pd.DataFrame(points, columns=["at", "name", "value"])
ddl = notebook.pandas(lake.ddl(), rows=200)
ddl.insert(0, "number", range(1, len(ddl) + 1))
notebook.plot("rows.png", plots.over_time, counts, "Rows of each table", "up to", ddl)

# COMMAND ----------

notebook.show(ddl[["number", "committed_at", "table", "ddl"]])

# COMMAND ----------

# MAGIC %md
# MAGIC ## The tables of the manifest

# COMMAND ----------

for name, frame in sorted(lake.at_manifest(chosen).items()):
    print(name)
    notebook.show(frame, rows=20)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What is different now?
# MAGIC From the moment to what is published, row by row; a table that was renamed is followed.

# COMMAND ----------

then = said["moment"] or tuple(every.set_index("number")["position"][chosen])
differences, found = {}, []
for name in sorted(lake.at_manifest(chosen)):
    try:
        differences[name] = lake.diff(name, then, None)
    except LakehouseError as error:
        print(error)
        continue
    found += [
        (name, row["change"], row["count"]) for row in differences[name].groupBy("change").count().collect()
    ]
changed = pd.DataFrame(found, columns=["table", "change", "rows"])
notebook.show(changed)

# COMMAND ----------

if not changed.empty:
    notebook.plot("differences.png", plots.ranking, changed, "Rows that differ from today's")

# COMMAND ----------

table = said["table"] or (changed["table"].iloc[0] if not changed.empty else "")
if table in differences:
    print(table)
    notebook.show(differences[table])
