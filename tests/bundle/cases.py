"""The bundles that are deployed: this repository's and what `lakehouse init --bundle` writes, each with every
variant that docs/databricks.md describes.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lakehouse.databricks.bundle import write_bundle
from tests.support.paths import ROOT
from tests.support.workspace_state import SERVICE_PRINCIPAL, WAREHOUSE

TARGETS = ("dev", "staging", "prod")
# what the wheel is built from, and what is deployed
_FOLDERS = ("lakehouse", "pipelines", "resources", "notebooks", "configs")
_FILES = ("pyproject.toml", "README.md", "LICENSE", "databricks.yml", ".gitignore")


class Case(NamedTuple):
    """A bundle: how it is written into an empty folder, and the job that `bundle run` runs."""

    name: str
    write: Callable[[Path], None]
    job: str


def checkout(folder: Path) -> None:
    """This repository, as a clone of it has it."""
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _FILES:
        shutil.copy(ROOT / name, folder)


def own(folder: Path) -> None:
    """What `lakehouse init --bundle` writes."""
    write_bundle(folder)


def include(folder: Path, pattern: str) -> None:
    """Add a line to `include` in databricks.yml."""
    file = folder / "databricks.yml"
    first = "  - resources/*.yml\n"
    file.write_text(file.read_text().replace(first, f"{first}  - {pattern}\n"))


def give(folder: Path, name: str, value: str) -> None:
    """Write a variable's value as its default, into the file that declares it."""
    for file in (folder / "databricks.yml", folder / "resources/dashboard/lakehouse.dashboard.yml"):
        head = rf"(?m)^(  {name}:\n    description: .*\n)(    default: .*\n)?"
        file.write_text(re.sub(head, rf'\1    default: "{value}"\n', file.read_text()))


def prepare(folder: Path, target: str) -> None:
    """What a target asks for beyond the bundle as it is: production, the identity that it runs as."""
    if target == "prod":
        give(folder, "run_as", SERVICE_PRINCIPAL)


def instead_of_the_scheduled_job(pattern: str) -> Callable[[Path], None]:
    """One of the variants, which takes the place of the scheduled job."""

    def change(folder: Path) -> None:
        (folder / "resources/lakehouse.job.yml").unlink()
        include(folder, pattern)

    return change


def with_dashboard(folder: Path) -> None:
    include(folder, "resources/dashboard/*.yml")
    give(folder, "warehouse_id", WAREHOUSE)


def with_verify(folder: Path) -> None:
    include(folder, "resources/verify/*.yml")


def as_written(folder: Path) -> None:
    """The bundle without an edit."""


_VARIANTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "scheduled": (as_written, "lakehouse"),
    "continuous": (instead_of_the_scheduled_job("resources/continuous/*.yml"), "lakehouse_continuous"),
    "for_each": (instead_of_the_scheduled_job("resources/for_each/*.yml"), "lakehouse_for_each"),
    "dashboard": (with_dashboard, "lakehouse"),
    "verify": (with_verify, "verify"),
}


def _case(origin: Callable[[Path], None], variant: str) -> Case:
    change, job = _VARIANTS[variant]

    def write(folder: Path) -> None:
        origin(folder)
        change(folder)

    return Case(f"{'init' if origin is own else 'repository'}-{variant}", write, job)


CASES = [_case(origin, variant) for origin in (checkout, own) for variant in _VARIANTS]
