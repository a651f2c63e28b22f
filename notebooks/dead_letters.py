# Databricks notebook source
# MAGIC %md
# MAGIC # Dead letters
# MAGIC What could not be decoded, why, what its bytes look like, and decoding it again after the
# MAGIC cause is mended.
# MAGIC
# MAGIC On a laptop: `LAKEHOUSE_LAKE=./lake python notebooks/dead_letters.py`; on Databricks say it
# MAGIC in the widgets. With `redrive` set to a
# MAGIC source's name its dead letters are decoded again; what fails again is a dead letter again.

# COMMAND ----------

import os

from pyspark.sql import functions as F

from lakehouse.spark.operations.dead_letters import requeue_dead_letters
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
    "redrive": "",
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
lake = open_lake(spark, *place)
letters = lake["dead_letters"]

# COMMAND ----------

# MAGIC %md
# MAGIC ## By cause

# COMMAND ----------

letters.groupBy("source", "code", "message").agg(F.count("*").alias("n")).orderBy(F.desc("n"), "code").show(
    50, False
)
causes = letters.groupBy("code").count().orderBy("code").collect()
saved_plot(
    "dead_letters.png",
    "dead letters",
    [row.code for row in causes],
    {"dead letters": [row["count"] for row in causes]},
    "dbutils" in globals(),
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The bytes
# MAGIC Bronze has every message as it came: here the first bytes of those that could not be decoded.

# COMMAND ----------

spark.sql("""
    SELECT d.source, d.code, d.origin.topic, d.origin.partition, d.origin.offset, length(b.value) AS bytes,
           hex(substring(b.value, 1, 24)) AS begins_with, substring(CAST(substring(b.value, 1, 60) AS
           STRING), 1, 60) AS as_text
    FROM dead_letters d JOIN bronze b
      ON d.source = b.source AND d.origin.topic = b.topic AND d.origin.incarnation = b.incarnation
     AND d.origin.partition = b.partition AND d.origin.offset = b.offset
    ORDER BY d.source, b.partition, b.offset
""").show(20, False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Decode them again

# COMMAND ----------

if said["redrive"]:
    print(requeue_dead_letters(said["lake"], said["redrive"], None))
    open_lake(spark, *place)["dead_letters"].groupBy("batch", "code").count().orderBy("batch").show(50, False)
else:
    print("say a source's name in `redrive` to decode its dead letters again")
