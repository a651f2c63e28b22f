# Databricks notebook source
# MAGIC %md
# MAGIC # Explore silver
# MAGIC What changed, when, and from what to what: silver keeps every distinct change of every
# MAGIC table, with the DDL between them.
# MAGIC
# MAGIC On Databricks, say in the widgets where the lake is. On a laptop, after `lakehouse demo`:
# MAGIC `python notebooks/explore_silver.py`;
# MAGIC `LAKEHOUSE_LAKE`, `LAKEHOUSE_TABLE` and `LAKEHOUSE_KEY` take the widgets' place.

# COMMAND ----------

import os

from pyspark.sql import functions as F

from lakehouse.spark.readers.views import free_name, open_lake
from lakehouse.spark.session import get_session

spark = get_session()
WIDGETS = {
    "lake": "./lake",
    "catalog": "",
    "bronze": "bronze",
    "silver": "silver",
    "gold": "gold",
    "ops": "ops",
    "table": "",
    "key": "",
}
if "dbutils" in globals():
    for name, default in WIDGETS.items():
        dbutils.widgets.text(name, default)
    said = {name: dbutils.widgets.get(name) for name in WIDGETS}
else:
    said = {name: os.environ.get(f"LAKEHOUSE_{name.upper()}", default) for name, default in WIDGETS.items()}

lake = open_lake(
    spark,
    said["lake"],
    said["catalog"] or None,
    {layer: said[layer] for layer in ("bronze", "silver", "gold", "ops")},
)
tables = sorted(name for name in lake if name.startswith("silver_"))
print("\n".join(tables) or "this lake holds no table yet")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Changes by table and kind

# COMMAND ----------

lake["changes"].groupBy("database", "table").pivot(
    "op", ["insert", "update", "delete", "snapshot"]
).count().orderBy("database", "table").show(50, False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The history of one key
# MAGIC The table and key of the widgets; by default the key that changed most.

# COMMAND ----------

busiest = (
    lake["changes"]
    .where("key <> '[]'")
    .groupBy("database", "table", "key")
    .count()
    .orderBy(F.desc("count"), "database", "table", "key")
    .first()
)
table = said["table"] or (free_name(f"silver_{busiest.database}__{busiest.table}", {}) if busiest else "")
key = said["key"] or (busiest.key if busiest else "")
print(table, key)
if table in lake:
    history = lake[table].where(F.col("key") == key).orderBy("position")
    history.select(
        "committed_at", "op", F.to_json("before").alias("before"), F.to_json("after").alias("after"), "flags"
    ).show(100, False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## From what to what
# MAGIC The columns that each update of this table changed, but for binary ones.

# COMMAND ----------

if table in lake:
    values = [
        F.struct(
            F.lit(field.name).alias("column"),
            *[F.col(side).getField(field.name).cast("string").alias(side) for side in ("before", "after")],
        )
        for field in lake[table].schema["after"].dataType.fields
        if field.dataType.typeName() != "binary"
    ]
    updates = lake[table].where("op = 'update' AND before IS NOT NULL")
    cells = updates.select(
        "committed_at", "position", "key", F.explode(F.array(*values)).alias("cell")
    ).select("*", "cell.*")
    # an old image may lack columns: what it does not say is not a change
    changed = cells.where("NOT before <=> after AND (before IS NOT NULL OR after IS NULL)").orderBy(
        "position"
    )
    changed.select("committed_at", "key", "column", "before", "after").show(50, False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Changes per minute

# COMMAND ----------

times = None
for name in tables:
    one = lake[name].select(
        F.lit(name.removeprefix("silver_")).alias("table"),
        F.date_trunc("minute", "committed_at").alias("minute"),
    )
    times = one if times is None else times.unionByName(one)
if times is not None:
    per_minute = times.groupBy("minute").pivot("table").count().orderBy("minute")
    per_minute.show(100, False)

# COMMAND ----------

try:
    import matplotlib.pyplot as plt
except ImportError:
    plt = None
    print("no plot: matplotlib is not installed (pip install matplotlib)")
if plt is not None and times is not None:
    rows = [row.asDict() for row in per_minute.collect()]
    figure, axes = plt.subplots(figsize=(10, 4))
    for name in per_minute.columns[1:]:
        axes.plot([row["minute"] for row in rows], [row[name] or 0 for row in rows], marker="o", label=name)
    axes.set_ylabel("changes per minute")
    axes.legend(fontsize="small")
    figure.autofmt_xdate()
    if "dbutils" in globals():
        plt.show()
    else:
        figure.savefig("changes_per_minute.png")
        print("changes_per_minute.png")

# COMMAND ----------

# MAGIC %md
# MAGIC ## DDL in its order

# COMMAND ----------

lake["schema_changes"].orderBy("source", "position").select(
    "source", "database", "table", "kind", "commit_ts", "ddl"
).show(100, 120)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Dead letters
# MAGIC What could not be decoded, why, and where its bytes are in bronze. `exact` tables have none.

# COMMAND ----------

lake["dead_letters"].groupBy("source", "code", "message").count().show(50, False)
lake["dead_letters"].select(
    "source", "code", "database", "table", "origin.topic", "origin.partition", "origin.offset", "origin.path"
).show(50, False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What gold has published

# COMMAND ----------

lake["manifests"].orderBy("source", "published_at").show(50, False)
