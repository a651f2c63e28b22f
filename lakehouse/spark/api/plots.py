"""Plots for the notebooks, each of one question and a small pandas table. All times are UTC.

They return a matplotlib figure, which is imported when the first one is drawn.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pandas as pd

from lakehouse.reporting.text.values import number, safe

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# colours that people with any sight tell apart (Okabe and Ito)
KINDS = {"insert": "#009E73", "update": "#0072B2", "delete": "#D55E00", "snapshot": "#999999"}
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
DDL = "#7A3E8E"
_OF_WORDS = {
    "added": KINDS["insert"],
    "changed": KINDS["update"],
    "removed": KINDS["delete"],
    "open": "#D55E00",
}
WIDTH = 9.0
TABLES = 5
OTHERS = "all others"
_UNITS = ((86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds"))
# before and after the only time
_ALONE = pd.Timedelta(seconds=30)
# of the width of a plot: marks that lie closer are one
TOGETHER = 0.025


def activity(frame: pd.DataFrame, ddl: pd.DataFrame | None = None) -> "Figure":
    """Changes per interval, a row of bars for each of the tables that change most, coloured by kind;
    statements as numbered lines on the same axis (`ddl`: number, committed_at).
    """
    totals = frame.groupby("table")["changes"].sum().sort_values(ascending=False)
    tables = list(totals.index[:TABLES])
    rest = frame[~frame["table"].isin(tables)]
    parts = [(name, frame[frame["table"] == name]) for name in tables]
    parts += [(OTHERS, rest)] if not rest.empty else []
    figure, every = _figure(len(parts), 1.25)
    width = pd.Timedelta(milliseconds=frame.attrs.get("millis", 60_000))
    for axes, (name, part) in zip(every, parts, strict=False):
        _stacked(axes, part, width)
        axes.set_title(_text(name), loc="left", fontsize=9)
    _whole_numbers(every)
    if _marks(every, ddl):
        every[0].set_title(_text(parts[0][0]), loc="left", fontsize=9, pad=15)
    figure.suptitle(f"Changes per {frame.attrs.get('per', 'minute')}", x=0.01, ha="left", fontsize=11)
    _key(figure, {kind: KINDS[kind] for kind in KINDS if kind in set(frame["op"])}, ddl)
    _time_axis(every[-1], "committed at the source")
    return figure


def _stacked(axes: "Axes", part: pd.DataFrame, width: pd.Timedelta) -> None:
    by_kind = part.pivot_table(index="at", columns="op", values="changes", aggfunc="sum", fill_value=0)
    bottom = pd.Series(0, index=by_kind.index)
    for kind in (kind for kind in KINDS if kind in by_kind):
        axes.bar(by_kind.index, by_kind[kind], width, bottom=bottom, align="edge", color=KINDS[kind])
        bottom = bottom + by_kind[kind]


def lag(frame: pd.DataFrame) -> "Figure":
    """How old the newest complete change was when a batch was finished, and how many changes the batch
    had.
    """
    figure, (top, below) = _figure(2, 1.3)
    # no batch has an age while a partition has sent no watermark
    oldest = max(0.0, frame["lag_seconds"].fillna(0).max())
    size, unit = next((one for one in _UNITS if oldest >= 2 * one[0]), _UNITS[-1])
    for colour, (source, part) in zip(cycle(COLOURS), frame.groupby("source"), strict=False):
        ages = part["lag_seconds"] / size
        top.plot(part["at"], ages, marker="o", markersize=4, color=colour, label=_text(source))
        below.vlines(part["at"], 0, part["changes"], color=colour, linewidth=3)
    top.set_ylim(0, oldest / size * 1.15 or 1)
    below.set_ylim(bottom=0)
    _widened(below, frame["at"])
    top.set_title(f"Lag, in {unit}: age of the newest complete change", loc="left", fontsize=9)
    below.set_title("Changes per batch", loc="left", fontsize=9)
    _whole_numbers([below])
    if frame["source"].nunique() > 1:
        top.legend(fontsize=8, frameon=False)
    _time_axis(below, "batch finished")
    return figure


def timeline(frame: pd.DataFrame) -> "Figure":
    """The values of one row after each of its changes, a lane per column, with the statements between them
    (committed_at, op, text, values: the row by column, or None where it is gone).
    """
    steps = frame.to_dict("records")
    lanes = list(dict.fromkeys(name for step in steps for name in (step["values"] or {})))
    figure, (axes,) = _figure(1, max(1.6, 0.42 * len(lanes) + 1.1))
    for lane, column in enumerate(lanes):
        _lane(axes, lane, [(step["values"] or {}).get(column, _GONE) for step in steps])
    for place, step in enumerate(steps):
        colour = KINDS.get(step["op"], DDL)
        axes.axvline(place, color=colour, linewidth=1.2)
        words = _text(_EVERY_ALTER.sub("", step["text"]).replace("`", ""), max(6, 100 // len(steps)))
        axes.text(place + 0.04, -0.95, words, color=colour, fontsize=8, va="center")
    axes.set_ylim(len(lanes) - 0.4, -1.4)
    axes.set_xlim(-0.02, len(steps))
    axes.set_yticks(range(len(lanes)), [_text(name, 24) for name in lanes])
    times = [pd.Timestamp(step["committed_at"]) for step in steps]
    known = [time for time in times if time is not pd.NaT]  # rows that a snapshot has read have none
    slope, span = 30 if len(steps) > 5 else 0, max(known) - min(known) if known else pd.Timedelta(0)
    shown = ["" if time is pd.NaT else _time_word(time, span) for time in times]
    axes.set_xticks(range(len(steps)), shown, rotation=slope, ha="left", fontsize=8)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.set_xlabel(_label("committed at the source", known), fontsize=8)
    return figure


_GONE = object()
# what every statement about a table begins with
_EVERY_ALTER = re.compile(r"^ALTER TABLE (?:`[^`]*`\.)?`[^`]*` ", re.IGNORECASE)


def _lane(axes: "Axes", lane: int, values: Sequence[Any]) -> None:
    """One column's values as boxes, a new colour where it changes."""
    begin = 0
    shade = 0
    for place in range(1, len(values) + 1):
        if place < len(values) and _same(values[place], values[begin]):
            continue
        if values[begin] is not _GONE:
            colour = COLOURS[shade % len(COLOURS)]
            axes.barh(lane, place - begin, left=begin, height=0.72, color=colour, alpha=0.22)
            room = (place - begin) * 110 // len(values)
            axes.text(begin + 0.05, lane, _text(_value(values[begin]), max(room, 6)), va="center", fontsize=8)
            shade += 1
        begin = place


