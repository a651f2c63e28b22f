"""Files of small storage-sink trees, as the sink writes them."""

import json


def schema_file(version: int, query: str, table: str, schema: str, *columns: str) -> bytes:
    """A schema file of integer columns, `id` being the primary key."""
    content = {
        "Table": table,
        "Schema": schema,
        "TableVersion": version,
        "Query": query,
        "TableColumns": [
            {"ColumnName": name, "ColumnType": "INT", **({"ColumnIsPk": "true"} if name == "id" else {})}
            for name in columns
        ],
    }
    return json.dumps(content).encode()


def old_layout(create: str, *rows: str, query: str = "", version: int = 500) -> dict[str, bytes]:
    """A tree of 6.5.0: a table `k.t` (id, a) with rows in its second version."""
    columns = ("id", "a")
    return {
        "metadata": b'{"checkpoint-ts": 900}',
        "k/t/400/schema.json": schema_file(400, create, "t", "k", *columns),
        f"k/t/{version}/schema.json": schema_file(version, query, "t", "k", *columns),
        f"k/t/{version}/CDC000001.csv": "".join(f"{row}\r\n" for row in rows).encode(),
    }
