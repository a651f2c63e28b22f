"""A source's configuration as the layers want it."""

import json
from dataclasses import dataclass
from typing import Any

from lakehouse.carry import upstream_of
from lakehouse.config import Config, kafka_options, resolve_source
from lakehouse.config_models import SourceConfig
from lakehouse.formats import order_of, sends_watermarks
from lakehouse.spark.gold import GoldFeed
from lakehouse.spark.lake import Lake
from lakehouse.spark.silver import Feed
from lakehouse.spark.topics import KafkaInput


@dataclass(frozen=True, slots=True)
class Source:
    """One source, ready to run."""

    name: str
    config: SourceConfig
    lake: Lake
    silver: Feed
    gold: GoldFeed

    @property
    def settings(self) -> dict[str, Any]:
        """What a reader of the lake must know of it."""
        return settings_of(self.silver, self.gold)


def settings_of(silver: Feed, gold: GoldFeed) -> dict[str, Any]:
    """What a reader of the lake must know of a source."""
    told = {"format": silver.format, "order": silver.order, "options": silver.options, "virtual": gold.virtual,
            "row_ids": silver.row_ids, **gold.told}  # fmt: skip
    tables = None if gold.tables is None else [[list(name), table] for name, table in gold.tables.items()]
    return json.loads(json.dumps({**told, "tables": tables}))  # as it is read again


def feed_of(name: str, settings: dict[str, Any], consistency: str) -> GoldFeed:
    """The gold feed that a source's recorded settings describe, for commands that have no YAML at hand."""
    listed = settings.get("tables")
    tables = None if listed is None else {(table[0][0], table[0][1]): table[1] for table in listed}
    return GoldFeed(name, upstream_of(settings["format"], settings["options"]), consistency, settings["virtual"], tables)


def selected_sources(config: Config, select: tuple[str, ...], lake: str | None) -> list[Source]:
    """The sources that `--select` names, by themselves or by one of their tables; all where it names none."""
    wanted = set(select)
    named = {table.source for name, table in config.tables.items() if name in wanted} | wanted
    return [source_of(config, name, lake) for name in config.sources if not wanted or name in named]


def source_of(config: Config, name: str, lake: str | None) -> Source:
    """One source with its tables."""
    found = resolve_source(config.sources[name])
    options = found.decoder_options()
    order = order_of(found.format, options)
    settled = found.recording is not None
    silver = Feed(name, found.format, order, options, found.row_ids == "sent", found.batch.max_records, found.batch.max_bytes, settled)
    consistency = found.consistency or ("resolved" if sends_watermarks(found.format, options) else "eventual")
    gold = GoldFeed(name, upstream_of(found.format, options), consistency, carries_virtual(found.format), tables_of(config, name))
    return Source(name, found, lake_of(found, lake), silver, gold)


def carries_virtual(format_: str) -> bool:
    """Whether rows have VIRTUAL generated columns: binlogs do, TiCDC leaves them out."""
    return not format_.startswith("ticdc")


def tables_of(config: Config, source: str) -> dict[tuple[str, str], dict[str, Any]] | None:
    """The configured tables; None where the source takes every table it meets."""
    if config.sources[source].tables == "auto":
        return None
    mine = [table for table in config.tables.values() if table.source == source]
    return {
        name: {"target": table.gold.target, "key": table.key, "on_ddl": dict(table.on_ddl)}
        for table in mine
        for name in table.source_tables
    }


def lake_of(source: SourceConfig, given: str | None) -> Lake:
    """The source's own lake, unless the command names another root."""
    own = source.lake
    if given is not None or own is None:
        return Lake(given or "./lake")
    schemas = {"bronze": own.bronze, "silver": own.silver, "gold": own.gold, "ops": own.ops}
    return Lake(own.path, own.catalog, schemas)


def kafka_input(source: Source) -> KafkaInput:
    """The Kafka source as bronze wants it, secrets resolved."""
    kafka = source.config.kafka
    assert kafka is not None
    return KafkaInput(
        bootstrap=kafka.bootstrap_servers,
        names=kafka.topics,
        pattern=kafka.topic_pattern,
        starting=kafka.starting,
        options=dict(kafka_options(source.config)),
        max_records=source.config.batch.max_records,
        partitions=kafka.partitions,
        arrival=source.silver.order == "arrival",
    )
