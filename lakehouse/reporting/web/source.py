"""A source on the page: what lakehouse.spark.readers.timeline has read of it, as key figures, charts and
tables. Names, counts, times, statements and errors, never a row's value.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from lakehouse.reporting.text.problems import source_problems
from lakehouse.reporting.text.remedies import Steps
from lakehouse.reporting.text.tables import Problem, View, table_problems
from lakehouse.reporting.text.values import counted, statement
from lakehouse.reporting.web.charts import (
    Bar,
    Mark,
    Series,
    bar_chart,
    clock,
    count,
    lanes_chart,
    line_chart,
    seconds,
)
from lakehouse.reporting.web.markup import (
    Markup,
    code,
    details,
    element,
    joined,
    link,
    state,
    steps,
    table,
    text,
)

Observed = dict[str, Any]
# Characters of a statement, and of an error, that are shown.
STATEMENT = 500
# Tables that are listed, those that are not exact first.
TABLES = 500
# Batches that are listed below their charts.
BATCHES = 20
LANES = 15
_STATES = ("behind", "incomplete", "exact", "retired")


class Frame(NamedTuple):
    """What a source's section depends on besides its readings: how commands name things, its number on the
    page, and whether a server is there that has more pages.
    """

    view: View
    number: int = 0
    served: bool = False


def section(source: Observed, frame: Frame) -> Markup:
    """The section of one source, in parts that change one by one while it grows."""
    parts = [
        title(source, frame),
        tiles(source),
        problems(source, frame),
        element("div", joined(element("div", chart) for chart in charts(source, frame)), "charts"),
        batch_list(source, frame),
        tables(source, frame),
        dead_letters(source, frame),
        balance(source),
        runs(source),
    ]
    return element("section", joined(_part(frame, n, part) for n, part in enumerate(parts)))


def _part(frame: Frame, number: int, inner: Markup) -> Markup:
    return Markup(f"<div id='s{frame.number}-{number}' data-part=''>{inner}</div>")


def title(source: Observed, frame: Frame) -> Markup:
    """The source's name, and the pages about it."""
    named = f"{text(source['source'])} <span class='muted'>{text(source['format'])}</span>"
    heading = f"<h2 id='{text(source['source'])}'>{named}</h2>"
    if not frame.served:
        return Markup(heading)
    query = [("source", source["source"])]
    links = (
        link("/letters", query, "Dead letters"),
        link("/manifests", query, "Manifests, and the difference between two"),
    )
    return joined([Markup(heading), Markup(f"<nav aria-label='Pages of this source'>{''.join(links)}</nav>")])


def tiles(source: Observed) -> Markup:
    """The key figures of a source."""
    status, total = source["status"], source["totals"]
    fresh = source["batches"][-1]["fresh"] if source["batches"] else None
    lag = status.get("lag_seconds", None if fresh is None else max(0.0, (source["now"] - fresh) / 1000))
    states = [table["state"] for table in status.get("tables", ())]
    shown = [
        ("watermark", "none yet" if fresh is None else clock(fresh) + " UTC"),
        ("lag of the watermark", "unknown" if lag is None else seconds(lag)),
        ("messages not yet read", count(status["lag_messages"]) if "lag_messages" in status else "unknown"),
        ("messages read", count(total.get("messages", 0))),
        ("changes kept", count(total.get("inserted", 0))),
        ("duplicates dropped", count(total.get("duplicate", 0))),
        ("dead letters", count(status.get("dead_letters", 0))),
        ("tables exact", f"{states.count('exact')} of {len(states) - states.count('retired')}"),
    ]
    inner = (joined([element("b", value), element("span", name)]) for name, value in shown)
    return element("div", joined(element("div", one, "tile") for one in inner), "tiles")


def problems(source: Observed, frame: Frame) -> Markup:
    """What needs somebody, worst first, with what mends it, or a line that nothing does."""
    found = [*_problems(source, frame.view), *(Problem("warn", _raised(one)) for one in source["epochs"])]
    if not found:
        return element("p", "Nothing needs attention.", "ok")
    written: set[Steps] = set()
    return element("ul", joined(element("li", _problem(one, written)) for one in found), "problems")


def _problems(source: Observed, view: View) -> Iterator[Problem]:
    status = source["status"]
    yield from source_problems(status, view)
    yield from table_problems(status.get("tables", ()), source["source"], view)


def _problem(problem: Problem, written: set[Steps]) -> Markup:
    """A problem, and what to do where that is not `written` above."""
    what = () if problem.steps in written else problem.steps
    written.add(problem.steps)
    return joined([state(problem.state), " ", problem.text, steps(what)])


