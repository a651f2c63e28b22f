"""Charts as inline SVG: lines over time, bars per batch, marks in lanes. All input and output is text; each
chart is well-formed XML.

Colours are CSS classes of the page's style sheet, for light and dark. Every mark has a <title>, which
browsers show as a tooltip.
"""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from lakehouse.reporting.web.markup import Markup, element, text

WIDTH, HEIGHT = 720, 200
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 26
LANE = 22
# round times, in seconds
_TIMES = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1_800,
    3_600,
    7_200,
    10_800,
    21_600,
    43_200,
    86_400,
    172_800,
    604_800,
    2_592_000,
)
Point = tuple[float, float]


class Series(NamedTuple):
    """A line: its name, its class (`a` or `b`), and its points in time order, each with a tooltip."""

    name: str
    style: str
    points: Sequence[Point]
    tips: Sequence[str]


class Bar(NamedTuple):
    """A bar: its label, its height, and its tooltip."""

    label: str
    value: float
    tip: str


class Mark(NamedTuple):
    """A mark in a lane at a time."""

    lane: str
    at: float
    tip: str


def line_chart(label: str, series: Sequence[Series], show: Callable[[float], str], unit: float = 0) -> Markup:
    """A chart of lines over time (milliseconds). `show` formats axis values; `unit` is a second where values
    are times.
    """
    points = [point for line in series for point in line.points]
    if not points:
        return empty(label)
    x, y = _span([at for at, _ in points]), _nice(*_span([value for _, value in points]), unit)
    body = [_grid(y, show), _times(x, HEIGHT)]
    for line in series:
        places = [(_x(at, x), _y(value, y)) for at, value in line.points]
        path = " ".join(
            f"{'L' if number else 'M'}{px:.1f} {py:.1f}" for number, (px, py) in enumerate(places)
        )
        body.append(f'<path class="line {line.style}" d="{path}"/>')
        body += [_dot(px, py, line.style, tip) for (px, py), tip in zip(places, line.tips, strict=True)]
    return _figure(label, HEIGHT, body)


def bar_chart(label: str, bars: Sequence[Bar], show: Callable[[float], str]) -> Markup:
    """A chart of bars from zero, in their order."""
    if not bars:
        return empty(label)
    y = _nice(0.0, max(bar.value for bar in bars) or 1.0)
    room = WIDTH - LEFT - RIGHT
    step = room / len(bars)
    width = min(40.0, step * 0.8)
    body = [_grid(y, show)]
    every = max(1, math.ceil(len(bars) / 12))
    for number, bar in enumerate(bars):
        left, top = LEFT + step * number + (step - width) / 2, _y(bar.value, y)
        body.append(
            f'<rect class="bar" x="{left:.1f}" y="{top:.1f}" width="{max(width, 0.5):.1f}" '
            f'height="{HEIGHT - BOTTOM - top:.1f}">'
            f"<title>{text(bar.tip)}</title></rect>"
        )
        if number % every == 0:
            body.append(
                f'<text class="tick" x="{left + width / 2:.1f}" y="{HEIGHT - 8}" '
                f'text-anchor="middle">{text(bar.label)}</text>'
            )
    return _figure(label, HEIGHT, body)


def lanes_chart(label: str, marks: Sequence[Mark]) -> Markup:
    """A chart with a lane per name, in the order of their first marks, and a mark at each time."""
    if not marks:
        return empty(label)
    lanes = list(dict.fromkeys(mark.lane for mark in marks))
    height = TOP + LANE * len(lanes) + BOTTOM
    x = _span([mark.at for mark in marks])
    left = LEFT + 110
    body = [_times(x, height, left)]
    for number, lane in enumerate(lanes):
        middle = TOP + LANE * number + LANE / 2
        name = lane if len(lane) <= 26 else lane[:25] + "…"
        body.append(
            f'<text class="tick" x="{left - 10}" y="{middle + 4:.1f}" '
            f'text-anchor="end">{text(name)}<title>{text(lane)}</title></text>'
        )
        body.append(
            f'<line class="grid" x1="{left}" x2="{WIDTH - RIGHT}" y1="{middle:.1f}" y2="{middle:.1f}"/>'
        )
    body += [
        _dot(_x(mark.at, x, left), TOP + LANE * lanes.index(mark.lane) + LANE / 2, "a", mark.tip, radius=5)
        for mark in marks
    ]
    return _figure(label, height, body)


