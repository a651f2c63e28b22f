"""Faults of a bundle, one of each kind: how it gets into the files, and what our lint and the CLI say."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.bundle.cases import give, include, own
from tests.support.workspace_state import WAREHOUSE

BUNDLE = "databricks.yml"
DASHBOARD = "resources/dashboard/lakehouse.dashboard.yml"
JOB = "resources/lakehouse.job.yml"


class Fault(NamedTuple):
    """`cli` None: the CLI lets it pass, and only the lint sees it."""

    plant: Callable[[Path], None]
    lint: str
    cli: str | None
    target: str = "dev"


def put(file: str, old: str, new: str) -> Callable[[Path], None]:
    """Put a text in the place of another one, which is there."""

    def plant(folder: Path) -> None:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))

    return plant


def on_dashboard(plant: Callable[[Path], None]) -> Callable[[Path], None]:
    """A fault in the variant with the dashboard."""

    def both(folder: Path) -> None:
        include(folder, "resources/dashboard/*.yml")
        give(folder, "warehouse_id", WAREHOUSE)
        plant(folder)

    return both


def no_warehouse(folder: Path) -> None:
    include(folder, "resources/dashboard/*.yml")


def two_files(folder: Path) -> None:
    shutil.copy(folder / "resources/ops.schema.yml", folder / "resources/ops_again.schema.yml")


def no_wheel(folder: Path) -> None:
    shutil.rmtree(folder / "wheels")


def nothing(folder: Path) -> None:
    """The bundle as it is."""


_SYNC = "sync:\n"
_WAREHOUSE_FIELD = "      warehouse_id: ${var.warehouse_id}\n"
FAULTS = {
    "one key for a job and a dashboard": Fault(
        on_dashboard(put(DASHBOARD, "    lakehouse_dashboard:", "    lakehouse:")),
        "lakehouse: is the key of jobs and dashboards",
        "multiple resources or scripts have been defined with the same key: lakehouse",
    ),
    "a resource in two files": Fault(
        two_files,
        "schemas.ops: is defined in two files",
        "multiple resources or scripts have been defined with the same key: ops",
    ),
    "a dashboard without a warehouse": Fault(
        on_dashboard(put(DASHBOARD, _WAREHOUSE_FIELD, "")),
        "dashboards.lakehouse_dashboard: lacks warehouse_id",
        "dashboard warehouse_id is required",
    ),
    "a dashboard with an empty warehouse": Fault(
        on_dashboard(put(DASHBOARD, "${var.warehouse_id}", '""')),
        "dashboards.lakehouse_dashboard: lacks warehouse_id",
        "dashboard warehouse_id is required",
    ),
    "a variable without a value": Fault(
        no_warehouse,
        "variables.warehouse_id: has no value",
        "no value assigned to required variable warehouse_id",
    ),
    "a volume without a schema": Fault(
        put("resources/reports.volume.yml", "      schema_name: ${resources.schemas.ops.name}\n", ""),
        "volumes.reports: lacks schema_name",
        "schema_name",
    ),
    "production that runs as nobody": Fault(
        nothing,
        "run_as: names nobody",
        "run_as section must specify exactly one identity",
        "prod",
    ),
    "a reference to a variable that is not there": Fault(
        put(JOB, "${var.notify}", "${var.notfy}"),
        "${var.notfy}: is not defined",
        "reference does not exist: ${var.notfy}",
    ),
    "a reference to a resource that is not there": Fault(
        put("resources/reports.volume.yml", "schemas.ops", "schemas.opps"),
        "${resources.schemas.opps.name}: is not defined",
        "${resources.schemas.opps.name}",
    ),
    "a pattern of sync that matches nothing": Fault(
        put(BUNDLE, _SYNC, f"{_SYNC}  exclude:\n    - .ci/**\n"),
        "sync.exclude: .ci/** matches nothing",
        "Pattern .ci/** does not match any files",
    ),
    "a path of sync that is not there": Fault(
        put(BUNDLE, "    - notebooks\n", "    - notebook\n"),
        "sync.paths: notebook is not there",
        "notebook",
    ),
    "a configuration that is not uploaded": Fault(
        put(BUNDLE, "    - configs\n", ""),
        "sync.paths: leave out configs/databricks, which the jobs read",
        None,
    ),
    "no wheel": Fault(no_wheel, "artifacts: build no wheel", "lakehouse_cdc-*.whl"),
    "a wheel task that names another distribution": Fault(
        put(JOB, "package_name: lakehouse-cdc", "package_name: lakehouse"),
        "lakehouse.gold: looks for lakehouse-gold in lakehouse, expected lakehouse-cdc",
        None,
    ),
    "an include that matches nothing": Fault(
        put(BUNDLE, "  - resources/*.yml\n", "  - resources/*.yml\n  - resources/dashbord/*.yml\n"),
        "include: resources/dashbord/*.yml matches nothing",
        None,
    ),
}


def faulty(name: str, folder: Path) -> Fault:
    """Write the bundle that `lakehouse init --bundle` writes, with this fault in it."""
    fault = FAULTS[name]
    own(folder)
    fault.plant(folder)
    return fault