def _raised(epoch: Observed) -> str:
    return f"epoch {epoch['epoch']} was raised {clock(epoch['at'])} UTC: {epoch['why']}"


def charts(source: Observed, frame: Frame) -> tuple[Markup, ...]:
    """All charts of a source."""
    return watermark_chart(source), lag_chart(source), throughput_chart(source), ddl_chart(source, frame)


def watermark_chart(source: Observed) -> Markup:
    """A chart of the source's watermark at each batch."""
    batches = [batch for batch in source["batches"] if batch["fresh"] is not None]
    tips = [f"batch {batch['batch']} at {clock(batch['at'])}: {clock(batch['fresh'])}" for batch in batches]
    span = max((batch["fresh"] for batch in batches), default=0) - min(
        (batch["fresh"] for batch in batches), default=0
    )
    line = Series("source time", "a", [(batch["at"], batch["fresh"]) for batch in batches], tips)
    chart = line_chart("watermark by time of the batch", [line], lambda value: clock(value, span or 1), 1000)
    return _titled("Watermark: source time reached, by time of the batch", chart)


def lag_chart(source: Observed) -> Markup:
    """A chart of the watermark's age at each batch."""
    dated = [batch for batch in source["batches"] if batch["fresh"] is not None]
    points = [(batch["at"], _lag(batch)) for batch in dated]
    tips = [
        f"batch {batch['batch']} at {clock(batch['at'])}: {seconds(lag)}"
        for batch, (_, lag) in zip(dated, points, strict=True)
    ]
    chart = line_chart("lag by time of the batch", [Series("lag", "b", points, tips)], seconds, 1)
    return _titled("Lag: age of the watermark when a batch was done", chart)


def _lag(batch: Observed) -> float:
    """Seconds between a batch's end and the watermark that it reached."""
    return max(0.0, float(batch["at"] - batch["fresh"]) / 1000)


def throughput_chart(source: Observed) -> Markup:
    """A chart of messages per second of each silver batch."""
    bars = [Bar(str(batch["batch"]), _rate(batch), _batch_tip(batch)) for batch in source["batches"][-120:]]
    chart = bar_chart("messages a second by batch", bars, count)
    return _titled("Throughput: messages a second, by silver batch", chart)


def _titled(title: str, *inner: Markup) -> Markup:
    return joined([element("h3", title), *inner])


def _rate(batch: Observed) -> float:
    return float(batch["messages"] / batch["seconds"]) if batch["seconds"] else float(batch["messages"])


def _batch_tip(batch: Observed) -> str:
    return (
        f"batch {batch['batch']} at {clock(batch['at'])}: {batch['messages']} messages in "
        f"{seconds(batch['seconds'])}, "
        f"{batch['inserted']} changes, {batch['duplicate']} duplicates, {batch['ddl']} DDLs, {batch['dead']} "
        "dead letters"
    )


def ddl_chart(source: Observed, frame: Frame) -> Markup:
    """A chart of DDL statements by table, over the source's time, and the last of them in full."""
    marks = [
        Mark(step["table"] or "(no table)", step["at"], f"{clock(step['at'])}: {step['ddl']}")
        for step in source["ddl"][-200:]
        if step["at"]
    ]
    lanes = list(dict.fromkeys(mark.lane for mark in marks))
    shown = [mark for mark in marks if mark.lane in lanes[-LANES:]]
    more = [element("p", f"and {len(lanes) - LANES} more tables", "muted")] if len(lanes) > LANES else []
    chart = lanes_chart("DDL by the source's time", shown)
    return _titled("DDL, by the source's time", chart, *more, _ddl_list(source["ddl"][-20:], frame))


def _ddl_list(found: Sequence[Observed], frame: Frame) -> Markup:
    rows = [
        (clock(one["at"]) if one["at"] else "", one["table"], code(statement(one["ddl"], STATEMENT)))
        for one in reversed(found)
    ]
    inner = table(("at (UTC)", "table", "statement"), rows)
    return (
        details(f"s{frame.number}-ddl", f"the last {counted(len(rows), 'statement')}", inner)
        if rows
        else Markup()
    )


