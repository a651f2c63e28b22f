"""The indexes of a storage sink's folder: each names a writer's newest file, and is written before it."""

from collections.abc import Mapping
from typing import NamedTuple

from lakehouse.formats.ticdc.storage_layout import DataFile, Index, classify
from lakehouse.sources.file_systems import FileInfo, FileSystem


class Named(NamedTuple):
    """An index file and the data file of its folder that it names; None where it names anything else."""

    file: FileInfo
    newest: DataFile | None


def index_files(files: FileSystem, folder: str, options: Mapping[str, str]) -> list[FileInfo]:
    """The index files of a folder: in `meta`, or beside the data (6.5.0 to 6.5.2)."""
    found = [info for info in files.list_dir(f"{folder}/meta") if _is_index(info, options)]
    return found or [info for info in [files.stat(f"{folder}/CDC.index")] if info]


def read_index(files: FileSystem, folder: str, index: FileInfo, options: Mapping[str, str]) -> Named:
    """What an index of the folder names."""
    name = files.read(index.path).decode(errors="replace").strip()
    file = classify(f"{folder}/{name}", options)
    return Named(index, file if isinstance(file, DataFile) and file.folder == folder else None)


def _is_index(info: FileInfo, options: Mapping[str, str]) -> bool:
    return isinstance(classify(info.path, options), Index)
