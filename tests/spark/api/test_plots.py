"""Plots of what has no time: rows that a snapshot has read, statements and batches without one."""

import matplotlib
import pandas as pd

from lakehouse.spark.api import plots

matplotlib.use("Agg")
AT = pd.to_datetime(["2026-11-21 10:00:00", "2026-11-21 10:00:05"], utc=True)


def labels(figure: object) -> list[str]:
    axes = figure.axes[-1]  # type: ignore[attr-defined]
    return [label.get_text() for label in axes.get_xticklabels()] + [axes.get_xlabel()]


def test_a_row_that_a_snapshot_has_read_has_a_timeline() -> None:
    """MySQL and MariaDB do not tell when a row that is read was committed."""
    steps = pd.DataFrame(
        {
            "committed_at": [pd.NaT, *AT],
            "op": ["insert", "update", "update"],
            "text": ["insert", "update", "update"],
            "values": [{"id": 1, "v": None}, {"id": 1, "v": "x"}, {"id": 1, "v": "y"}],
        }
    )

    assert labels(plots.timeline(steps)) == [
        "",
        "10:00:00.000",
        "10:00:05.000",
        "committed at the source (UTC, 2026-11-21)",
    ]
    assert labels(plots.timeline(steps[:1])) == ["", "committed at the source"]


def test_statements_without_a_time_are_not_on_the_axis() -> None:
    changes = pd.DataFrame({"at": AT, "table": "d.t", "op": "insert", "changes": [1, 2]})
    ddl = pd.DataFrame({"number": [1, 2], "committed_at": [AT[0], pd.NaT]})

    marked = plots.activity(changes, ddl).axes[0]

    assert [text.get_text() for text in marked.texts] == ["1"]


def test_batches_whose_age_nothing_tells_are_drawn() -> None:
    """No partition's watermark is the source's while one has sent none."""
    batches = pd.DataFrame({"source": "shop", "at": AT, "changes": [1, 2], "lag_seconds": float("nan")})

    above, below = plots.lag(batches).axes

    assert (above.get_ylim(), below.get_ylim()[0]) == ((0, 1), 0)
