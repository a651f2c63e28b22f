"""`lakehouse try`: a recording through all three layers, with no YAML."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakehouse.discovery.read_input import shown_options, tells_watermark
from lakehouse.errors import ConfigError
from lakehouse.formats import FORMATS, order_of
from lakehouse.gold.upstream import clock_of, upstream_of
from lakehouse.ops.file_lock import has_flock, is_remote
from lakehouse.ops.records import RunInput
from lakehouse.spark.bronze.claim_checks import land_attachments
from lakehouse.spark.bronze.recordings import land_messages
from lakehouse.spark.bronze.storage import land_storage
from lakehouse.spark.gold.run import run_gold
from lakehouse.spark.gold.settings import GoldFeed
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.lake_record import register
from lakehouse.spark.ops.lease import layer_lock
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.ops.run_context import Progress, RunContext
from lakehouse.spark.ops.run_record import recorded
from lakehouse.spark.pipeline.one_pass import (
    LAYERS,
    messages_of,
    outcome,
)
from lakehouse.spark.session import get_session
from lakehouse.spark.silver.run import run_silver
from lakehouse.spark.silver.tables import Feed
from lakehouse.spark.source import settings_of


def try_recording(
    path: Path, format_: str, options: Mapping[str, str], lake: str, consistency: str, progress: Progress
) -> dict[str, Any]:
    """A recording through all three layers, with no YAML. Returns what came out; a second call adds
    nothing.
    """
    if format_ not in FORMATS:
        raise ConfigError(f"--format {format_}: expected one of {', '.join(FORMATS)}")
    if not path.exists():
        raise ConfigError(f"{path}: expected a recording, found nothing")
    options = shown_options(path, format_, options)
    name = source_name(path)
    order = order_of(format_, dict(options))
    silver = Feed(name, format_, order, dict(options), settled=True)
    if consistency == "resolved" and not tells_watermark(path, format_, options):
        progress(f"{path}: it sends no watermark: gold shows all that has arrived (--consistency eventual)")
        consistency = "eventual"
    gold = GoldFeed(
        name,
        upstream_of(format_, options),
        consistency,
        virtual=FORMATS[format_].producer.carries_virtual,
        clock=clock_of(format_, order),
        drift_timeout=0,
    )
    settings = settings_of(silver, gold)
    if not is_remote(lake):
        has_flock(lake)  # says at once, before Spark starts, when the folder can't be written
    progress(f"lake    {lake}: starting Spark")
    spark, place = get_session(), Lake(lake)
    with layer_lock(spark, place, name, LAYERS):
        register(spark, place, name, settings)
        log = OpsLog(spark, place, name).load()
        context = RunContext(log, progress)
        began = log.seq
        with recorded(log, LAYERS, RunInput(paths=(str(path),))) as record:
            with record.timed("bronze"):
                if FORMATS[format_].reads_files:
                    record.landed = land_storage(context, str(path), options)
                else:
                    record.landed = land_messages(context, messages_of(path))
                land_attachments(context, format_, options)
            with record.timed("silver"):
                record.batches = run_silver(context, silver)
            with record.timed("gold"):
                published = run_gold(spark, place, gold, log, progress=progress)
            record.published = int(published is not None)
        log.tidy(began)
    return outcome(log, record.landed, record.batches, published)


def source_name(path: Path) -> str:
    """A source's name from a file's, or from a folder's and its parent's: letters, digits and underscores."""
    whole = path.resolve()
    named = f"{whole.parent.name} {whole.name}" if whole.is_dir() else whole.stem
    return re.sub(r"\W+", "_", named).strip("_").lower() or "recording"
