"""Which records of a batch that was planned small the driver decodes. Needs no session."""

import pyarrow as pa

from lakehouse.spark import limits
from lakehouse.spark.silver.run import decoded_here


def records(key: bytes, value: bytes, count: int) -> pa.Table:
    return pa.table({"key": [key] * count, "value": [value] * count})


def test_records_whose_keys_are_most_of_their_bytes_are_no_small_batch() -> None:
    half = b"x" * (limits.SILVER_BATCH_BYTES // 200)

    assert decoded_here(records(b"key", half, 100)) is not None
    assert decoded_here(records(half, half, 101)) is None
