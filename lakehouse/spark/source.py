"""A source's configuration as the layers use it: settings of silver and gold, its lake, and its record in the
lake.
"""

from dataclasses import dataclass, replace

import msgspec
from msgspec import UNSET

from lakehouse.config.load import Config, kafka_options, resolve_source
from lakehouse.config.models import SourceConfig, TableConfig
from lakehouse.ddl.policy import Rules
from lakehouse.formats import FORMATS, order_of, sends_watermarks
from lakehouse.gold.options import GoldOptions, from_plain, options_from, to_plain
from lakehouse.gold.upstream import clock_of, upstream_of
from lakehouse.lineage import Name
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.quality.suite import Suite, suite_of
from lakehouse.spark.bronze.kafka import KafkaInput
from lakehouse.spark.change_log.schema_history import Said
from lakehouse.spark.gold.settings import GoldSettings
from lakehouse.spark.lake import Lake
from lakehouse.spark.silver.tables import SilverSettings


@dataclass(frozen=True, slots=True)
class Source:
    """A configured source, ready to run. `settings` are those that readers of the lake need."""

    name: str
    config: SourceConfig
    lake: Lake
    silver: SilverSettings
    gold: GoldSettings
    settings: SourceSettings


def source_with(
    name: str, config: SourceConfig, lake: Lake, settings: SourceSettings, *, consistency: str
) -> Source:
    """The source whose layers run as its settings describe."""
    batch = config.batch
    silver = silver_settings_of(name, settings)
    silver = replace(silver, max_records=batch.max_records, max_bytes=batch.max_bytes)
    gold = gold_settings_of(name, settings, consistency)
    as_read_again = msgspec.json.decode(msgspec.json.encode(settings), type=SourceSettings)
    return Source(name, config, lake, silver, gold=gold, settings=as_read_again)


def silver_settings_of(name: str, settings: SourceSettings) -> SilverSettings:
    """The silver settings that a source's recorded settings describe."""
    return SilverSettings(
        name,
        settings.format,
        settings.order,
        settings.options,
        row_ids=settings.row_ids,
        settled=settings.settled,
    )


def gold_settings_of(name: str, settings: SourceSettings, consistency: str) -> GoldSettings:
    """The gold settings that a source's recorded settings describe, for commands that read no YAML."""
    options = options_in(settings)
    return GoldSettings(
        name,
        upstream_of(settings.format, settings.options),
        consistency,
        settings.virtual,
        tables=None if settings.auto else frozenset(options),
        options=options,
        clock=clock_of(settings.format, settings.order),
        drift_timeout=settings.drift_timeout,
        suites=suites_in(settings),
        settled=settings.settled,
        old_rows=FORMATS[settings.format].producer.old_rows,
        read_as=silver_settings_of(name, settings).read_as,
        said=said_in(settings),
    )


def options_in(settings: SourceSettings) -> dict[tuple[str, str], GoldOptions]:
    """The tables' options from the source's recorded settings."""
    return {name: from_plain(said) for name, said in settings.tables}


def said_in(settings: SourceSettings) -> Said:
    """What the schema history needs of YAMLs, from what the lake knows of a source."""
    logs = frozenset(name for name, one in options_in(settings).items() if one.goes_on)
    upstream = upstream_of(settings.format, settings.options)
    rules = Rules(
        dict(settings.on_ddl),
        logs=logs,
        charset=upstream.charset,
        mixes_names=upstream.mixes_names,
        hides_sessions=upstream.hides_sessions,
        tells_all=FORMATS[settings.format].tells_all,
        server=upstream.server,
    )
    return Said(rules, settings.keys, settings.virtual)


def suites_in(settings: SourceSettings) -> dict[Name, Suite]:
    """The tables' expectations from the source's recorded settings."""
    suites = () if settings.suites is UNSET else settings.suites
    return {(database, table): suite_of(entries) for database, table, entries in suites}


def selected_sources(config: Config, select: tuple[str, ...], lake: str | None) -> list[Source]:
    """The sources that `--select` names, by themselves or by one of their tables; all where it names none."""
    wanted = set(select)
    named = {table.source for name, table in config.tables.items() if name in wanted} | wanted
    return [source_of(config, name, lake) for name in config.sources if not wanted or name in named]


def source_of(config: Config, name: str, lake: str | None) -> Source:
    """The configured source with its tables."""
    found = resolve_source(config.sources[name])
    settings = settings_of(config, name, found)
    has_marks = sends_watermarks(found.format, settings.options)
    consistency = found.consistency or ("resolved" if has_marks else "eventual")
    return source_with(name, found, lake_of(found, lake), settings, consistency=consistency)


def settings_of(config: Config, name: str, found: SourceConfig) -> SourceSettings:
    """The settings of a configured source and its tables."""
    options, tables, suites = (
        found.decoder_options(),
        options_of_tables(config, name),
        suites_of(config, name),
    )
    timeout = found.drift_timeout
    return SourceSettings(
        format=found.format,
        order=order_of(found.format, options),
        options=options,
        virtual=FORMATS[found.format].producer.carries_virtual,
        row_ids=found.row_ids == "sent",
        settled=found.recording is not None,
        drift_timeout=None if timeout is None else timeout.total_seconds(),
        keys={".".join(one): said.key for one, said in tables.items() if said.key},
        on_ddl=tuple((one, said.on_ddl) for one, said in tables.items() if said.on_ddl),
        auto=found.tables == "auto",
        tables=tuple((one, to_plain(said)) for one, said in sorted(tables.items())),
        suites=tuple((*one, tuple(suite.plain())) for one, suite in suites.items()) if suites else UNSET,
    )


def options_of_tables(config: Config, source: str) -> dict[tuple[str, str], GoldOptions]:
    """The options of a source's tables, from their YAMLs."""
    mine = [(name, table) for name, table in config.tables.items() if table.source == source]
    return {name: gold_options(file, table) for file, table in mine for name in table.source_tables}


def gold_options(file: str, table: TableConfig) -> GoldOptions:
    """A table's options, each from the YAML's option of the same name; several tables become one under the
    name of their file.
    """
    return options_from({**table.model_dump(), **table.gold.model_dump()}, file if table.tables else "")


def suites_of(config: Config, source: str) -> dict[tuple[str, str], Suite]:
    """The expectations of the source's tables, of those that have any."""
    mine = [table for table in config.tables.values() if table.source == source and table.quality]
    return {
        name: suite_of(check.model_dump() for check in table.quality)
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
