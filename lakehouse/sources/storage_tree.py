"""A whole folder of a storage sink as messages."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from lakehouse.events import Message
from lakehouse.formats.ticdc.storage_layout import DataFile, SchemaFile, classify, join_schemas
from lakehouse.sources.file_systems import LocalFiles, all_files
from lakehouse.sources.storage_files import landing_order


def read_tree(root: str | Path, options: Mapping[str, str]) -> Iterator[Message]:
    """All files of a folder in landing order, schemas joined, then its checkpoint; no file is held back."""
    files = LocalFiles(root)
    metadata = files.read("metadata")
    found = [(classify(info.path, options), info) for info in all_files(files, "")]
    landing = [(file, info) for file, info in found if isinstance(file, DataFile | SchemaFile) and info.size]
    landing.sort(key=lambda item: landing_order(*item))
    schemas = join_schemas(
        (file, files.read(info.path)) for file, info in landing if isinstance(file, SchemaFile)
    )
    dispatchers: dict[str, set[str | None]] = {}
    offset = 0
    for offset, (file, info) in enumerate(landing, 1):
        writers: set[str | None] = set()
        if isinstance(file, DataFile):
            writers = dispatchers.setdefault(file.folder, set())
            writers.add(file.dispatcher)
        headers = schemas.headers(file, len(writers)) or ()
        yield Message(
            "storage",
            0,
            offset - 1,
            key=None,
            value=files.read(info.path),
            headers=headers,
            timestamp=info.mtime,
            path=info.path,
        )
    if metadata:
        yield Message("storage", 0, offset, key=None, value=metadata, path="metadata")
