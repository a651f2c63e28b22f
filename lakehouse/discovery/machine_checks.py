"""Checks of the machine for `lakehouse doctor`: Python, packages, Java, jars, memory, and a lake's local
folder.
"""

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lakehouse.discovery.findings import FAIL, OK, WARN, Finding, error_finding
from lakehouse.errors import EnvironmentError_, LakehouseError

_GIB = 2**30
_PACKAGES = (("pyspark", "4.0"), ("delta-spark", "4.0"))


def machine_findings() -> Iterator[Finding]:
    """Findings on Python, packages, Java, jars and memory; where Spark is provided (Databricks, Connect),
    Java and jars are not checked.
    """
    version = ".".join(map(str, sys.version_info[:3]))
    supported = (3, 11) <= sys.version_info[:2] < (3, 13)
    yield Finding(
        "python",
        version,
        OK if supported else FAIL,
        "" if supported else "expected 3.11 or 3.12",
        fix="" if supported else "install one of them",
    )
    if any(os.environ.get(name) for name in ("DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE")):
        yield Finding("spark", "provided", OK, "Databricks or a Connect server brings Spark, Java and jars")
        return
    yield from map(_package, _PACKAGES)
    yield from (_java(), _jars())
    yield from _memory()


def _package(required: tuple[str, str]) -> Finding:
    name, version = required
    try:
        installed = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding("package", name, FAIL, "is not installed", fix="pip install 'lakehouse-cdc[spark]'")
    if not installed.startswith(version + "."):
        return Finding(
            "package",
            f"{name} {installed}",
            FAIL,
            f"expected {version}",
            fix="pip install 'lakehouse-cdc[spark]'",
        )
    return Finding("package", f"{name} {installed}", OK, "")


def _java() -> Finding:
    from lakehouse.jvm.java import java_home

    try:
        return Finding("java", str(java_home().joinpath("lib").resolve().parent), OK, "")
    except EnvironmentError_ as error:
        return error_finding("java", "", error)


def _jars() -> Finding:
    try:
        from lakehouse.jvm.jars import spark_jars

        return Finding("jars", f"{len(spark_jars())} files", OK, "")
    except LakehouseError as error:
        return error_finding("jars", "", error)


def _memory() -> Iterator[Finding]:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return
    if total < 4 * _GIB:
        fix = "set LAKEHOUSE_DRIVER_MEMORY=1g, or take a machine with 4 GiB"
        yield Finding(
            "memory",
            f"{total / _GIB:.1f} GiB",
            WARN,
            "Spark's driver takes 2 GiB by default",
            fix=fix,
        )
    else:
        yield Finding("memory", f"{total / _GIB:.1f} GiB", OK, "")


def folder_findings(root: str) -> Iterator[Finding]:
    """Whether a lake's folder, or its nearest existing parent, can be written, and how much disk is free."""
    folder = Path(root).absolute()
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".lakehouse-doctor-"):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        yield Finding(
            "lake",
            root,
            FAIL,
            f"can't be written: {error.strerror}",
            fix="choose another folder, or mend its permissions",
        )
        return
    if free < 2 * _GIB:
        yield Finding(
            "lake", root, WARN, f"{free / _GIB:.1f} GiB are free", fix="a lake keeps every message: make room"
        )
    else:
        yield Finding("lake", root, OK, f"can be written; {free / _GIB:.0f} GiB are free")
