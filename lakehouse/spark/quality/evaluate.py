"""Evaluates the changes of one table by its suite, before gold: one pass that tags each change with the
checks it fails.

    silver rows ─States─▶ the row after each change, typed as its own schema says
                ─▶ a column per check ─▶ failed: [check, …]

A change that fails a check with action `reject` gets the flag `rejected`, which the fold knows. Everything
here is a function of silver and of the suite, so a rebuilt or replayed table rejects the same rows. Checks
follow their columns through renames, by id; a check does not apply to rows of before its column came, or
whose image can't tell it.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from lakehouse.errors import QualityError, did_you_mean
from lakehouse.events import POSITION_PARTS, Position
from lakehouse.fold.row_edits import REJECTED
from lakehouse.fold.upcast import Upstream
from lakehouse.gold.columns import GoldColumn, gold_columns
from lakehouse.lineage import Lineage
from lakehouse.quality.suite import Check, Suite
from lakehouse.spark.arrow import Worker
from lakehouse.spark.change_log.changes import FOLD_COLUMNS, any_of, between
from lakehouse.spark.column_types import data_type
from lakehouse.spark.quality.expectations import Fields, failing

PASSED = [*FOLD_COLUMNS, "key", "origin"]
FAILED = "failed"
_ABSENT = "_lakehouse_absent"
Shape = tuple[tuple[int, str], ...]


@dataclass(slots=True)
class SuiteEvaluator:
    """A suite bound to one lineage. `accepted` are changes that an operator lets pass, as `identity` names
    them.
    """

    lineage: Lineage
    suite: Suite
    upstream: Upstream
    virtual: bool
    accepted: tuple[str, ...] = ()
    columns: list[dict[int, GoldColumn]] = field(init=False)
    names: dict[str, int] = field(init=False)
    checks: list[tuple[int, Check]] = field(init=False)

    def __post_init__(self) -> None:
        self.columns = [
            {c.column.id: c for c in gold_columns(step.schema, virtual=self.virtual)}
            for step in self.lineage.steps
        ]
        self.checks = [(index, check) for index, check in enumerate(self.suite.checks) if check.of_rows]
        self.names = {
            name: found
            for _, check in self.checks
            for name in check.columns
            if (found := self._id(name)) is not None
        }

    def _id(self, name: str) -> int | None:
        """The id of the column that has, or last had, this name."""
        for step, columns in zip(reversed(self.lineage.steps), reversed(self.columns), strict=True):
            column = step.schema.column(name)
            if column is not None and column.id in columns:
                return column.id
        return None

    @property
    def unknown(self) -> set[str]:
        """Names that the table never had."""
        return {name for _, check in self.checks for name in check.columns} - self.names.keys()

    @property
    def stops(self) -> list[int]:
        return [index for index, check in self.checks if check.action == "stop"]

    @property
    def rejects(self) -> list[int]:
        return [index for index, check in self.checks if check.action == "reject"]

    @property
    def mark(self) -> str:
        """Part of the table's shape: what was folded under another suite is folded again. Empty where no
        check keeps a row out.
        """
        if not self.suite.digest:
            return ""
        text = repr((self.suite.digest, sorted(self.names.items()), self.accepted))
        return "+" + hashlib.blake2b(text.encode(), digest_size=6).hexdigest()

    def frame(self, changes: DataFrame, *, partial: bool) -> DataFrame:
        """The changes as the fold reads them, with `key`, `origin` and the numbers of the checks that each
        fails.

        `partial`: some images lack columns. Then `changes` must hold all that silver has of these rows.
        """
        shapes: dict[Shape, set[int]] = {}
        for step in range(len(self.lineage.steps)):
            shapes.setdefault(self._shape(step), set()).add(step)
        changes = changes.select(*PASSED)
        if partial:
            changes = changes.repartition("key").sortWithinPartitions("key", "position")
        alone = len(shapes) == 1
        parts = [
            self._tagged(changes if alone or partial else self._of(changes, steps), steps, partial)
            for steps in shapes.values()
        ]
        return reduce(DataFrame.unionByName, parts)

    def _of(self, changes: DataFrame, steps: set[int]) -> DataFrame:
        """The changes whose position lies in one of the steps; those below the first step belong to it."""
        places = [step.position for step in self.lineage.steps]
        ends = [*places[1:], None]
        return changes.where(any_of([between(places[step] if step else None, ends[step]) for step in steps]))

    def _shape(self, step: int) -> Shape:
        """What the checks see of a step: ids and types. A check with a condition of its own may look at any
        column.
        """
        ids = (
            self.columns[step].keys()
            if any("row_condition" in check.args for _, check in self.checks)
            else set(self.names.values())
        )
        return tuple(sorted((key, self.columns[step][key].spark) for key in ids if key in self.columns[step]))

    def _tagged(self, changes: DataFrame, steps: set[int], partial: bool) -> DataFrame:
        """Changes of steps that look alike, tagged."""
        ids = [key for key, _ in self._shape(min(steps))]
        aliases = self._aliases(ids)
        types = {aliases[key]: type_ for key, type_ in self._shape(min(steps))}
        fields = [StructField(alias, data_type(type_)) for alias, type_ in types.items()]
        schema = StructType([*changes.schema.fields, StructField(_ABSENT, ArrayType(StringType())), *fields])
        worker = _worker(
            self.lineage,
            self.upstream,
            [self.columns[i] for i in range(len(self.columns))],
            steps,
            aliases=aliases,
            schema=schema,
            partial=partial,
        )
        typed = changes.mapInArrow(worker, schema)
        marks = self._marks(aliases, types)
        tagged = typed.withColumn(FAILED, F.array_compact(F.array(*marks, F.lit(None).cast("int"))))
        return tagged.select(
            *[F.col(name) for name in PASSED if name != "flags"], self._flags(), F.col(FAILED)
        )

    def _marks(self, aliases: dict[int, str], types: dict[str, str]) -> list[Column]:
        """Per check that has its columns here, its number where a row fails it."""
        known = Fields({name: aliases[key] for name, key in self.names.items() if key in aliases}, types)
        mine = [(index, check) for index, check in self.checks if set(check.columns) <= known.names.keys()]
        return [F.when(self._fails(check, known), F.lit(index)) for index, check in mine]

    @property
    def misfit(self) -> str | None:
        """Why a check does not suit its columns, in some schema that the table had; None where all do."""
        for shape in {self._shape(step) for step in range(len(self.lineage.steps))}:
            aliases = self._aliases([key for key, _ in shape])
            try:
                self._marks(aliases, {aliases[key]: type_ for key, type_ in shape})
            except QualityError as error:
                return f"quality: {error}"
        return None

    def _aliases(self, ids: list[int]) -> dict[int, str]:
        """Names of the batch's columns: the table's newest, as conditions spell them, where nothing else of
        the batch has them.
        """
        newest = {column.id: column.name for step in self.lineage.steps for column in step.schema.columns}
        live = {column.id for column in self.lineage.steps[-1].schema.columns}
        taken, aliases = {*PASSED, FAILED}, {}
        for key in sorted(ids, key=lambda key: (key not in live, key)):
            free = newest[key].isidentifier() and newest[key].casefold() not in taken
            aliases[key] = newest[key] if free else f"_lakehouse_c{key}"
            taken.add(aliases[key].casefold())
        return {key: aliases[key] for key in ids}

    def _fails(self, check: Check, fields: Fields) -> Column:
        told = F.lit(True)
        for name in check.columns:
            told = told & ~F.array_contains(_ABSENT, fields.names[name])
        passes = F.lit(False)
        if self.accepted:
            passes = identity().isin(list(self.accepted))
        return F.col("after").isNotNull() & told & ~passes & failing(check, fields)

    def _flags(self) -> Column:
        rejecting = F.array(
            *[F.lit(index) for index, check in self.checks if check.action == "reject"],
            F.lit(None).cast("int"),
        )
        flags = F.coalesce(F.col("flags"), F.array().cast("array<string>"))
        rejected = F.arrays_overlap(FAILED, F.array_compact(rejecting))
        return (
            F.when(rejected, F.array_append(flags, F.lit(REJECTED))).otherwise(F.col("flags")).alias("flags")
        )


def identity() -> Column:
    """A change's name within its table: key and position."""
    return F.concat_ws(
        " ",
        "key",
        *[F.col(f"position.{name}").cast("string") for name in POSITION_PARTS],
    )