def _same(one: Any, other: Any) -> bool:
    return one is other or (one is not _GONE and other is not _GONE and str(one) == str(other))


def _value(value: Any) -> str:
    return "NULL" if value is None else str(value)


def ranking(frame: pd.DataFrame, title: str) -> "Figure":
    """What is most, as bars: the first column names, the last one counts; a column between colours."""
    names, counts = frame.columns[0], frame.columns[-1]
    order = frame.groupby(names)[counts].sum().sort_values(ascending=False).index[:15]
    figure, (axes,) = _figure(1, max(1.2, 0.3 * len(order) + 0.7))
    kinds = sorted(set(frame[frame.columns[1]])) if len(frame.columns) > 2 else [None]
    left = pd.Series(0, index=order)
    for other, kind in zip(cycle(COLOURS), kinds, strict=False):
        colour = _OF_WORDS.get(kind or "", other)
        part = frame if kind is None else frame[frame[frame.columns[1]] == kind]
        sizes = part.groupby(names)[counts].sum().reindex(order, fill_value=0)
        label = None if kind is None else _text(kind)
        names_shown = [_text(name, 48) for name in order]
        axes.barh(names_shown, sizes, 0.6, left=left, color=colour, label=label)
        left = left + sizes
    for place, size in enumerate(left):
        axes.text(size, place, f" {number(int(size))}", va="center", fontsize=8)
    axes.set_ylim(max(len(order), 3) - 0.5, -0.5)
    axes.margins(x=0.12)
    axes.xaxis.set_visible(False)
    axes.grid(visible=False)
    axes.set_title(_text(title), loc="left", fontsize=11)
    if kinds != [None]:
        axes.legend(fontsize=8, frameon=False, loc="lower right")
    return figure


def over_time(frame: pd.DataFrame, title: str, label: str, ddl: pd.DataFrame | None = None) -> "Figure":
    """A number over time by name (at, name, value), as it was from each time on; statements on the same
    axis.
    """
    figure, (axes,) = _figure(1, 2.9)
    names = list(dict.fromkeys(frame["name"]))
    for colour, name in zip(cycle(COLOURS), names, strict=False):
        part = frame[frame["name"] == name].sort_values("at")
        axes.step(
            part["at"], part["value"], where="post", marker="o", markersize=4, color=colour, label=_text(name)
        )
    axes.set_ylim(bottom=0)
    _widened(axes, frame["at"])
    _whole_numbers([axes])
    _marks([axes], ddl)
    axes.set_title(_text(title), loc="left", fontsize=11, pad=16)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    _time_axis(axes, label)
    return figure


