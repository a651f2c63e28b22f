"""Lands the files of a TiCDC storage sink: one bronze row per file, schema files before data files, the
checkpoint last.

A row's topic is the source, its partition 0, its offset a growing number of landing; `path`, `size` and
`mtime` tell the file. A file whose size or time changed lands again, and so does `metadata` when its text
changed. A local folder is walked (lakehouse/sources/storage_files.py tells which folders need no more
listing); any other root is listed whole by Spark's binary file reader, which is the one way to any Hadoop
file system that every Spark has.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import EnvironmentError_
from lakehouse.events import DDL, SNAPSHOT_TOPIC, just_above, tidb_position
from lakehouse.formats.ticdc.storage_gaps import unexplained
from lakehouse.formats.ticdc.storage_layout import DataFile, SchemaFile, classify, has_commit_ts
from lakehouse.ops.file_lock import is_remote
from lakehouse.ops.records.bronze import FilesMissing, MissingFile
from lakehouse.ops.records.bronze import Scan as ScanRecord
from lakehouse.sources.file_systems import FileInfo, FileSystem, LocalFiles
from lakehouse.sources.storage_files import Scan, new_files
from lakehouse.spark.bronze.epochs import last_epoch
from lakehouse.spark.bronze.table import BRONZE_SCHEMA
from lakehouse.spark.ops.run_context import LandedFiles, Progress, RunContext
from lakehouse.spark.table_versions import NEWEST, Commit, commits_above

METADATA = "metadata"
CHUNK_BYTES = 64 * 1024 * 1024
# the paths of schema files, for Python and for Spark; what it finds may be another file
SCHEMA_PATH = r"(^|/)schema(_[0-9]+_[0-9]+)?\.json$"
# schema files land beside so many bytes of data at most: each batch reads all of them again
BESIDE_BYTES = 4 * 1024 * 1024


def land_storage(context: RunContext, root: str, options: Mapping[str, str], *, sweep: bool = True) -> int:
    """Land what is new below `root`; returns how many files. `sweep` looks into closed folders too, as the
    first scan of a run must.
    """
    spark, log = context.spark, context.log
    known = seen_files(context)
    landed, following, metadata = known.files, known.following, known.metadata
    last = log.last(ScanRecord)
    done = last.checkpoint if last else None
    files: FileSystem = SparkFiles(spark, root, landed) if is_remote(root) else LocalFiles(root)
    scan = new_files(files, landed, options, done, sweep=sweep)
    if lack_schema(scan.files, landed, options):
        # a schema file is written before its data: a second look sees it, and what still has none is a dead
        # letter
        files = SparkFiles(spark, root, landed) if is_remote(root) else LocalFiles(root)
        scan = new_files(files, landed, options, done, sweep=sweep)
    count, unread = 0, []
    for chunk in chunks(scan.files):
        read = [(info, files.read(info.path)) for info in chunk]
        # a file that can't be read now, or was cut or replaced since it was listed, lands in a later pass:
        # once landed under its size and time it would never be read again
        whole = [(info, data) for info, data in read if is_whole(info, data)]
        unread += [info.path for info, data in read if not is_whole(info, data)]
        if whole:
            append(context, whole, following + count)
            count += len(whole)
            context.progress(f"bronze  {context.source}: {count} new files")
    if unread:
        # nothing is complete up to the checkpoint while one of its files is missing
        scan = scan._replace(metadata=None, checkpoint=None, pending=sorted([*scan.pending, *unread]))
    record_missing(context, scan, options)  # before the checkpoint lands, which gold publishes by
    if scan.checkpoint is not None:
        reconcile_numbers(context, files, scan, options)
    if scan.metadata and scan.metadata != metadata:
        file = FileInfo(METADATA, len(scan.metadata), int(time.time() * 1000))
        append(context, [(file, scan.metadata)], following + count)
    report(scan, context.source, has_commit_ts(options), context.progress)
    if scan.checkpoint is not None and scan.checkpoint != done:
        log.add_along(ScanRecord(checkpoint=scan.checkpoint))
    return count


def is_whole(info: FileInfo, data: bytes) -> bool:
    """Whether the bytes that were read are the file that was listed."""
    return len(data) == info.size


def record_missing(context: RunContext, scan: Scan, options: Mapping[str, str]) -> None:
    """Record what the sink lacks, where that has changed."""
    log = context.log
    known = log.last(FilesMissing) or FilesMissing(files=())
    lacking = missing_after(known.files, scan, last_epoch(log), options)
    if lacking != known.files:
        log.add(FilesMissing(files=lacking))


def reconcile_numbers(context: RunContext, files: FileSystem, scan: Scan, options: Mapping[str, str]) -> None:
    """Hold the numbers of the files that bronze has against the files that are recorded as missing: a number
    that neither explains is missing too. Versions above the checkpoint are not complete yet; an empty file,
    which never lands, lacks nothing.
    """
    log, checkpoint = context.log, scan.checkpoint or 0
    lacking = unexplained(scan.held, (info.path for info in scan.files), options)
    lacking = [file for file in lacking if file.version <= checkpoint and files.stat(file.path) is None]
    known = log.last(FilesMissing) or FilesMissing(files=())
    told = {file.path for file in known.files}
    epoch = last_epoch(log)
    found = [missing_file(file, epoch, options) for file in lacking if file.path not in told]
    if found:
        log.add(FilesMissing(files=tuple(sorted([*known.files, *found], key=lambda file: file.path))))


def missing_after(
    known: Iterable[MissingFile], scan: Scan, epoch: int, options: Mapping[str, str]
) -> tuple[MissingFile, ...]:
    """All that the sink lacks after a scan, which tells it of the folders that it looked at."""
    before = {file.path: file for file in known}
    landed = {info.path for info in scan.files}
    kept = [
        file
        for file in before.values()
        if file.path not in landed and file.path.rpartition("/")[0] not in scan.looked
    ]
    found = [before.get(file.path) or missing_file(file, epoch, options) for file in scan.missing]
    return tuple(sorted([*kept, *found], key=lambda file: file.path))


def missing_file(file: DataFile, epoch: int, options: Mapping[str, str]) -> MissingFile:
    """A lacking file. Its rows lie behind the statement that made its version."""
    position = (
        just_above(tidb_position(epoch, file.version, DDL))
        if has_commit_ts(options)
        else (epoch, file.version, file.day, file.number, 0, 0)
    )
    named = file.schema is not None and file.table is not None
    return MissingFile(file.path, (file.schema or "", file.table or "") if named else None, position)


def seen_files(context: RunContext) -> LandedFiles:
    """What bronze has of the sink. Of what an earlier pass of the run has seen, only what was appended since
    is read, as long as nothing else was done to bronze's table.
    """
    lake, spark, known = context.lake, context.spark, context.landed
    if not lake.exists(spark, "bronze", context.source):
        known.files, known.following, known.metadata, known.version = {}, 0, None, None
        return known
    above = known.version[0] - 1 if known.version is not None else NEWEST
    commits = commits_above(spark, lake, ("bronze", context.source), above)
    if not goes_on(known.version, commits):
        known.files, known.following, known.metadata = {}, 0, None
    elif commits[0].version == above + 1:
        return known
    bronze = lake.read(spark, "bronze", context.source, commits[0].version)
    add_landed(known, bronze)
    known.version = commits[0].version, commits[0].at
    return known


def goes_on(version: tuple[int, int] | None, commits: Sequence[Commit]) -> bool:
    """Whether the commits since a version have left its rows as they were, and Delta knows all of them."""
    if version is None or all((one.version, one.at) != version for one in commits):
        return False
    above = [one for one in commits if one.version > version[0]]
    return len(above) == commits[0].version - version[0] and not any(one.takes for one in above)


def add_landed(known: LandedFiles, bronze: DataFrame) -> None:
    """Add the files from the next offset on to what is known."""
    rows = bronze.where((F.col("topic") != SNAPSHOT_TOPIC) & (F.col("offset") >= known.following))
    found = rows.select("path", "size", "mtime", "offset").toArrow().to_pylist()
    for row in sorted(found, key=lambda row: row["offset"]):
        if row["path"] != METADATA:
            known.files[row["path"]] = row["size"], row["mtime"]
        known.following = row["offset"] + 1
    last = max((row["offset"] for row in found if row["path"] == METADATA), default=None)
    if last is not None:
        text = rows.where(F.col("offset") == last).select("value").first()
        known.metadata = None if text is None else bytes(text.value)


def lack_schema(found: Iterable[FileInfo], landed: Iterable[str], options: Mapping[str, str]) -> bool:
    """Whether a data file's schema file is neither landed nor about to."""
    files = [classify(path, options) for path in (*landed, *(info.path for info in found))]
    described = {file[1:5] for file in files if isinstance(file, SchemaFile)}
    return any(isinstance(file, DataFile) and file[1:5] not in described for file in files)