def commit_of(place: Position, upstream: Upstream) -> Position:
    """Where a table stops for a change at `place`: a TiCDC commit is applied whole or not at all, its deletes
    too.
    """
    return (*place[:2], 0, 0, 0, 0) if upstream.server == "tidb" else place


def unknown_names(judges: list[SuiteEvaluator]) -> str | None:
    """That a check names a column which no lineage of the table ever had; None where none does."""
    unknown = set.intersection(*(judge.unknown for judge in judges)) if judges else set()
    if not unknown:
        return None
    known = {
        column.name for judge in judges for step in judge.lineage.steps for column in step.schema.columns
    }
    name = min(unknown)
    return f"quality: expected columns that the table has or had, got {name}; {did_you_mean(name, known)}"


def _worker(
    lineage: Lineage,
    upstream: Upstream,
    columns: list[dict[int, GoldColumn]],
    steps: set[int],
    aliases: dict[int, str],
    schema: StructType,
    partial: bool,
) -> Worker:
    plain = [
        {key: (column.column, column.spark) for key, column in of_step.items() if key in aliases}
        for of_step in columns
    ]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from lakehouse.quality.row_states import States
        from lakehouse.spark.quality.evaluate import evaluated_batch, writers

        states = States(lineage, upstream, remember=partial)
        write, arrow = writers(plain), to_arrow_schema(schema)
        for batch in batches:
            yield evaluated_batch(batch, states, steps, aliases, write=write, schema=arrow)

    return work