def batch_list(source: Observed, frame: Frame) -> Markup:
    """The numbers behind the charts."""
    rows = [
        (
            batch["batch"],
            clock(batch["at"]),
            seconds(batch["seconds"]),
            *(count(batch[name]) for name in ("messages", "inserted", "duplicate", "ddl", "dead")),
            "" if batch["fresh"] is None else clock(batch["fresh"]),
            "" if batch["fresh"] is None else seconds(_lag(batch)),
        )
        for batch in reversed(source["batches"][-BATCHES:])
    ]
    names = ("batch", "at (UTC)", "took", "messages", "changes", "duplicates", "DDL", "dead letters")
    inner = table((*names, "watermark (UTC)", "lag"), rows, numbers=(0, 2, 3, 4, 5, 6, 7, 9))
    return details(f"s{frame.number}-batches", f"the last {counted(len(rows), 'batch')} in numbers", inner)


def tables(source: Observed, frame: Frame) -> Markup:
    """The gold tables with their states, those that are not exact first."""
    found = source["status"].get("tables", ())
    shown = sorted(found, key=lambda one: (_STATES.index(one["state"]), one["table"]))[:TABLES]
    rows = [
        (
            _table_name(source["source"], one, frame),
            state(one["state"]),
            one["why"] or "",
            "; ".join(one["notes"] or ()),
            one["version"],
        )
        for one in shown
    ]
    inner = table(("table", "state", "why", "notes", "version"), rows, numbers=(4,))
    hidden = len(found) - len(shown)
    rest = [element("p", f"and {counted(hidden, 'table')} more", "muted")] if hidden else []
    return _titled("Tables", inner, *rest)


def _table_name(source: str, one: Observed, frame: Frame) -> object:
    """A table's name; where a server is there, a link to what it has of a table that still is one."""
    name = one["table"]
    if not frame.served or one["state"] == "retired":
        return name
    return link("/table", [("source", source), ("table", name)], name)


def dead_letters(source: Observed, frame: Frame) -> Markup:
    """The dead letters by code and table, and the last of them."""
    letters = source["dead_letters"]
    counts = [(entry["code"], entry["table"], entry["number"]) for entry in letters["counts"]]
    if not counts:
        return _titled("Dead letters", element("p", "None.", "ok"))
    latest = [
        (entry["code"], entry["table"], entry["message"], _bytes_of(source["source"], entry, frame))
        for entry in letters["latest"]
    ]
    last = table(("code", "table", "why", "where its bytes are"), latest)
    whole = table(("code", "table", "number"), counts, numbers=(2,))
    return joined([_titled("Dead letters", whole), _titled("The last of them", last)])


def _bytes_of(source: str, letter: Observed, frame: Frame) -> Markup:
    """Where a letter's bytes are; where a server is there, a link to them."""
    if not frame.served:
        return code(letter["origin"])
    return link("/letter", [("source", source), *letter["place"].items()], code(letter["origin"]))


_BALANCE = (
    ("messages", "messages read"),
    ("control", "of them without an event: BEGIN, heartbeats, tombstones"),
    ("decoded", "changes decoded"),
    ("inserted", "of them kept"),
    ("duplicate", "of them known already"),
    ("conflict", "of them of a known identity, with other values"),
    ("below", "of them below the retention floor, and refused"),
    ("ddl", "statements and schema records"),
    ("watermarks", "watermarks"),
    ("dead", "dead letters"),
)


def balance(source: Observed) -> Markup:
    """The reconciliation of silver: all messages read, by outcome."""
    total = source["totals"]
    rows = [(meaning, count(total[name])) for name, meaning in _BALANCE if name in total]
    if not rows:
        return _titled("Balance", element("p", "Nothing yet.", "none"))
    accounted = sum(total.get(name, 0) for name in ("inserted", "duplicate", "conflict", "below"))
    missing = total.get("decoded", 0) - accounted
    verdict = (
        element("p", "Every decoded change is accounted for.", "ok")
        if missing == 0
        else element("p", f"{missing} changes are not accounted for.", "fail")
    )
    return _titled("Balance", table(("what", "number"), rows, numbers=(1,)), verdict)


def runs(source: Observed) -> Markup:
    """The last runs that landed, decoded or published something."""
    rows = [
        (
            clock(run["begun"]),
            seconds((run["ended"] - run["begun"]) / 1000),
            ", ".join(run["layers"]),
            run["landed"],
            run["batches"],
            "published" if run["published"] else "",
            _outcome(run),
        )
        for run in reversed(source["runs"][-20:])
    ]
    names = ("begun (UTC)", "took", "layers", "landed", "batches", "gold", "outcome")
    return _titled("Runs", table(names, rows, numbers=(3, 4)))


def _outcome(run: Observed) -> Markup:
    if run["error"] is None:
        return element("span", "ok", "ok")
    return element("span", statement(run["error"], STATEMENT), "fail")
