# Databricks notebook source
# MAGIC %md
# MAGIC # Time travel to a manifest
# MAGIC A manifest is one instant of the source: every table at the version that belongs to it.
# MAGIC Choose one and compare it with today.
# MAGIC
# MAGIC On a laptop: `LAKEHOUSE_LAKE=./lake LAKEHOUSE_MANIFEST=0 python notebooks/time_travel.py`;
# MAGIC on Databricks say it in the widgets.

# COMMAND ----------

import os

from pyspark.sql import functions as F

from lakehouse.spark.readers.notebook import at_manifest, manifests_of, saved_plot
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
    "source": "",
    "manifest": "0",
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
now = open_lake(spark, *place)
found = manifests_of(spark, *place)
for number, manifest in enumerate(found):
    print(
        number,
        manifest["source"],
        manifest["published_at"],
        "watermark",
        manifest["watermark"],
        manifest["states"],
    )

# COMMAND ----------

# MAGIC %md
# MAGIC ## The tables of that moment

# COMMAND ----------

chosen = int(said["manifest"])
then = at_manifest(spark, chosen, *place) if chosen < len(found) else {}
for name, frame in sorted(then.items()):
    print(name)
    frame.show(20, False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What is different today
# MAGIC Rows that are only in one of the two, for the tables whose columns are still the same.

# COMMAND ----------

for name, frame in sorted(then.items()):
    if name in now and now[name].columns == frame.columns:
        same = [F.col(f"`{column}`").cast("string").alias(f"c{i}") for i, column in enumerate(frame.columns)]
        gone, new = (
            frame.select(same).exceptAll(now[name].select(same)),
            now[name].select(same).exceptAll(frame.select(same)),
        )
        print(f"{name}: {gone.count()} rows are gone or changed, {new.count()} are new or changed")
    else:
        print(f"{name}: its columns or its name have changed since")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Rows at each manifest

# COMMAND ----------

last = range(max(0, len(found) - 20), len(found))
counts = [
    {name: frame.count() for name, frame in at_manifest(spark, number, *place).items()} for number in last
]
names = sorted({name for one in counts for name in one})
print(counts[-1] if counts else "nothing is published yet")
lines = {name: [one.get(name, 0) for one in counts] for name in names}
saved_plot("rows_per_manifest.png", "rows", last, lines, "dbutils" in globals())