def writers(plain: list[dict[int, tuple[Any, str]]]) -> list[dict[int, Callable[[Any], Any]]]:
    """Per step and column id, the way of a value into its Spark type."""
    from lakehouse.values.gold_types import to_python

    return [
        {key: to_python(column.type, spark) for key, (column, spark) in of_step.items()} for of_step in plain
    ]


def evaluated_batch(
    batch: pa.RecordBatch,
    states: Any,
    steps: set[int],
    aliases: dict[int, str],
    write: Any,
    schema: pa.Schema,
) -> Any:
    """The rows of a batch that are in `steps`, with their typed columns; completed images take the place of
    partial ones.
    """
    from lakehouse.spark.change_log.changes import changes_of

    kept: list[int] = []
    rows: list[dict[int, Any]] = []
    told: dict[int, Any] = {}
    for index, change in enumerate(changes_of(batch)):
        step, before, after = states.after(change)
        if step not in steps:
            continue
        completed = states.completed(step, change, before, after)
        if completed is not change:
            told[len(kept)] = completed
        kept.append(index)
        rows.append(
            {}
            if after is None
            else {key: _held(write[step][key], after[key]) for key in aliases if key in after}
        )
    out = (
        batch.take(pa.array(kept, pa.int32())).to_pydict()
        if len(kept) < batch.num_rows
        else batch.to_pydict()
    )
    for index, change in told.items():
        out["before"][index], out["after"][index] = _text(change.before), _text(change.after)
        out["encoding"][index], out["flags"][index] = change.encoding, list(change.flags)
    out[_ABSENT] = [[alias for key, alias in aliases.items() if key not in row] for row in rows]
    out.update({alias: [row.get(key) for row in rows] for key, alias in aliases.items()})
    return pa.RecordBatch.from_arrays([pa.array(out[f.name], f.type) for f in schema], schema=schema)


def _held(write: Callable[[Any], Any], value: Any) -> Any:
    try:
        return None if value is None else write(value)
    except ValueError:
        return None


def _text(image: dict[str, Any] | None) -> str | None:
    import msgspec

    return None if image is None else msgspec.json.encode(image).decode()
