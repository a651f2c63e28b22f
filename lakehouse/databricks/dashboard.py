"""The dashboard of the bundle over the ops tables: `python -m lakehouse.databricks.dashboard
resources/dashboard/lakehouse.lvdash.json SOURCE…`; a test pins it.

A Databricks dashboard is a JSON of datasets (SQL, against the catalog and schema that the resource names) and
widgets on a grid.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_TABLES = "array<struct<database:string,`table`:string,state:string,why:string>>"
_LAST = "{log} WHERE kind = '{kind}' AND seq = (SELECT max(seq) FROM {log} WHERE kind = '{kind}')"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def queries(sources: Iterable[str]) -> dict[str, str]:
    """The SQL of each dataset, over all sources."""
    selects: dict[str, list[str]] = {name: [] for name in ("tables", "published", "batches", "quality")}
    for source in sources:
        log, name = _quoted(f"{source}_log"), "'" + source.replace("'", "''") + "' AS source"
        last = _LAST.format(log=log, kind="manifest")
        selects["tables"].append(
            f"SELECT {name}, inline(from_json(get_json_object(body, '$.tables'), '{_TABLES}')) FROM {last}"
        )
        selects["published"].append(
            f"SELECT {name}, timestamp_millis(`at`) AS published_at, CAST(get_json_object(body, '$.applied') "
            "AS BIGINT) AS changes"
            f" FROM {log} WHERE kind = 'manifest'"
        )
        selects["batches"].append(
            f"SELECT {name}, timestamp_millis(`at`) AS done_at, CAST(get_json_object(body, "
            "'$.counts.messages') AS BIGINT) AS messages,"
            f" CAST(get_json_object(body, '$.counts.dead') AS BIGINT) AS dead_letters FROM {log} WHERE kind "
            "= 'done'"
        )
        selects["quality"].append(
            f"SELECT {name}, timestamp_millis(`at`) AS judged_at, concat(database, '.', `table`) AS `table`, "
            "expectation, action, checked,"
            f" failed FROM {_quoted(f'{source}_quality')}"
        )
    return {name: " UNION ALL ".join(parts) for name, parts in selects.items()}


def dashboard(sources: Iterable[str]) -> dict[str, Any]:
    """The JSON document of the dashboard."""
    datasets = [
        {"name": name, "displayName": name, "queryLines": [text]} for name, text in queries(sources).items()
    ]
    widgets = [
        _table("tables", ["source", "database", "table", "state", "why"], (0, 0, 6, 6)),
        _line("batches", "done_at", "messages", (0, 6, 3, 6)),
        _line("published", "published_at", "changes", (3, 6, 3, 6)),
        _line("batches", "done_at", "dead_letters", (0, 12, 3, 6)),
        _table(
            "quality", ["judged_at", "table", "expectation", "action", "checked", "failed"], (3, 12, 3, 6)
        ),
    ]
    page = {
        "name": "lakehouse",
        "displayName": "Lakehouse",
        "pageType": "PAGE_TYPE_CANVAS",
        "layout": widgets,
    }
    return {"datasets": datasets, "pages": [page]}


def _widget(
    dataset: str,
    title: str,
    fields: list[dict[str, str]],
    spec: dict[str, Any],
    place: tuple[int, int, int, int],
) -> dict[str, Any]:
    query = {"datasetName": dataset, "fields": fields, "disaggregated": True}
    frame = {"showTitle": True, "title": title}
    return {
        "widget": {
            "name": f"{dataset}_{spec['widgetType']}_{place[0]}_{place[1]}",
            "queries": [{"name": "main_query", "query": query}],
            "spec": {**spec, "frame": frame},
        },
        "position": dict(zip(("x", "y", "width", "height"), place, strict=True)),
    }


def _table(dataset: str, names: list[str], place: tuple[int, int, int, int]) -> dict[str, Any]:
    columns = [{"fieldName": name, "displayName": name.replace("_", " ")} for name in names]
    return _widget(
        dataset,
        dataset,
        _fields(names),
        {"version": 1, "widgetType": "table", "encodings": {"columns": columns}},
        place=place,
    )


def _line(dataset: str, time: str, value: str, place: tuple[int, int, int, int]) -> dict[str, Any]:
    encodings = {
        "x": {"fieldName": time, "scale": {"type": "temporal"}, "displayName": time.replace("_", " ")},
        "y": {"fieldName": value, "scale": {"type": "quantitative"}, "displayName": value.replace("_", " ")},
        "color": {"fieldName": "source", "scale": {"type": "categorical"}, "displayName": "source"},
    }
    spec = {"version": 3, "widgetType": "line", "encodings": encodings}
    return _widget(dataset, value.replace("_", " "), _fields([time, value, "source"]), spec, place=place)


def _fields(names: list[str]) -> list[dict[str, str]]:
    return [{"name": name, "expression": _quoted(name)} for name in names]


def text(sources: Iterable[str]) -> str:
    """The dashboard's document as text."""
    return json.dumps(dashboard(sources), indent=2) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(sys.argv[2:]), encoding="utf-8")
