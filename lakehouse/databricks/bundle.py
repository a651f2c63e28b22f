"""Writes a Databricks bundle of one's own: the template files of this package, and the package itself as a
wheel.

FOLDER/databricks.yml, resources/    targets, jobs, schemas, volumes, dashboard
FOLDER/configs/databricks/           a recorded sample as the source, to be replaced by one's own sources
FOLDER/notebooks/                    they import lakehouse and define nothing
FOLDER/wheels/lakehouse_cdc-….whl    the wheel that the jobs install
"""

import base64
import hashlib
import re
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import lakehouse
import pipelines
from lakehouse.errors import LakehouseError

PARTS = ("databricks.yml", "resources", "configs/databricks", "notebooks")


def template() -> Path:
    """The folder of the template files: in the package, or in the checkout that it is imported from."""
    package = Path(lakehouse.__file__).parent
    return next(
        folder for folder in (package / "bundle", package.parent) if (folder / "databricks.yml").is_file()
    )


def write_bundle(folder: Path) -> list[Path]:
    """Write a bundle into a folder. LakehouseError if a file exists already; then nothing is written."""
    source = template()
    files = {path.relative_to(source): path for part in PARTS for path in _files(source / part)}
    taken = [str(folder / name) for name in files if (folder / name).exists()]
    if taken:
        raise LakehouseError(
            f"{taken[0]}: expected no such file, found one; write the bundle into another folder"
        )
    written = []
    for name, path in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".yml":
            target.write_text(_own(path.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            target.write_bytes(path.read_bytes())
        written.append(target)
    return [*written, pack_wheel(folder / "wheels")]


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(
            file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts
        )
    else:
        yield path


def _own(text: str) -> str:
    """The bundle's YAML for the wheel in its folder, which no build step makes."""
    text = re.sub(r"^artifacts:\n(?:  .*\n)+\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^# yaml-language-server:.*\n", "", text)
    return text.replace("../dist/", "../wheels/")


def pack_wheel(folder: Path) -> Path:
    """The running package as a wheel, wherever it was installed from."""
    package = _installed()
    stem = f"{lakehouse.DISTRIBUTION.replace('-', '_')}-{package.version}"
    info = f"{stem}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{stem}-py3-none-any.whl"
    entries = {
        name: data
        for module in (lakehouse, pipelines)
        for name, data in _module(Path(str(module.__file__)).parent)
    }
    entries |= {
        f"{info}/{name}": (package.read_text(name) or "").encode()
        for name in ("METADATA", "entry_points.txt")
    }
    entries[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: lakehouse\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = (
        "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in entries.items())
        + f"{info}/RECORD,,\n"
    )
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in {**entries, f"{info}/RECORD": record.encode()}.items():
            out.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return wheel


def _installed() -> Distribution:
    try:
        return distribution(lakehouse.DISTRIBUTION)
    except PackageNotFoundError:
        raise LakehouseError(
            f"{lakehouse.DISTRIBUTION}: expected it to be installed, found its files only; install its wheel"
        ) from None


def _module(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in _files(folder):
        yield str(path.relative_to(folder.parent)), path.read_bytes()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
