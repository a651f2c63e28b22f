"""Rows of many bytes are handed to workers, and back, a few at a time: an Arrow batch of them fits a small
driver.
"""

import pyarrow as pa

from lakehouse.spark.arrow import OUT_BYTES, OUT_ROWS, Metered
from lakehouse.spark.fold.deltas import Netted, chunked
from lakehouse.spark.session import ARROW_BYTES, ARROW_ROWS, arrow_rows_of


def row(size: int) -> Netted:
    return "k", "put", "x" * size


def test_rows_are_handed_back_by_their_number_or_their_bytes() -> None:
    assert [len(chunk) for chunk in chunked([row(1)] * (OUT_ROWS + 1))] == [OUT_ROWS, 1]
    assert [len(chunk) for chunk in chunked([row(OUT_BYTES // 2)] * 5)] == [2, 2, 1]
    assert [len(chunk) for chunk in chunked([])] == [0]


def test_what_a_worker_has_read_since_it_handed_rows_back_is_counted() -> None:
    half = pa.RecordBatch.from_pydict({"image": ["x" * (OUT_BYTES // 2)]})
    read = Metered(iter([half] * 5))

    assert [read.take_much() for _ in read] == [False, True, False, True, False]


def test_rows_are_handed_to_a_worker_by_their_mean_size() -> None:
    assert [arrow_rows_of(mean) for mean in (0.0, 400.0)] == [ARROW_ROWS] * 2
    assert arrow_rows_of(ARROW_BYTES / 50) == 50
    assert arrow_rows_of(ARROW_BYTES * 3.0) == 1
