# Databricks notebook source
# MAGIC %md
# MAGIC # Quality
# MAGIC How the expectations of the tables' YAMLs did in each run, what they keep out of gold, and
# MAGIC the suite itself in Great Expectations.
# MAGIC
# MAGIC On a laptop: `LAKEHOUSE_LAKE=./lake python notebooks/quality.py`; on Databricks say it in the widgets.

# COMMAND ----------

import json
import os

from lakehouse.quality.suite import gx_suite
from lakehouse.spark.lake import Lake
from lakehouse.spark.operations.data_docs import gx_failures, suites_of_lake
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.readers.notebook import saved_plot
from lakehouse.spark.readers.views import open_lake
from lakehouse.spark.session import get_session

spark = get_session()
WIDGETS = {
    "lake": "./lake",
    "catalog": "",
    "bronze": "bronze",
    "silver": "silver",
    "gold": "gold",
    "ops": "ops",
}
if "dbutils" in globals():
    for name, default in WIDGETS.items():
        dbutils.widgets.text(name, default)
    said = {name: dbutils.widgets.get(name) for name in WIDGETS}
else:
    said = {name: os.environ.get(f"LAKEHOUSE_{name.upper()}", default) for name, default in WIDGETS.items()}

place = (
    said["lake"],
    said["catalog"] or None,
    {layer: said[layer] for layer in ("bronze", "silver", "gold", "ops")},
)
views = open_lake(spark, *place)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Every check, over all runs

# COMMAND ----------

spark.sql("""
    SELECT source, concat(database, '.', `table`) AS `table`, expectation, action, sum(checked) AS checked,
    sum(failed) AS failed
    FROM quality GROUP BY ALL ORDER BY failed DESC, `table`, expectation
""").show(50, False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Failures per run

# COMMAND ----------

runs = spark.sql(
    "SELECT `at`, expectation, sum(failed) AS failed FROM quality GROUP BY ALL ORDER BY `at`"
).collect()
times = sorted({row["at"] for row in runs})
lines = {
    name: [sum(row.failed for row in runs if (row["at"], row.expectation) == (time, name)) for time in times]
    for name in sorted({row.expectation for row in runs})
}
saved_plot("failures_per_run.png", "failed changes", times, lines, "dbutils" in globals())

# COMMAND ----------

# MAGIC %md
# MAGIC ## What is kept out of gold
# MAGIC Each rejected change with the row as silver has it, and where its bytes are. `lakehouse
# MAGIC rejected list` shows those that are open.

# COMMAND ----------

spark.sql("""
    SELECT r.source, concat(r.database, '.', r.`table`) AS `table`, r.key, r.reasons, c.op, c.after,
           r.origin.topic, r.origin.partition, r.origin.offset
    FROM rejected r JOIN changes c
      ON r.source = c.source AND r.database = c.database AND r.`table` = c.`table` AND r.key = c.key AND
      r.position = c.position
    ORDER BY r.position, r.key
""").show(50, False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The suite, as Great Expectations has it
# MAGIC Edit it here, run it, and put it back into the YAML with `lakehouse quality suite DB.TABLE
# MAGIC --from FILE`.

# COMMAND ----------

lake = Lake(*place)
tables = [told for source in sources(spark, lake) for told in suites_of_lake(spark, lake, source)]
for name, suite, entry in tables:
    print(json.dumps(gx_suite(name, suite), indent=2))
    frame = lake.read(spark, "gold", entry.gold, entry.version)
    failed = gx_failures(spark, frame, suite, frame.columns[0])
    for check, rows in zip(suite.checks, failed, strict=True):
        print(f"{name}: {check.label}: {len(rows)} rows of gold fail it")
