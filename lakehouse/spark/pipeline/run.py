"""Runs the layers of the configured sources, once or continuously: what `run` and the jobs call."""

from collections.abc import Iterable, Iterator
from typing import Any

from lakehouse.config.load import Config
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.ops.file_lock import has_flock, is_remote
from lakehouse.spark.ops.run_context import Progress
from lakehouse.spark.ops.run_record import error_text
from lakehouse.spark.pipeline.continuous import run_continuously
from lakehouse.spark.pipeline.one_pass import Stop, run_once
from lakehouse.spark.session import ONE_DRIVER, get_session, keeps_drivers_apart
from lakehouse.spark.source import selected_sources


def run(
    config: Config,
    layers: Iterable[str],
    once: bool,
    select: tuple[str, ...],
    lake: str | None,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Run layers of the selected sources; `once` ends when all that is there is done. See `runs`."""
    return list(runs(config, layers, once, select, lake=lake, progress=progress))


def runs(
    config: Config,
    layers: Iterable[str],
    once: bool,
    select: tuple[str, ...],
    lake: str | None,
    progress: Progress,
) -> Iterator[dict[str, Any]]:
    """The same, outcome by outcome. A source that fails stops no other: its error is raised when all the
    others are done.
    """
    sources = selected_sources(config, select, lake)
    if not sources:
        raise ConfigError("run: expected at least one source; --select names none that is configured")
    roots = sorted({source.lake.root for source in sources})
    for root in roots:
        if not is_remote(root):
            has_flock(root)  # says at once, before Spark starts, when the folder can't be written
    with Stop().installed() as stop:
        spark = get_session()
        for root in roots:
            if not keeps_drivers_apart(spark, root):
                progress(f"warning: {root}: {ONE_DRIVER}")
        if not once:
            yield from run_continuously(spark, sources, tuple(layers), stop, progress=progress)
            return
        failed: dict[str, Exception] = {}
        for source in sources:
            if stop():
                break
            try:
                yield run_once(spark, source, tuple(layers), stop, progress=progress)
            except Exception as error:
                failed[source.name] = error
                if len(sources) > 1:
                    progress(f"problem: {source.name}: {error_text(error)}")
        if len(failed) > 1:
            raise LakehouseError(
                f"{len(failed)} of {len(sources)} sources failed: {', '.join(failed)}"
            ) from next(iter(failed.values()))
        if failed:
            raise next(iter(failed.values()))
