"""The schema of bronze: one row per Kafka record, recorded message or file, with the bytes as they came."""

from pyspark.sql.types import StructType

from lakehouse.spark.column_types import columns

HEADERS = "array<struct<key:string,value:binary>>"


BRONZE_SCHEMA: StructType = columns(
    "topic string, incarnation string, partition int, offset bigint, timestamp bigint, timestamp_type int, "
    "key binary, value binary,"
    f" headers {HEADERS}, path string, size bigint, mtime bigint"
)
