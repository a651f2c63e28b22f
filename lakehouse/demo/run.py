"""`lakehouse demo`: a real broker, a recorded TiCDC Open Protocol stream, all three layers, and the result.

The recording (demo.jsonl) is the stream of a small shop in three partitions: inserts, updates, deletes, a
change of key, DDL in the middle (ADD, DROP COLUMN, RENAME TABLE, TRUNCATE), resolved events, and the
duplicates of a TiCDC restart. The broker's data is kept next to the lake, so a second run finds topic and
tables as they are, and adds nothing.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakehouse.config.load import Config
from lakehouse.config.models import KafkaInput, SourceConfig
from lakehouse.demo.kafka_broker import start_broker
from lakehouse.discovery.detect_format import guess_format
from lakehouse.errors import LakehouseError
from lakehouse.ops.records.gold import Manifest
from lakehouse.sources.kafka_admin import list_topics
from lakehouse.sources.kafka_produce import produce
from lakehouse.sources.recording import read_recording
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.pipeline.run import run
from lakehouse.spark.readers.show import show_table
from lakehouse.spark.session import get_session

RECORDING = Path(__file__).with_name("demo.jsonl")
TOPIC = "shop"
SOURCE = "demo"
REPORT = "_report.html"


def run_demo(lake: str, port: int, progress: Callable[[str], None]) -> dict[str, Any]:
    """Start the broker on `port` (0: any), publish missing messages, run the layers once, and return what is
    there.
    """
    if "://" in lake:
        raise LakehouseError(f"{lake}: expected a local folder for the demo; give another with --lake")
    root = Path(lake)
    progress(f"broker  starting Kafka in {root / '_broker'}")
    with start_broker(root / "_broker", port) as broker:
        published = publish(broker.bootstrap, progress)
        progress("spark   starting")
        outcome = run(
            configuration(broker.bootstrap),
            ("bronze", "silver", "gold"),
            True,
            (),
            lake=lake,
            progress=progress,
        )[0]
    return {"published": published, **outcome, **details(lake)}


def publish(bootstrap: str, progress: Callable[[str], None]) -> int:
    """Publish the messages of the recording that the topic does not have; returns how many."""
    known = {
        number: end
        for topic in list_topics(bootstrap, {}, [TOPIC], None)
        for number, (_, end) in topic.offsets.items()
    }
    missing = [
        message for message in read_recording(RECORDING) if message.offset >= known.get(message.partition, 0)
    ]
    if missing:
        produce(missing, bootstrap, TOPIC, progress)
    progress(f"kafka   {bootstrap}: {len(missing)} messages published to {TOPIC}")
    return len(missing)


def configuration(bootstrap: str) -> Config:
    """The configuration of the demo source, as a YAML would define it."""
    source = SourceConfig(
        format=guess_format(list(read_recording(RECORDING))).format,
        kafka=KafkaInput(bootstrap_servers=bootstrap, topics=[TOPIC]),
        time_zone="UTC",
        tables="auto",
        consistency="resolved",
    )
    return Config(sources={SOURCE: source}, tables={}, documents={})


def rows_of(lake: str, outcome: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The rows of the demo's gold tables, by the tables' names."""
    names = [table["table"] for table in outcome["tables"] if table["state"] != "retired"]
    shown = {name: show_table(lake, f"{SOURCE}:{name}", "gold", None) for name in names}
    return {name: [json.loads(line) for line in one.lines] for name, one in shown.items()}


def details(lake: str) -> dict[str, Any]:
    """Rows per layer and the DDL statements applied."""
    from lakehouse.spark.lake import Lake
    from lakehouse.spark.silver.tables import read_silver

    spark, place = get_session(), Lake(lake)
    log = OpsLog(spark, place, SOURCE).load()
    manifest = log.last(Manifest)
    ddl = read_silver(spark, place, SOURCE, "schema_changes").orderBy("position").select("ddl").collect()
    rows = {
        "bronze": place.read(spark, "bronze", SOURCE).count(),
        "silver": read_silver(spark, place, SOURCE, "changes").count(),
        "gold": sum(
            place.read(spark, "gold", entry.gold).count() for entry in (manifest.tables if manifest else ())
        ),
    }
    return {"rows": rows, "ddl_applied": [row.ddl for row in ddl]}