def empty(label: str) -> Markup:
    """The placeholder of a chart without data."""
    return element("p", f"{label}: nothing to show yet", "none")


def clock(millis: float, span: float = 0) -> str:
    """A time in UTC, as precise as a span of so many milliseconds needs."""
    try:
        moment = datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return "out of range"
    if span > 2 * 86_400_000:
        return moment.strftime("%m-%d")
    return moment.strftime("%H:%M:%S" if 0 < span < 600_000 else "%H:%M" if span else "%Y-%m-%d %H:%M:%S")


def seconds(value: float) -> str:
    """A duration in the unit that fits."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(value) >= 2 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s"


def count(value: float) -> str:
    """A number with thousands separators, or shortened."""
    return (
        f"{value / 1e6:.3g} M"
        if abs(value) >= 1e6
        else f"{value:,.0f}"
        if float(value).is_integer() or abs(value) >= 100
        else f"{value:.3g}"
    )


def _figure(label: str, height: float, body: Sequence[str]) -> Markup:
    box = f'viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{text(label)}"'
    return Markup(f"<svg {box}>{''.join(body)}</svg>")


def _dot(x: float, y: float, style: str, tip: str, radius: float = 2.5) -> str:
    return (
        f'<circle class="dot {style}" cx="{x:.1f}" cy="{y:.1f}" '
        f'r="{radius}"><title>{text(tip)}</title></circle>'
    )


def _grid(y: tuple[float, float], show: Callable[[float], str]) -> str:
    lines = []
    for number in range(5):
        value = y[0] + (y[1] - y[0]) * number / 4
        place = _y(value, y)
        lines.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place:.1f}" y2="{place:.1f}"/>'
            f'<text class="tick" x="{LEFT - 6}" y="{place + 4:.1f}" '
            f'text-anchor="end">{text(show(value))}</text>'
        )
    return "".join(lines)


def _times(x: tuple[float, float], height: float, left: float = LEFT) -> str:
    span = x[1] - x[0]
    ticks = [x[0] + span * number / 5 for number in range(6)]
    return "".join(
        (
            f'<text class="tick" x="{_x(at, x, left):.1f}" y="{height - 8:.0f}" '
            f'text-anchor="{_anchor(number)}">{text(clock(at, span))}</text>'
        )
        for number, at in enumerate(ticks)
    )


def _anchor(number: int) -> str:
    return "start" if number == 0 else "end" if number == 5 else "middle"


def _span(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 500.0, high + 500.0)


def _nice(low: float, high: float, unit: float = 0) -> tuple[float, float]:
    """A range of four steps whose ends are round numbers, or round times."""
    step = _step((high - low) / 4, unit)
    begin = math.floor(low / step) * step
    while begin + 4 * step < high:
        step = _step(step * 1.01, unit)
        begin = math.floor(low / step) * step
    return begin, begin + 4 * step


def _step(least: float, unit: float) -> float:
    if unit and unit <= least <= _TIMES[-1] * unit:
        return next(unit * time for time in _TIMES if unit * time >= least)
    size = 10.0 ** math.floor(math.log10(least))
    return next(size * factor for factor in (1, 2, 2.5, 5, 10, 20) if size * factor >= least * 0.999)


def _x(at: float, span: tuple[float, float], left: float = LEFT) -> float:
    return left + (at - span[0]) / (span[1] - span[0]) * (WIDTH - RIGHT - left)


def _y(value: float, span: tuple[float, float]) -> float:
    return HEIGHT - BOTTOM - (value - span[0]) / (span[1] - span[0]) * (HEIGHT - TOP - BOTTOM)
