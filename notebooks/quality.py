# Databricks notebook source
# MAGIC %md
# MAGIC # Quality
# MAGIC How the expectations of the tables' YAMLs did in each run, what they keep out of gold, and the
# MAGIC suite itself in Great Expectations.
# MAGIC
# MAGIC On Databricks the parameters are widgets. On a laptop edit them below, or run
# MAGIC `LAKEHOUSE_LAKE=./lake python notebooks/quality.py`.

# COMMAND ----------

from lakehouse.api import Notebook, plots

PARAMETERS = {
    "lake": "./lake",  # its folder or URL
    "catalog": "",  # of a catalog's lake; its schemas are the parameters bronze, silver, gold, ops
    "table": "",  # whose rejected rows are shown; by default all tables that have some
}
notebook = Notebook(PARAMETERS, globals())
lake = notebook.open()
said = notebook.said

# COMMAND ----------

# MAGIC %md
# MAGIC ## Every check, over all runs

# COMMAND ----------

from pyspark.sql import functions as F

results = lake.quality()
checks = results.groupBy("source", "table", "expectation", "action").agg(
    F.sum("checked").alias("checked"), F.sum("failed").alias("failed")
)
notebook.show(checks.orderBy(F.desc("failed"), "table", "expectation"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Failures per run
# MAGIC The last 500 results of checks, so that a lake of many runs stays readable.

# COMMAND ----------

last = (
    results.orderBy(F.desc("at")).limit(500).groupBy("at", "expectation").agg(F.sum("failed").alias("value"))
)
runs = notebook.pandas(last.withColumnRenamed("expectation", "name").orderBy("at", "name"))
if runs.empty:
    print("no table has expectations")
else:
    notebook.plot("failures.png", plots.by_run, runs, "Changes that failed a check, by run")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What is kept out of gold
# MAGIC Each rejected change, with its row and where its bytes are. `lakehouse rejected list` has those
# MAGIC that are open.

# COMMAND ----------

every = results.where("failed > 0 AND action = 'reject'").select("table").distinct().limit(20).collect()
for table in [said["table"]] if said["table"] else sorted(row["table"] for row in every):
    print(table)
    rejected = lake.rejected(table).orderBy("position", "key")
    notebook.show(rejected.select("committed_at", "op", "key", "reasons", "after", "origin"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## The suite, as Great Expectations has it
# MAGIC Edit it here, run it, and put it back into the YAML with `lakehouse quality suite DB.TABLE
# MAGIC --from FILE`.

# COMMAND ----------

import json

from lakehouse.quality.suite import gx_suite
from lakehouse.spark.operations.data_docs import gx_failures, suites_of_lake

for source in lake.sources()["source"]:
    for name, suite, _ in suites_of_lake(lake.spark, lake.location, source):
        print(json.dumps(gx_suite(name, suite), indent=2))
        frame = lake.table(f"{source}:{name}")
        failed = gx_failures(lake.spark, frame, suite, frame.columns[0])
        for check, rows in zip(suite.checks, failed, strict=True):
            print(f"{name}: {check.label}: {len(rows)} rows of gold fail it")
