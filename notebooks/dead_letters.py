# Databricks notebook source
# MAGIC %md
# MAGIC # Dead letters
# MAGIC What could not be decoded, why, what its bytes look like, and decoding it again after the cause
# MAGIC is mended. A table with an open dead letter is not exact.
# MAGIC
# MAGIC On Databricks the parameters are widgets. On a laptop edit them below, or run
# MAGIC `LAKEHOUSE_REDRIVE=shop python notebooks/dead_letters.py`.

# COMMAND ----------

from lakehouse.api import Notebook, plots

PARAMETERS = {
    "lake": "./lake",  # its folder or URL
    "catalog": "",  # of a catalog's lake; its schemas are the parameters bronze, silver, gold, ops
    "bytes": "48",  # how many bytes of each message are shown, as they are: nothing masks them; 0: none
    "redrive": "",  # a source whose open dead letters are decoded again; what fails is a dead letter again
}
notebook = Notebook(PARAMETERS, globals())
lake = notebook.open()
said = notebook.said

# COMMAND ----------

# MAGIC %md
# MAGIC ## What do they keep from being exact?
# MAGIC What is lost has no message: `problems` and `why` have it, and nothing below.

# COMMAND ----------

notebook.show(lake.sources()[["source", "dead_letters", "problems"]])
tables = lake.tables()
notebook.show(tables[tables["state"] != "exact"][["source", "table", "state", "since", "why"]])

# COMMAND ----------

# MAGIC %md
# MAGIC ## By cause
# MAGIC An open one was neither dismissed nor decoded again.

# COMMAND ----------

letters = lake.dead_letters()
causes = letters.groupBy("source", "code", "message", "open").count().orderBy("count", ascending=False)
notebook.show(causes)

# COMMAND ----------

by_code = letters.selectExpr("code", "if(open, 'open', 'closed') AS state").groupBy("code", "state").count()
counts = notebook.pandas(by_code.orderBy("code", "state"), rows=100)
if not counts.empty:
    notebook.plot("dead_letters.png", plots.ranking, counts, "Dead letters by code")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The bytes
# MAGIC Bronze has every message as it came: here the first bytes of those that could not be decoded.

# COMMAND ----------

if int(said["bytes"]) > 0:
    first = lake.dead_letters(with_bytes=int(said["bytes"]))
    place = ["source", "code", "topic", "partition", "offset", "bytes"]
    notebook.show(
        first.selectExpr(*place, "begins_with", "CAST(begins_with AS STRING) AS as_text").orderBy(*place),
        rows=20,
    )

# COMMAND ----------

# MAGIC %md
# MAGIC ## Decode them again
# MAGIC As `lakehouse dead-letters requeue` does, in a lake that is a folder.

# COMMAND ----------

from lakehouse.spark.operations.dead_letters import requeue_dead_letters

if said["redrive"] and not said["catalog"]:
    print(requeue_dead_letters(said["lake"], said["redrive"], None))
    again = lake.refresh().dead_letters()
    notebook.show(again.groupBy("source", "code", "open").count().orderBy("source", "code", "open"))
else:
    print("name a source in `redrive` to decode its dead letters again")
