"""The report as one HTML page without scripts or external resources; readable in light and dark, and
well-formed XML.

It shows what lakehouse.spark.readers.timeline has read of a source: names, counts, times, statements and
errors, never a row's value.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from lakehouse.reporting.svg_charts import (
    Bar,
    Mark,
    Series,
    bar_chart,
    clock,
    count,
    lanes_chart,
    line_chart,
    seconds,
    text,
)
from lakehouse.sources.kafka_offsets import told_loss

Observed = dict[str, Any]
STYLE = """
:root { color-scheme: light dark; --bg: #ffffff; --fg: #1f2328; --muted: #59636e; --line: #d1d9e0; --card:
#f6f8fa;
  --a: #0969da; --b: #bc4c00; --ok: #1a7f37; --warn: #9a6700; --fail: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --bg: #0d1117; --fg: #f0f6fc; --muted: #9198a1; --line:
#3d444d; --card: #151b23;
  --a: #4493f8; --b: #f0883e; --ok: #3fb950; --warn: #d29922; --fail: #f85149; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 24px 16px 64px; background: var(--bg); color: var(--fg);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 20px; margin: 40px 0 8px; border-top: 1px solid
var(--line); padding-top: 24px; }
h3 { font-size: 15px; margin: 24px 0 6px; } p { margin: 4px 0; } .muted, .none, caption { color:
var(--muted); }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(210px, 1fr)); gap: 10px; margin: 14px
0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 12px; }
.tile b { display: block; font-size: 18px; font-weight: 600; overflow-wrap: anywhere; } .tile span { color:
var(--muted); font-size: 13px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 8px
24px; }
svg { width: 100%; height: auto; display: block; } .grid { stroke: var(--line); stroke-width: 1; }
.tick { fill: var(--muted); font-size: 11px; }
.line { fill: none; stroke-width: 2; } .line.a, .dot.a { stroke: var(--a); } .line.b, .dot.b { stroke:
var(--b); }
.dot { stroke-width: 1; } .dot.a { fill: var(--a); } .dot.b { fill: var(--b); } .bar { fill: var(--a); }
.key { display: inline-block; width: 12px; height: 3px; margin: 0 6px 4px 12px; }
.key.a { background: var(--a); } .key.b { background: var(--b); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); vertical-align:
top; overflow-wrap: anywhere; }
th { color: var(--muted); font-weight: 500; white-space: nowrap; } td.n, th.n { text-align: right;
font-variant-numeric: tabular-nums; }
code { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.state { font-weight: 600; white-space: nowrap; } .ok { color: var(--ok); } .warn { color: var(--warn); }
.fail { color: var(--fail); }
"""
_STATES = {"exact": "ok", "incomplete": "warn", "behind": "fail", "retired": "muted"}


def page(sources: Sequence[Observed], where: str, version: str) -> str:
    """The HTML of the whole page."""
    made = "".join(f"{clock(now)} UTC, " for now in sorted(source["now"] for source in sources)[-1:])
    body = [
        f"<h1>Lakehouse report</h1><p class='muted'>{text(where)}, {made}lakehouse {text(version)}</p>",
        *(section(source) for source in sources),
    ]
    if not sources:
        body.append("<p class='none'>This lake has no source yet: nothing has run.</p>")
    head = (
        '<meta charset="utf-8"/><meta name="viewport" content="width=device-width, '
        'initial-scale=1"/><title>Lakehouse report</title>'
    )
    return (
        "<!DOCTYPE html>\n<html "
        f"lang='en'><head>{head}<style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def section(source: Observed) -> str:
    """The section of one source."""
    parts = [
        (
            f"<h2 id='{text(source['source'])}'>{text(source['source'])} <span "
            f"class='muted'>{text(source['format'])}</span></h2>"
        ),
        tiles(source),
        alarms(source),
        f"<div class='charts'><div>{watermark_chart(source)}</div><div>{lag_chart(source)}</div>",
        f"<div>{throughput_chart(source)}</div><div>{ddl_chart(source)}</div></div>",
        tables(source),
        dead_letters(source),
        balance(source),
        runs(source),
    ]
    return f"<section>{''.join(parts)}</section>"


def tiles(source: Observed) -> str:
    """The key figures of a source."""
    status, total = source["status"], source["totals"]
    last = source["batches"][-1] if source["batches"] else None
    lag = status.get("lag_seconds")
    fresh = last["fresh"] if last else None
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
    return (
        "<div class='tiles'>"
        + "".join(
            f"<div class='tile'><b>{text(value)}</b><span>{text(name)}</span></div>" for name, value in shown
        )
        + "</div>"
    )


def alarms(source: Observed) -> str:
    """The problems of a source that need attention, worst first, or a line that there are none."""
    status = source["status"]
    problems = [("fail", f"broker: {status['broker']}")] if "broker" in status else []
    if not status.get("books", "closed").startswith("closed"):
        problems.append(("fail", f"books are {status['books']}"))
    problems += [("fail", told_loss(gap)) for gap in source["gaps"]]
    problems += [("fail", text) for text in source.get("missing_files", ())]
    problems += [
        ("warn", f"watermark: {place} has sent none, and holds it")
        for place in status.get("no_watermark_seen", ())
    ]
    problems += [
        ("warn", f"watermark: {place} was retired, and counts again")
        for place in status.get("counts_again", ())
    ]
    problems += [("warn", problem) for problem in status.get("problems", ())]
    if status.get("not_configured"):
        problems.append(("warn", f"met, but not configured: {', '.join(status['not_configured'])}"))
    problems += [
        ("warn", f"epoch {epoch['epoch']} was raised {clock(epoch['at'])} UTC: {epoch['why']}")
        for epoch in source["epochs"]
    ]
    if not problems:
        return "<p class='ok'>Nothing needs attention.</p>"
    return (
        "<ul>"
        + "".join(
            f"<li><span class='state {kind}'>{kind}</span> {text(what)}</li>" for kind, what in problems
        )
        + "</ul>"
    )


def watermark_chart(source: Observed) -> str:
    """A chart of the source's watermark at each batch."""
    batches = [batch for batch in source["batches"] if batch["fresh"] is not None]
    tips = [f"batch {batch['batch']} at {clock(batch['at'])}: {clock(batch['fresh'])}" for batch in batches]
    span = max((batch["fresh"] for batch in batches), default=0) - min(
        (batch["fresh"] for batch in batches), default=0
    )
    line = Series("source time", "a", [(batch["at"], batch["fresh"]) for batch in batches], tips)
    return "<h3>Watermark: source time reached, by time of the batch</h3>" + line_chart(
        "watermark", [line], lambda value: clock(value, span or 1)
    )


def lag_chart(source: Observed) -> str:
    """A chart of the watermark's age at each batch."""
    dated = [batch for batch in source["batches"] if batch["fresh"] is not None]
    points = [(batch["at"], max(0.0, (batch["at"] - batch["fresh"]) / 1000)) for batch in dated]
    tips = [
        f"batch {batch['batch']} at {clock(batch['at'])}: {seconds(lag)}"
        for batch, (_, lag) in zip(dated, points, strict=True)
    ]
    return "<h3>Lag: age of the watermark when a batch was done</h3>" + line_chart(
        "lag", [Series("lag", "b", points, tips)], seconds, 1
    )


def throughput_chart(source: Observed) -> str:
    """A chart of messages per second of each silver batch."""
    bars = [Bar(str(batch["batch"]), _rate(batch), _batch_tip(batch)) for batch in source["batches"][-120:]]
    return "<h3>Throughput: messages a second, by silver batch</h3>" + bar_chart("throughput", bars, count)


def _rate(batch: dict[str, Any]) -> float:
    return float(batch["messages"] / batch["seconds"]) if batch["seconds"] else float(batch["messages"])


def _batch_tip(batch: dict[str, Any]) -> str:
    return (
        f"batch {batch['batch']} at {clock(batch['at'])}: {batch['messages']} messages in "
        f"{seconds(batch['seconds'])}, "
        f"{batch['inserted']} changes, {batch['duplicate']} duplicates, {batch['ddl']} DDLs, {batch['dead']} "
        "dead letters"
    )


def ddl_chart(source: Observed) -> str:
    """A chart of DDL statements by table, over the source's time."""
    marks = [
        Mark(step["table"] or "(no table)", step["at"], f"{clock(step['at'])}: {step['ddl']}")
        for step in source["ddl"][-200:]
        if step["at"]
    ]
    lanes = list(dict.fromkeys(mark.lane for mark in marks))
    shown = [mark for mark in marks if mark.lane in lanes[-15:]]
    more = f"<p class='muted'>and {len(lanes) - 15} more tables</p>" if len(lanes) > 15 else ""
    return (
        "<h3>DDL, by the source's time</h3>"
        + lanes_chart("DDL", shown)
        + more
        + _ddl_list(source["ddl"][-10:])
    )


def _ddl_list(steps: Sequence[dict[str, Any]]) -> str:
    rows = [
        (clock(step["at"]) if step["at"] else "", f"<code>{text(_short(step['ddl'] or ''))}</code>")
        for step in reversed(steps)
    ]
    return (
        (
            "<details><summary>the last "
            f"{len(rows)}</summary>{_table(('at (UTC)', 'statement'), rows, raw=(1,))}</details>"
        )
        if rows
        else ""
    )


def tables(source: Observed) -> str:
    """The gold tables with their states."""
    rows = [
        (
            table["table"],
            f"<span class='state {_STATES.get(table['state'], '')}'>{text(table['state'])}</span>",
            table["why"] or "",
            "; ".join(table["notes"] or ()),
            table["version"],
        )
        for table in source["status"].get("tables", ())
    ]
    return "<h3>Tables</h3>" + _table(
        ("table", "state", "why", "notes", "version"), rows, raw=(1,), numbers=(4,)
    )


def dead_letters(source: Observed) -> str:
    """The open dead letters."""
    letters = source["dead_letters"]
    counts = [(entry["code"], entry["table"], entry["number"]) for entry in letters["counts"]]
    if not counts:
        return "<h3>Dead letters</h3><p class='ok'>None.</p>"
    latest = [
        (entry["code"], entry["table"], entry["message"], f"<code>{text(entry['origin'])}</code>")
        for entry in letters["latest"]
    ]
    return (
        "<h3>Dead letters</h3>"
        + _table(("code", "table", "number"), counts, numbers=(2,))
        + "<h3>The last of them</h3>"
        + _table(("code", "table", "why", "where its bytes are"), latest, raw=(3,))
    )


_BALANCE = (
    ("messages", "messages read"),
    ("control", "of them without an event: BEGIN, heartbeats, tombstones"),
    ("decoded", "changes decoded"),
    ("inserted", "of them kept"),
    ("duplicate", "of them known already"),
    ("conflict", "of them of a known identity, with other values"),
    ("ddl", "statements and schema records"),
    ("watermarks", "watermarks"),
    ("dead", "dead letters"),
)


def balance(source: Observed) -> str:
    """The reconciliation of silver: all messages read, by outcome."""
    total = source["totals"]
    rows = [(meaning, count(total[name])) for name, meaning in _BALANCE if name in total]
    unaccounted = total.get("decoded", 0) - sum(
        total.get(name, 0) for name in ("inserted", "duplicate", "conflict")
    )
    verdict = (
        "<p class='ok'>Every decoded change is accounted for.</p>"
        if unaccounted == 0
        else f"<p class='fail'>{unaccounted} changes are not accounted for.</p>"
    )
    return "<h3>Balance</h3>" + (
        _table(("what", "number"), rows, numbers=(1,)) + verdict
        if rows
        else "<p class='none'>Nothing yet.</p>"
    )


def runs(source: Observed) -> str:
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
    return "<h3>Runs</h3>" + _table(names, rows, raw=(6,), numbers=(3, 4))


def _outcome(run: dict[str, Any]) -> str:
    return (
        "<span class='ok'>ok</span>"
        if run["error"] is None
        else f"<span class='fail'>{text(_short(run['error']))}</span>"
    )


def _short(words: str) -> str:
    return words if len(words) <= 500 else words[:499] + "…"


def _table(
    names: Sequence[str], rows: Iterable[Sequence[Any]], raw: Sequence[int] = (), numbers: Sequence[int] = ()
) -> str:
    """An HTML table; the cells of columns in `raw` are markup already."""
    cells = list(rows)
    if not cells:
        return "<p class='none'>None yet.</p>"
    kinds = [" class='n'" if number in numbers else "" for number in range(len(names))]
    head = "".join(f"<th{kind}>{text(name)}</th>" for kind, name in zip(kinds, names, strict=True))
    lines = (
        "<tr>"
        + "".join(f"<td{kinds[n]}>{cell if n in raw else text(cell)}</td>" for n, cell in enumerate(row))
        + "</tr>"
        for row in cells
    )
    return (
        "<div "
        f"class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )
