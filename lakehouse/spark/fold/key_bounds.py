"""Between which keys a frame's rows lie, as conditions of a MERGE."""

from collections.abc import Sequence
from heapq import nlargest
from itertools import pairwise

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.gold.columns import GoldColumn
from lakehouse.spark.lake import literal, quote

_WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
# keys of which there are more than so many for each row may leave gaps: looked for in so many equal parts, of
# which so many spans are made
_SPARSE, _PARTS, _SPANS = 8, 1024, 16
# of these types different values have different texts
_BOUNDED = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIMESTAMP_NTZ", "STRING")


def key_bounds(source: DataFrame, keys: list[GoldColumn]) -> list[str]:
    """Conditions on gold's keys that hold for every row that the source can meet: Delta leaves out the files
    that have no such key.
    """
    bounded = [key for key in keys if key.spark in _BOUNDED]
    told = [
        function(F.col(quote(key.name))).cast("string")
        for key in bounded
        for function in (F.min, F.max, lambda k: F.count_if(k.isNull()))
    ]
    row: Sequence[str | None] = source.agg(*told, F.count(F.lit(1))).first() or () if told else ()
    found = []
    for number, key in enumerate(bounded):
        low, high, nulls = row[3 * number : 3 * number + 3]
        if nulls == "0" and low is not None and high is not None and low.isprintable() and high.isprintable():
            spans = [(low, high)]
            if not number and key.spark in _WHOLE_NUMBERS:
                told_apart = key_spans(source, key, int(low), int(high), rows=int(row[-1] or 0))
                spans = [(str(first), str(last)) for first, last in told_apart]
            each = [
                f"t.{quote(key.name)} >= CAST({literal(first)} AS {key.spark})"
                f" AND t.{quote(key.name)} <= CAST({literal(last)} AS {key.spark})"
                for first, last in spans
            ]
            found.append(each[0] if len(each) == 1 else f"({' OR '.join(f'({one})' for one in each)})")
    return found


def key_spans(source: DataFrame, key: GoldColumn, low: int, high: int, *, rows: int) -> list[tuple[int, int]]:
    """A few spans with all keys of so many rows in them, the largest gaps left out: one old row among new
    ones must not have all that lies between opened. One span where the keys lie everywhere.
    """
    if high - low < _SPARSE * rows or high - low >= 1 << 62:
        return [(low, high)]
    name, step = quote(key.name), (high - low) // _PARTS + 1
    part = F.expr(f"(CAST({name} AS BIGINT) - {low}) DIV {step}")
    ends = source.groupBy(part.alias("part")).agg(F.min(F.col(name)), F.max(F.col(name))).collect()
    parts = sorted((int(first), int(last)) for _, first, last in ends)
    gaps = [(other[0] - one[1], number) for number, (one, other) in enumerate(pairwise(parts), 1)]
    starts = sorted({0, *(number for gap, number in nlargest(_SPANS - 1, gaps) if gap > step)})
    spans = [
        (parts[start][0], parts[end - 1][1])
        for start, end in zip(starts, [*starts[1:], len(parts)], strict=True)
    ]
    return spans if 2 * sum(last - first for first, last in spans) < high - low else [(low, high)]
