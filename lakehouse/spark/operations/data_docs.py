"""Validates the published gold tables with Great Expectations and builds its Data Docs: a separate task,
after gold.

    FOLDER/gx/expectations/<db>/<table>.json         the suites, as GX reads and writes them
    FOLDER/gx/uncommitted/data_docs/local_site/      the pages that people open

It looks at each table at the version that the last manifest names, so all results are of one instant of the
source. Checks that need the whole table are made here and nowhere else. The import of GX takes seconds and
stays in here.
"""

import json
import os
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.config.load import Config
from lakehouse.errors import EnvironmentError_, LakehouseError, QualityError
from lakehouse.ops.records.gold import Manifest, TableEntry
from lakehouse.quality.suite import Suite, gx_suite
from lakehouse.spark.lake import Lake
from lakehouse.spark.ops.lake_record import sources
from lakehouse.spark.ops.log import OpsLog
from lakehouse.spark.session import get_session
from lakehouse.spark.source import selected_sources, suites_in
from lakehouse.spark.table_versions import read_published

INDEX = "gx/uncommitted/data_docs/local_site/index.html"


def check_sources(
    config: Config, select: tuple[str, ...], root: str | None, folder: Path
) -> list[dict[str, Any]]:
    """The same for the configured sources, wherever their lakes are."""
    spark = get_session()
    chosen = selected_sources(config, select, root)
    return _check(
        [
            (source.lake, suite)
            for source in chosen
            for suite in suites_of_lake(spark, source.lake, source.name)
        ],
        folder,
    )


def check_lake(root: str, folder: Path) -> list[dict[str, Any]]:
    """Validate every gold table that has expectations and build the Data Docs; one entry per table and
    expectation.
    """
    spark, lake = get_session(), Lake(root)
    return _check(
        [(lake, suite) for source in sources(spark, lake) for suite in suites_of_lake(spark, lake, source)],
        folder,
    )


def _check(tables: list[tuple[Lake, tuple[str, Suite, TableEntry]]], folder: Path) -> list[dict[str, Any]]:
    spark = get_session()
    if not tables:
        raise LakehouseError("quality: expected a published table with `quality:` in its YAML, found none")
    write_suites(folder, {name: suite for _, (name, suite, _) in tables})
    context = _context(folder)
    outcomes = []
    for lake, (name, suite, entry) in tables:
        frame = read_published(spark, lake, entry)
        result = _run(context, name, frame)
        outcomes += [
            _outcome(name, check, told)
            for check, told in zip(suite.checks, _in_order(name, suite, result), strict=True)
        ]
    context.build_data_docs()
    return [{"page": str(folder / INDEX)}, *outcomes]


def suites_of_lake(spark: SparkSession, lake: Lake, source: str) -> list[tuple[str, Suite, TableEntry]]:
    """Per published table with expectations: its name, its suite and its entry in the manifest."""
    settings = sources(spark, lake).get(source)
    suites = suites_in(settings) if settings else {}
    manifest = OpsLog(spark, lake, source).load().last(Manifest)
    live = [entry for entry in (manifest.tables if manifest else ()) if entry.state != "retired"]
    named = [(entry, suites[name]) for entry in live for name in entry.names if name in suites]
    return [(entry.name, suite, entry) for entry, suite in named]


def write_suites(folder: Path, suites: dict[str, Suite]) -> list[Path]:
    """The suites as GX's own files."""
    written = []
    for name, suite in suites.items():
        # GX looks for a name with dots in folders
        *folders, last = name.split(".")
        path = (folder / "gx/expectations").joinpath(*folders, f"{last}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(gx_suite(name, suite), indent=2, default=str) + "\n", encoding="utf-8")
        written.append(path)
    return written


def gx_failures(spark: SparkSession, frame: DataFrame, suite: Suite, key: str) -> list[set[Any]]:
    """The values of `key` of the rows that fail each check, by GX itself: what notebooks show, and what
    compiled checks are held to.

    QualityError: GX could not judge a check.
    """
    gx = _gx()
    context = gx.get_context(mode="ephemeral")
    batch = _batch(context, frame)
    wanted = {"result_format": "COMPLETE", "unexpected_index_column_names": [key]}
    result = batch.validate(_suite(gx, "rows", suite), result_format=wanted)
    judged = list(zip(suite.checks, _in_order("rows", suite, result), strict=True))
    for check, told in judged:
        for problem in _problems(told.exception_info):
            raise QualityError(
                f"{check.label}: expected Great Expectations to judge it, got: {problem['exception_message']}"
            )
    return [{row[key] for row in told.result.get("unexpected_index_list") or []} for _, told in judged]


def _run(context: Any, name: str, frame: DataFrame) -> Any:
    """One table through a checkpoint, which stores the result where the Data Docs find it."""
    gx = _gx()
    suite = context.suites.get(name)
    batch = _batch_definition(context, name)
    definition = context.validation_definitions.add_or_update(
        gx.ValidationDefinition(name=name, data=batch, suite=suite)
    )
    checkpoint = context.checkpoints.add_or_update(
        gx.Checkpoint(
            name=name, validation_definitions=[definition], result_format={"result_format": "BASIC"}
        )
    )
    outcome = checkpoint.run(batch_parameters={"dataframe": frame})
    return next(iter(outcome.run_results.values()))


def _in_order(name: str, suite: Suite, result: Any) -> list[Any]:
    """The results in the order of the suite's checks: GX tells them column by column."""
    results = {one.expectation_config.id: one for one in result.results}
    return [results[expectation["id"]] for expectation in gx_suite(name, suite)["expectations"]]


def _outcome(name: str, check: Any, result: Any) -> dict[str, Any]:
    counts = {key: result.result.get(key) for key in ("element_count", "unexpected_count")}
    problem = next((info["exception_message"] for info in _problems(result.exception_info)), None)
    return {
        "table": name,
        "expectation": check.label,
        "action": check.action,
        "success": bool(result.success),
        **counts,
        "problem": problem,
    }


def _problems(info: Any) -> list[dict[str, Any]]:
    if not info:
        return []
    entries = [info] if "raised_exception" in info else list(info.values())
    return [entry for entry in entries if entry.get("raised_exception")]


def _context(folder: Path) -> Any:
    gx = _gx()
    context = gx.get_context(mode="file", project_root_dir=folder)
    context.variables.progress_bars = {"globally": False}
    return context


def _batch_definition(context: Any, name: str) -> Any:
    data = context.data_sources.add_or_update_spark("gold", persist=False)
    assets = {asset.name for asset in data.assets}
    asset = data.get_asset(name) if name in assets else data.add_dataframe_asset(name)
    known = {definition.name for definition in asset.batch_definitions}
    return (
        asset.get_batch_definition("whole")
        if "whole" in known
        else asset.add_batch_definition_whole_dataframe("whole")
    )


def _batch(context: Any, frame: DataFrame) -> Any:
    context.variables.progress_bars = {"globally": False}
    return _batch_definition(context, "rows").get_batch(batch_parameters={"dataframe": frame})


def _suite(gx: Any, name: str, suite: Suite) -> Any:
    return gx.ExpectationSuite(name=name, expectations=gx_suite(name, suite)["expectations"])


def _gx() -> Any:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    try:
        import great_expectations
    except ImportError:
        raise EnvironmentError_(
            "quality: expected the package great-expectations, found none; "
            "pip install 'lakehouse-cdc[quality]' brings it"
        ) from None
    return great_expectations
