"""Checks of a computed column's expression: it must be a value of the row's own columns, the same at any
time.

Gold is a pure fold over silver, so expressions that depend on the clock, on chance, on other rows or on other
tables are refused. Spark finds what these checks can't know: unknown names, types that don't fit.
"""

from typing import Any

NONDETERMINISTIC = frozenset(
    """
    rand random randn uuid now current_timestamp localtimestamp curdate current_date current_time
    current_timezone current_user user session_user current_database current_catalog unix_timestamp
    monotonically_increasing_id spark_partition_id input_file_name input_file_block_start
    input_file_block_length shuffle version randstr uniform ai_query http_request
    """.split()  # noqa: SIM905 - twenty quoted names read worse
)


def computed_problem(text: str) -> tuple[str, str] | None:
    """The problem with an expression and what to do, or None."""
    # imported where a YAML has such a column: it takes a second
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        parsed = sqlglot.parse(text, read="spark")
    except SqlglotError:
        return "is no SQL expression", "write one of Spark SQL, such as lower(email)"
    if len(parsed) != 1 or parsed[0] is None or not isinstance(parsed[0], exp.Condition | exp.Func):
        return "is no SQL expression", "write one value of Spark SQL, such as lower(email)"
    for node in parsed[0].walk():
        if isinstance(node, exp.Query | exp.Subquery):
            return "reads another table", "use the row's own columns only"
        if isinstance(node, exp.AggFunc | exp.Window | exp.UDTF | exp.Explode):
            return (
                "is not about one row",
                "use the row's own columns, without aggregates, windows and generators",
            )
        if _is_nondeterministic(node, exp):
            return (
                "is another value at another time",
                "use the row's own columns only: gold can be built anew at any time",
            )
    return None


def _is_nondeterministic(node: Any, exp: Any) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in NONDETERMINISTIC
    return isinstance(node, exp.Func) and any(name.lower() in NONDETERMINISTIC for name in node.sql_names())