def by_run(frame: pd.DataFrame, title: str) -> "Figure":
    """A number of each run by name (at, name, value), as bars one upon another: the last 60 runs."""
    table = frame.pivot_table(index="at", columns="name", values="value", aggfunc="sum", fill_value=0).tail(
        60
    )
    figure, (axes,) = _figure(1, 2.4)
    places, bottom = range(len(table)), pd.Series(0, index=table.index)
    for colour, name in zip(cycle(COLOURS), table.columns, strict=False):
        axes.bar(places, table[name], 0.6, bottom=bottom, color=colour, label=_text(name))
        bottom = bottom + table[name]
    times = [pd.Timestamp(time) for time in table.index]
    every = max(1, -(-len(times) // 8))
    words = [_time_word(time, max(times) - min(times)) for time in times]
    axes.set_xticks(places[::every], words[::every], fontsize=8)
    axes.set_xlim(-0.6, max(len(times), 6) - 0.4)
    axes.set_ylim(0, max(bottom.max(), 1) * 1.15)
    axes.set_xlabel(_label("run at", times), fontsize=8)
    axes.set_title(_text(title), loc="left", fontsize=11)
    _whole_numbers([axes])
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


# --- what they share


def _figure(rows: int, height: float) -> "tuple[Figure, list[Axes]]":
    import matplotlib.pyplot as plt

    figure, found = plt.subplots(
        rows, 1, figsize=(WIDTH, rows * height + 0.7), sharex=True, squeeze=False, layout="constrained"
    )
    every = list(found[:, 0])
    for axes in every:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
        axes.tick_params(labelsize=8)
    return figure, every


def _widened(axes: "Axes", times: pd.Series) -> None:
    """Room around a time that is the only one."""
    if times.nunique() == 1:
        axes.set_xlim(times.iloc[0] - _ALONE, times.iloc[0] + _ALONE)


def _time_axis(axes: "Axes", label: str) -> None:
    from matplotlib import dates

    locator = dates.AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    ends = [pd.Timestamp(_time_of(one)) for one in axes.get_xlim()]
    axes.xaxis.set_major_formatter(lambda place, _: _time_word(_time_of(place), ends[1] - ends[0]))
    axes.set_xlabel(_label(label, ends), fontsize=8)


def _whole_numbers(every: "Sequence[Axes]") -> None:
    from matplotlib.ticker import MaxNLocator

    for axes in every:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
        axes.yaxis.set_major_formatter(lambda count, _: number(int(count)))


def _marks(every: "Sequence[Axes]", ddl: pd.DataFrame | None) -> bool:
    """Statements as lines through all plots, with their numbers above the first; those that lie close
    together as one.
    """
    ddl = None if ddl is None else ddl.dropna(subset=["committed_at"])
    if ddl is None or ddl.empty:
        return False
    from matplotlib.dates import date2num

    low, high = every[0].get_xlim()
    places = date2num(ddl["committed_at"])  # type: ignore[no-untyped-call]
    marks: list[tuple[float, list[int]]] = []
    for time, count in sorted(zip(places, ddl["number"], strict=True)):
        if not low <= time <= high:
            continue
        if marks and time - marks[-1][0] < TOGETHER * (high - low):
            marks[-1][1].append(int(count))
        else:
            marks.append((time, [int(count)]))
    for time, counts in marks:
        for axes in every:
            axes.axvline(time, color=DDL, linewidth=0.9, linestyle="--", alpha=0.8)
        words = str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
        every[0].annotate(
            words, (time, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 2), textcoords="offset points",
            ha="center", color=DDL, fontsize=8,
        )  # fmt: skip
    return bool(marks)


def _key(figure: "Figure", colours: dict[str, str], ddl: pd.DataFrame | None) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(color=colour, label=name) for name, colour in colours.items()]
    if ddl is not None and not ddl.empty:
        handles.append(Line2D([], [], color=DDL, linestyle="--", label="DDL, by its number"))
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), fontsize=8, frameon=False)


def _text(value: Any, most: int = 60) -> str:
    """Text on one line, shortened, in which nothing is taken for a formula."""
    line = safe(" ".join(str(value).split()))
    line = line if len(line) <= most else line[: most - 1] + "…"
    return line.replace("$", r"\$")


def _time_of(place: float) -> datetime:
    from matplotlib.dates import num2date

    return num2date(place)  # type: ignore[no-untyped-call]


def _time_word(time: datetime, span: pd.Timedelta) -> str:
    """A time as exact as its neighbours need it."""
    if span > pd.Timedelta(days=2):
        return f"{time:%Y-%m-%d}" if span > pd.Timedelta(days=14) else f"{time:%m-%d %H:%M}"
    if span > pd.Timedelta(minutes=8):
        return f"{time:%H:%M}"
    return f"{time:%H:%M:%S}" + (f".{time.microsecond // 1000:03d}" if span < pd.Timedelta(seconds=8) else "")


def _label(words: str, times: Sequence[pd.Timestamp]) -> str:
    """What an axis of times shows, with the days that they are of."""
    days = list(dict.fromkeys(f"{time:%Y-%m-%d}" for time in times))
    if not days:
        return words
    return f"{words} (UTC, {days[0] if len(days) == 1 else f'{days[0]} to {days[-1]}'})"