def chunks(files: list[FileInfo]) -> Iterator[list[FileInfo]]:
    """Files in order, a bounded number of bytes at a time; schema files apart, where there is much data."""
    chunk: list[FileInfo] = []
    size, apart = 0, sum(info.size for info in files) > BESIDE_BYTES
    for info in files:
        turns = apart and bool(chunk) and is_schema(chunk[-1]) and not is_schema(info)
        if chunk and (turns or size + info.size > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(info)
        size += info.size
    if chunk:
        yield chunk


def is_schema(info: FileInfo) -> bool:
    """Whether a file is named as schema files are."""
    return re.search(SCHEMA_PATH, info.path) is not None


def append(context: RunContext, files: list[tuple[FileInfo, bytes]], offset: int) -> None:
    """One commit of files, numbered from `offset` on."""
    rows = [
        {
            "topic": context.source,
            "incarnation": "",
            "partition": 0,
            "offset": offset + number,
            "value": data,
            "path": info.path,
            "size": info.size,
            "mtime": info.mtime,
            "timestamp": info.mtime,
        }
        for number, (info, data) in enumerate(files)
    ]
    context.lake.append_rows(context.spark, "bronze", context.source, rows, schema=BRONZE_SCHEMA)


def report(scan: Scan, source: str, waits_for_checkpoint: bool, progress: Progress) -> None:
    """Report files that were seen and not landed."""
    if waits_for_checkpoint and scan.checkpoint is None and not scan.pending:
        progress(
            f"warning: {source}: the sink's `{METADATA}` is not there or tells no checkpoint-ts, which gold "
            "waits for"
        )
    if scan.pending:
        waits = (
            ": the checkpoint waits (a whole data file ends with the option `terminator`)"
            if scan.checkpoint is None
            else ""
        )
        progress(
            f"warning: {source}: {len(scan.pending)} files are not there or not whole yet, such as "
            f"{scan.pending[0]}{waits}"
        )
    if scan.missing:
        lacking = f"{len(scan.missing)} files are lacking before later ones, such as {scan.missing[0].path}"
        progress(
            f"warning: {source}: {lacking}: deleted or never copied; their tables are incomplete "
            "(dead letters `lost`)"
        )
    if scan.unknown:
        other = scan.unknown[0]
        progress(
            f"warning: {source}: {len(scan.unknown)} files are none of the sink's, such as {other.path}: "
            f"{other.why}"
        )


def below(root: str, path: str) -> str:
    """A path as Spark tells it, relative to the root that it was found in."""
    return _inner(path).removeprefix(_inner(root)).lstrip("/")


def escaped(path: str) -> str:
    """A path for Spark's readers, which take any path for a pattern."""
    return "".join("\\" + sign if sign in "{}[]*?\\" else sign for sign in path)


def _inner(location: str) -> str:
    """Without scheme and authority, which Spark may spell otherwise than a root does: `file:/a` for
    `file:///a`.
    """
    scheme, told, rest = location.partition("://")
    return "/" + rest.partition("/")[2] if told else re.sub(r"^[a-z]+:", "", scheme)


class SparkFiles:
    """A tree of any file system that Spark reads, listed once; the checkpoint is read before the listing."""

    is_listed = True

    def __init__(self, spark: SparkSession, root: str, landed: Mapping[str, tuple[int, int]]) -> None:
        self.spark, self.root = spark, root.rstrip("/")
        self.metadata, self.hides = self._bytes(METADATA, missing=b""), False
        self.children: dict[str, dict[str, FileInfo]] = {}
        mtime = F.unix_millis("modificationTime").alias("mtime")
        listed = self._listed()
        for row in () if listed is None else listed.select("path", "length", mtime).toLocalIterator():
            self._note(FileInfo(below(self.root, row.path), row.length, row.mtime))
        if self.hides:
            self._refuse_hidden(landed)

    def _refuse_hidden(self, landed: Iterable[str]) -> None:
        """EnvironmentError_ where a folder of which files have landed may be there, and is not shown."""
        owners = {tuple(path.split("/")[:2]) for path in landed}
        for owner in sorted(owners):
            if any(name.startswith(("_", ".")) for name in owner) and "/".join(owner) not in self.children:
                raise EnvironmentError_(
                    f"{self.root}: expected to list {'/'.join(owner)}, but Spark hides it beside names "
                    "with a colon: leave such tables out of the changefeed"
                )

    def _listed(self) -> DataFrame | None:
        """All files of tables; None where the root is not there, as in an object store before its first file.
        Folders of tables are asked for by a pattern: of those that Spark comes upon by itself it hides what
        begins with `_` or `.`, which databases and tables may (gh-ost's do).
        """
        from pyspark.errors import AnalysisException, IllegalArgumentException

        with suppress(AnalysisException, IllegalArgumentException):
            return self._files("/*/*")
        # no table has a folder yet, no root is there, or a name has a colon, which no pattern takes
        self.hides = True
        try:
            return self._files("")
        except AnalysisException as error:
            if self.metadata or error.getCondition() != "PATH_NOT_FOUND":
                raise
            return None

    def _files(self, below_root: str) -> DataFrame:
        reader = self.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        files = reader.load(escaped(self.root) + below_root)
        _ = files.schema  # over Connect nothing is looked for before it is used
        return files

    def _note(self, info: FileInfo) -> None:
        while True:
            folder = info.path.rpartition("/")[0]
            known = self.children.setdefault(folder, {})
            if info.path in known and info.is_dir:
                return
            known[info.path] = info
            if not folder:
                return
            info = FileInfo(folder, 0, 0, is_dir=True)

    def list_dir(self, path: str) -> list[FileInfo]:
        return sorted(self.children.get(path, {}).values())

    def stat(self, path: str) -> FileInfo | None:
        return self.children.get(path.rpartition("/")[0], {}).get(path)

    def read(self, path: str, start: int = 0) -> bytes:
        return self.metadata if path == METADATA else self._bytes(path, missing=b"")[start:]

    def _bytes(self, path: str, missing: bytes) -> bytes:
        from pyspark.errors import AnalysisException

        reader = self.spark.read.format("binaryFile")
        try:
            row = reader.load(escaped(f"{self.root}/{path}")).select("content").first()
        except AnalysisException:
            return missing
        return missing if row is None else bytes(row.content)
