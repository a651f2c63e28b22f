"""`lakehouse doctor`: can this machine, each source and its lake run? Each finding is ok, warn or fail, with
what to do.

    machine   Python, packages, Java, jars, memory                                     machine_checks.py
    config    what `validate` reports
    source    broker, topics and retention; folder or recording; messages and the      source_checks.py
              producer's settings that they show
    lake      can it be written, is there room                                         machine_checks.py
              with Spark: does the catalog answer, which version wrote it

Nothing is changed, but jars are downloaded once, and a file or table is written to the lake and removed.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from lakehouse.config.load import check, load, resolve_source
from lakehouse.config.models import SourceConfig
from lakehouse.discovery.findings import FAIL, OK, WARN, Finding, error_finding
from lakehouse.discovery.machine_checks import folder_findings, machine_findings
from lakehouse.discovery.source_checks import source_findings
from lakehouse.errors import LakehouseError
from lakehouse.ops.file_lock import is_remote

Progress = Callable[[str], None]
# The checks of a source's lake that need a session; the second argument is the lake's root, if the caller
# names one.
LakeChecks = Callable[[SourceConfig, str | None], Iterable[Finding]]


def doctor(
    configs: Path,
    progress: Progress,
    lake_checks: LakeChecks,
    *,
    lake: str | None = None,
    spark: bool = False,
) -> list[dict[str, str]]:
    """All findings, those of the machine first. `lake_checks` starts a session: for every lake that is remote
    or in a catalog, and with `spark` for local ones too.
    """
    sources = every_source_findings(configs, progress, lake_checks, lake=lake, spark=spark)
    return [
        finding._asdict() for finding in [*machine_findings(), *configuration_findings(configs), *sources]
    ]


def failed(findings: list[dict[str, str]]) -> bool:
    """Whether any finding is a failure."""
    return any(finding["state"] == FAIL for finding in findings)


def configuration_findings(folder: Path) -> Iterator[Finding]:
    """The problems and warnings of `validate` as findings."""
    if not folder.is_dir():
        yield Finding(
            "config",
            str(folder),
            WARN,
            "is no folder: no source is checked",
            fix="lakehouse init writes one; or name it with --configs",
        )
        return
    errors, warnings = check(folder)
    for state, problems in ((FAIL, errors), (WARN, warnings)):
        for problem in problems:
            # the option's name, since several of one line may have the same words as their fix
            about = f"{problem.file}:{problem.line} {problem.path}".rstrip()
            yield Finding("config", about, state, problem.text, fix=problem.fix)
    if not errors and not warnings:
        yield Finding("config", str(folder), OK, "")


def every_source_findings(
    configs: Path, progress: Progress, lake_checks: LakeChecks, *, lake: str | None, spark: bool
) -> Iterator[Finding]:
    """Findings on each source and its lake; none where the configuration is invalid."""
    if not configs.is_dir() or check(configs)[0]:
        return
    config = load(configs)
    checks_by_root: dict[str, Callable[[], Iterator[Finding]]] = {}
    for name, configured in config.sources.items():
        progress(f"source  {name}")
        try:
            source = resolve_source(configured)
            yield from source_findings(name, source)
        except LakehouseError as error:
            yield error_finding("source", name, error)
            continue
        own_lake = None if lake is not None else source.lake
        root = lake or (own_lake.path if own_lake else "./lake")
        needs_spark = spark or is_remote(root) or (own_lake is not None and own_lake.catalog is not None)
        checks = lake_checks if needs_spark else None
        checks_by_root.setdefault(root, partial(_lake_findings, source, root, lake, checks))
    for lake_check in checks_by_root.values():
        yield from lake_check()


def _lake_findings(
    source: SourceConfig, root: str, named: str | None, lake_checks: LakeChecks | None
) -> Iterator[Finding]:
    if not is_remote(root):
        yield from folder_findings(root)
    if lake_checks is not None:
        yield from lake_checks(source, named)
