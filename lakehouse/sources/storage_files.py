"""New files of a storage sink.

`new_files` lists no folder again that can't have gained rows. A scan is *done at C* when the checkpoint C was
read before its listing and all that it found has landed: every change at or below C was then in a whole,
visible file. So, with the last scan done at C,

    a version's folder is closed   once its table has a newer version of equal checksum at or below C
    a date's folder is closed      once C is past that date in every time zone
    an open folder with an index   is read by its index: new numbers are looked at one by one, the landed ones
                                   are not listed
    any other open folder          is listed

What a closed folder still gains is a replay of changes that have landed. `sweep` looks at everything all the
same: for the first scan of a run, and after the changefeed's folder settings were changed. A file whose size
or time has changed is new again.

A file that a folder lacks though later ones of its writer are there is `missing`, once the checkpoint is past
rows behind it; until then it may be late, and the checkpoint waits. So is one at the end that the writer's
index names, once the checkpoint is ten minutes past the index.

Never taken: an empty file, and one that is not whole (a data file that does not end with the terminator, a
schema file that is no JSON), unless the checkpoint has passed its time: a crash left it, and its changes were
sent again. The checkpoint waits for files that are not whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from lakehouse.errors import DecodeError
from lakehouse.formats.ticdc.storage_gaps import Gap, Held, first_commit_ts, gaps_of, without_expired
from lakehouse.formats.ticdc.storage_layout import (
    DataFile,
    Other,
    SchemaFile,
    classify,
    has_commit_ts,
    read_checkpoint,
    setting,
    switch,
)
from lakehouse.formats.ticdc.storage_schema import read_definition
from lakehouse.sources.file_systems import FileInfo, FileSystem
from lakehouse.sources.storage_indexes import Named, index_files, read_index

_FEW = 1000  # numbers to look at one by one; a list is cheaper than more
_SLACK = 600_000  # ms between the clocks of TiDB and of the storage, at most


class Scan(NamedTuple):
    """The result of a scan: land `files` in this order, then `metadata` as it was before the listing.

    `checkpoint` is that of `metadata`: pass it as `done` to the next scan, once all of this one has landed.
    It is None, and so is `metadata`, while a file is not whole. `pending` are files that were seen or
    announced and can't be taken yet, `missing` those that `looked`, the folders that were looked at, lack
    though they have later ones: of numbers in a row the first. `held` are the data files that had landed
    before, by folder.
    """

    files: list[FileInfo]
    metadata: bytes | None
    checkpoint: int | None
    pending: list[str]
    unknown: list[Other]
    missing: list[DataFile]
    looked: frozenset[str] = frozenset()
    held: Held = MappingProxyType({})


def new_files(
    files: FileSystem,
    landed: Mapping[str, tuple[int, int]],
    options: Mapping[str, str],
    done: int | None = None,
    sweep: bool = False,
) -> Scan:
    """The files to land. `landed` maps paths to (size, mtime); those in folders that are closed at `done` may
    be left out.
    """
    metadata = files.read("metadata")
    checkpoint = _checkpoint(metadata)
    walk = _Walk(files, landed, options, None if sweep else done, checkpoint=checkpoint)
    walk.tree()
    found = sorted(walk.found, key=lambda item: landing_order(item[0], item[1]))
    whole = checkpoint is not None and not walk.torn
    return Scan(
        [info for _, info in found],
        metadata if whole else None,
        checkpoint if whole else None,
        sorted(walk.pending),
        unknown=walk.unknown,
        missing=walk.missing,
        looked=frozenset(walk.looked),
        held=walk.known,
    )


def _checkpoint(metadata: bytes) -> int | None:
    try:
        return read_checkpoint(metadata)
    except DecodeError:
        return None


def landing_order(file: DataFile | SchemaFile, info: FileInfo) -> tuple[int, int, int, int, str]:
    """What files land by: schema files by version, then data files by version, day and number."""
    if isinstance(file, SchemaFile):
        return (0, file.version, 0, 0, info.path)
    return (1, file.version, file.day, file.number, info.path)


def _milliseconds(checkpoint: int) -> int:
    return checkpoint >> 18


class _Walk:
    """One scan: it descends into open folders, and collects new files."""

    def __init__(
        self,
        files: FileSystem,
        landed: Mapping[str, tuple[int, int]],
        options: Mapping[str, str],
        done: int | None,
        checkpoint: int | None,
    ) -> None:
        self.files, self.landed, self.options, self.done, self.checkpoint = (
            files,
            landed,
            options,
            done,
            checkpoint,
        )
        self.terminator = setting(options, "terminator").encode() or b"\r\n"
        self.found: list[tuple[DataFile | SchemaFile, FileInfo]] = []
        self.pending: list[str] = []
        self.torn = False
        self.unknown: list[Other] = []
        self.missing: list[DataFile] = []
        self.here: dict[str, set[str]] = {}  # of one table, by folder
        self.ends: list[Gap] = []  # of one table: what indexes name, and nothing behind it is there
        self.looked: set[str] = set()
        self.known: dict[str, dict[str | None, dict[int, str]]] = {}
        for path in landed:
            file = classify(path, options)
            if isinstance(file, DataFile):
                self.known.setdefault(file.folder, {}).setdefault(file.dispatcher, {})[file.number] = path

    # Folders

    def tree(self) -> None:
        by_id = switch(self.options, "use-table-id-as-path")
        for owner in self.files.list_dir(""):
            if owner.is_dir and by_id:
                self.table(owner.path)
            elif owner.is_dir:
                self.database(owner.path)

    def database(self, path: str) -> None:
        for child in self.files.list_dir(path):
            if child.is_dir:
                self.table(child.path)

    def table(self, path: str) -> None:
        """A table's folder, or the `meta` of a database: schema files in it or in its `meta`, and a folder
        per version.
        """
        versions: dict[int, str] = {}
        seen: list[SchemaFile] = []
        self.here, self.ends = {}, []
        for child in self.files.list_dir(path):
            if not child.is_dir:
                seen += self.consider(child)
            elif child.name == "meta":
                for file in self.files.list_dir(child.path):
                    seen += [] if file.is_dir else self.consider(file)
            elif child.name.isascii() and child.name.isdigit():
                versions[int(child.name)] = child.path
            else:
                shown = child.path.encode(errors="backslashreplace").decode()
                self.unknown.append(Other(shown, "a folder where a table has versions and meta only"))
        # beside a table of the name `meta` lie the statements of its database
        seen = [file for file in seen if file.table is not None or file.table_id is not None]
        gaining = self.gaining({*versions, *(file.version for file in seen)}, seen)
        for version, folder in sorted(versions.items()):
            if gaining(version):
                self.data_folder(folder)
        self.look_for_gaps(self.here)
        self.looked |= self.here.keys()

    def gaining(self, versions: Iterable[int], seen: Iterable[SchemaFile]) -> Callable[[int], bool]:
        """Whether a table's version can have new rows: the newest one at or below the last whole scan's
        checkpoint and those above it, and the newest of each checksum. A writer that finds no file of its
        version goes on there: of the statement there is none, or it is in another folder. Version 0 is what
        releases of 2023 write to where no file has their checksum.
        """
        if self.done is None:
            return lambda version: True
        passed = max((version for version in versions if version <= self.done), default=0)
        known = sorted((file.version, file.checksum) for file in seen if file.version <= self.done)
        kept = {0, *{checksum: version for version, checksum in known}.values()}
        return lambda version: version >= passed or version in kept

    def data_folder(self, path: str) -> None:
        """A version's folder, or one below it: by its index, else by listing."""
        is_known = self.done is not None and path in self.known
        if is_known and not self.files.is_listed and self.by_index(path):
            return
        here: set[str] = set()
        self.here[path], children = here, self.files.list_dir(path)
        for child in children:
            if not child.is_dir:
                here.add(child.path)
                self.consider(child)
            elif child.name != "meta" and not self.is_past(child.name):
                self.data_folder(child.path)
        indexed = any(child.name in ("meta", "CDC.index") for child in children)
        for index in index_files(self.files, path, self.options) if indexed else ():
            if not self.files.is_listed or self.is_ahead(index, here):
                self.announced(read_index(self.files, path, index, self.options))

    # Gaps

    def look_for_gaps(self, folders: Iterable[str]) -> None:
        """What the folders of one table that were looked at lack."""
        looked = {folder: self.files_of(folder) for folder in folders}
        gaps = [*self.ends, *(gap for files in looked.values() for gap in gaps_of(files))]
        if gaps:
            mine = (file for file in self.one_of_each() if file[1:4] == gaps[0].behind[1:4])
            for gap in without_expired(gaps, chain(mine, *looked.values())):
                self.judge(gap)

    def files_of(self, folder: str) -> list[DataFile]:
        """The data files of a folder that are there or have landed."""
        landed = {path for known in self.known.get(folder, {}).values() for path in known.values()}
        files = (classify(path, self.options) for path in landed | self.here.get(folder, set()))
        return [file for file in files if isinstance(file, DataFile)]

    def one_of_each(self) -> Iterator[DataFile]:
        """A landed file of every folder."""
        for known in self.known.values():
            file = classify(next(path for paths in known.values() for path in paths.values()), self.options)
            if isinstance(file, DataFile):
                yield file

    def judge(self, gap: Gap) -> None:
        """A lacking file is lost once the checkpoint is past a row behind it: all before that row is whole
        then. Until then it may be on its way. Nothing of a version behind the checkpoint counts yet.
        """
        late = self.files.stat(gap.missing.path)
        if late is not None:
            self.consider(late)
        elif self.is_due(gap.behind):
            self.missing.append(gap.missing)
        else:
            self.pending.append(gap.missing.path)
            self.torn = self.torn or self.checkpoint is None or gap.missing.version <= self.checkpoint

    def is_due(self, file: DataFile) -> bool:
        """Whether the checkpoint is past the file's first row."""
        if not has_commit_ts(self.options):
            return True
        info = self.files.stat(file.path)
        if info is None or self.is_settled(info):
            return self.checkpoint is not None
        first = first_commit_ts(file, self.files.read(file.path), self.options)
        return self.checkpoint is not None and (first is None or first <= self.checkpoint)

    def is_past(self, name: str) -> bool:
        """Whether a date's folder can't get new changes any more."""
        end = _end_of_date(name) if self.done is not None and "-" in name else None
        return end is not None and self.done is not None and _milliseconds(self.done) > end

    # Index files

    def by_index(self, folder: str) -> bool:
        """Whether the folder's indexes name all files that can be new in it; then those have been
        considered.
        """
        named = [
            read_index(self.files, folder, index, self.options)
            for index in index_files(self.files, folder, self.options)
        ]
        known = self.known[folder]
        files = [one.newest for one in named if one.newest is not None]
        if len(files) < len(named) or {file.dispatcher for file in files} != known.keys():
            return False
        if any(
            file.number - len(known[file.dispatcher]) > _FEW or self.began_again(file, known[file.dispatcher])
            for file in files
        ):
            return False
        self.here[folder] = set()
        for one, file in zip(named, files, strict=True):
            self.numbers(file, known[file.dispatcher])
            self.announced(one)
        return True

    def is_ahead(self, index: FileInfo, paths: Iterable[str]) -> bool:
        """Whether an index is newer than all of the folder's data, and may name a file that is not there."""
        data = (path for path in paths if isinstance(classify(path, self.options), DataFile))
        times = [info.mtime for path in data if (info := self.files.stat(path))]
        return bool(times) and index.mtime > max(times)

    def announced(self, named: Named) -> None:
        """The file that an index names, where none of that number or above is there or has landed, is on its
        way until the checkpoint is past the index's time. A writer that died between the two takes the
        number again, but not one whose files have a dispatcher in their names.
        """
        newest = named.newest
        if newest is None:
            return
        of_writer = [file for file in self.files_of(newest.folder) if file.dispatcher == newest.dispatcher]
        last = max((file.number for file in of_writer), default=0)
        if newest.number > last and not self.is_settled(named.file):
            self.pending.append(newest.path)
        elif newest.number > last and newest.dispatcher is None:
            self.ends.append(Gap(newest.numbered(last + 1), newest))

    def began_again(self, newest: DataFile, known: Mapping[int, str]) -> bool:
        """Whether a writer may count from 1 anew, so that files which have landed are others now: it is below
        the last one that has, or has written that one again.
        """
        last = max(known)
        info = self.files.stat(known[last])
        is_other = info is not None and self.landed.get(info.path) != (info.size, info.mtime)
        return newest.number < last or is_other

    def numbers(self, newest: DataFile, known: Mapping[int, str]) -> None:
        """The files up to and beyond the index that have not landed. Of numbers of two widths
        (file-index-width was changed) both are looked for.
        """
        last, behind = max(known), len(newest.extension) + 1
        stem = f"{newest.folder}/CDC" + (f"_{newest.dispatcher}_" if newest.dispatcher else "")
        widths = {len(path) - len(stem) - behind for path in (min(known.values(), key=len), newest.path)}

        def look(number: int) -> bool:
            paths = {f"{stem}{number:0{width}}.{newest.extension}" for width in widths}
            info = next((info for path in sorted(paths) if (info := self.files.stat(path))), None)
            if info:
                self.here[newest.folder].add(info.path)
                self.consider(info)
            return info is not None

        for number in sorted({*range(1, newest.number + 1)} - known.keys()):
            look(number)
        number = max(newest.number, last) + 1
        while look(number):
            number += 1

    # Files

    def consider(self, info: FileInfo) -> list[SchemaFile]:
        """Add a file if it is new and whole; returns it where it is a schema file."""
        file = classify(info.path, self.options)
        if isinstance(file, Other):
            self.unknown.append(file)
        if not isinstance(file, DataFile | SchemaFile):
            return []
        if self.landed.get(info.path) != (info.size, info.mtime):
            if info.size == 0:
                self.pending += [] if self.is_settled(info) else [info.path]
            elif self.is_settled(info) or self.is_whole(file, info):
                self.found.append((file, info))
            else:
                self.pending.append(info.path)
                self.torn = True
        return [file] if isinstance(file, SchemaFile) else []

    def is_settled(self, info: FileInfo) -> bool:
        """Whether the checkpoint has passed the file's time: what was being written then is complete, or was
        sent again.
        """
        return self.checkpoint is not None and _milliseconds(self.checkpoint) >= info.mtime + _SLACK

    def is_whole(self, file: DataFile | SchemaFile, info: FileInfo) -> bool:
        if isinstance(file, DataFile):
            return self.files.read(info.path, max(info.size - len(self.terminator), 0)) == self.terminator
        data = self.files.read(info.path)
        try:
            return len(data) == info.size and read_definition(data) is not None
        except DecodeError:
            return False


def _end_of_date(name: str) -> int | None:
    """The time in ms at which a date (`2026-11` or `2026-11-21`) is over in the last time zone, plus an
    hour.
    """
    try:
        first = datetime.fromisoformat(name if len(name) > 7 else f"{name}-01").replace(tzinfo=UTC)
    except ValueError:
        return None
    end = first + timedelta(days=1) if len(name) > 7 else (first + timedelta(days=32)).replace(day=1)
    return int((end + timedelta(hours=13)).timestamp() * 1000)
