"""The type of the functions that Spark's Python workers run over a frame (`mapInArrow`)."""

from collections.abc import Callable, Iterator

import pyarrow as pa

Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
