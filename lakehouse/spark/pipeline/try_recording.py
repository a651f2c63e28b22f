"""`lakehouse try`: one pass of all three layers over a recording or a storage folder, without YAML."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import UNSET

from lakehouse.config.models import SourceConfig, StorageInput
from lakehouse.discovery.read_input import has_watermark, shown_options
from lakehouse.errors import ConfigError
from lakehouse.formats import FORMATS, order_of
from lakehouse.ops.file_lock import has_flock, is_remote
from lakehouse.ops.source_settings import SourceSettings
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.run_context import Progress
from lakehouse.spark.pipeline.one_pass import LAYERS, Stop, run_once
from lakehouse.spark.session import get_session
from lakehouse.spark.source import Source, source_with


def try_recording(
    path: Path, format_: str, options: Mapping[str, str], lake: str, consistency: str, progress: Progress
) -> dict[str, Any]:
    """Run all three layers over a recording once. Returns the result of the run; a second call adds
    nothing.
    """
    if format_ not in FORMATS:
        raise ConfigError(f"--format {format_}: expected one of {', '.join(FORMATS)}")
    if not path.exists():
        raise ConfigError(f"{path}: expected a recording, found nothing")
    said, options = options, shown_options(path, format_, options)
    if not FORMATS[format_].reads_files:
        _tell_settings(path, said, options, progress)
    if consistency == "resolved" and not has_watermark(path, format_, options):
        progress(f"{path}: it sends no watermark: gold shows all that has arrived (--consistency eventual)")
        consistency = "eventual"
    source = source_of_path(path, format_, options, Lake(lake), consistency=consistency)
    if not is_remote(lake):
        has_flock(lake)  # says at once, before Spark starts, when the folder can't be written
    progress(f"lake    {lake}: starting Spark")
    return run_once(get_session(), source, LAYERS, Stop(), progress=progress)


def _tell_settings(path: Path, said: Mapping[str, str], shown: Mapping[str, str], progress: Progress) -> None:
    """Tell the settings of the producer that decide what values are, where messages alone show them."""
    others = [
        f"{name}={value}"
        for name, value in shown.items()
        if name not in said and name.endswith(("_mode", "time_zone"))
    ]
    if others:
        progress(f"{path}: its messages show {', '.join(others)}; --option NAME=VALUE says otherwise")


def source_of_path(
    path: Path, format_: str, options: Mapping[str, str], lake: Lake, *, consistency: str
) -> Source:
    """A source that reads this path with these decoder options; its name is made from the path."""
    if FORMATS[format_].reads_files:
        config = SourceConfig(format=format_, storage=StorageInput(path=str(path)))
    else:
        config = SourceConfig(format=format_, recording=[str(path)])
    settings = SourceSettings(
        format=format_,
        order=order_of(format_, options),
        options=dict(options),
        virtual=FORMATS[format_].producer.carries_virtual,
        row_ids=False,
        settled=True,
        drift_timeout=0.0,
        keys={},
        on_ddl=(),
        auto=True,
        tables=(),
        suites=UNSET,
    )
    return source_with(source_name(path), config, lake, settings, consistency=consistency)


def source_name(path: Path) -> str:
    """A source's name from a file's, or from a folder's and its parent's: letters, digits and underscores."""
    whole = path.resolve()
    named = f"{whole.parent.name} {whole.name}" if whole.is_dir() else whole.stem
    return re.sub(r"\W+", "_", named).strip("_").lower() or "recording"
