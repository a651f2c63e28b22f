"""The process that a local session forks its Python workers from (`spark.python.daemon.module`), with imports
preloaded.

Spark puts its own zips and a large jar on the path of workers. Python compiles what it imports from a zip
each time, and each task reads the directory of every zip and jar anew. Here the installed pyspark is taken
instead, and what decoding and folding need is imported once, before the fork: a worker then starts in
milliseconds, not in a second or two of CPU.
"""

import gc
import sys


def leave_zips() -> None:
    """Import pyspark from where it is installed."""
    zips = {entry for entry in sys.path if entry.endswith((".zip", ".jar")) and "pyspark" in entry}
    sys.path[:] = [entry for entry in sys.path if entry not in zips]
    for entry in zips:
        sys.path_importer_cache.pop(entry, None)


def import_first() -> None:
    """What every worker of ours imports, and pandas, which pyarrow looks for with the first array."""
    import pyarrow as pa

    import lakehouse.spark.change_log.changes
    import lakehouse.spark.fold.fold_job
    import lakehouse.spark.silver.decode
    import lakehouse.spark.silver.packed  # noqa: F401

    pa.array([0])
    gc.freeze()  # collections pass over what is imported, which no worker ever lets go of
    gc.set_threshold(
        100_000, 20, 20
    )  # rows on their way through make no cycles, and looking for some is a tenth of decoding


if __name__ == "__main__":
    leave_zips()
    import_first()
    from pyspark.daemon import manager

    manager()
