"""Cells stored into columns of dates and times."""

from decimal import Decimal

from lakehouse.values.normal_form import duration_text, fraction
from lakehouse.values.server_value import (
    Address,
    Bits,
    Cell,
    Dated,
    Document,
    NoRule,
    Single,
    Span,
    as_decimal,
    as_integer,
    as_text,
    rounded,
)
from lakehouse.values.store_assignment.target import Target
from lakehouse.values.store_assignment.tidb_times import read_moment, read_time
from lakehouse.values.temporal import (
    MAX_DURATION,
    ZERO,
    Moment,
    day_text,
    duration_of_number,
    is_between_lasts,
    moment_of_number,
    moment_text,
    parse_duration,
    parse_moment,
    time_of_day,
    to_digits,
    to_local,
    to_utc,
)

_LAST_NUMBER = 99991231235959
_LAST_TIME, _FIRST_DATED = 8385959, 10_000_000_000
_FIRST_INSTANT = Moment(1970, 1, 1, second=1)


def _moment(cell: Cell, target: Target) -> Moment:
    """The date and time that a cell is. MySQL reads numbers by their text, the others by their value."""
    match cell:
        case Dated(moment, _):
            return moment
        case Span():
            raise NoRule("the date on which the statement ran")
        case Bits(value, _):
            return moment_of_number(value)
        case Document():
            raise NoRule("a date out of a JSON document")
        case Address():
            raise NoRule("a date out of an address")
        case int() | float() | Decimal() if target.server != "mysql":
            return _number_moment(as_decimal(cell))
        case _ if target.server == "tidb":
            return read_moment(as_text(cell, "tidb"), _digits(target), target.zone)
        case _:
            return parse_moment(as_text(cell, target.server), target.server, rounds=target.rounds)


def _digits(target: Target) -> int:
    return 0 if target.type.family == "date" else target.type.length or 0


def _number_moment(number: Decimal) -> Moment:
    if number < 0:
        return ZERO
    whole = int(number)
    return moment_of_number(whole, int((number - whole) * 1_000_000))


def store_date(cell: Cell, target: Target) -> str:
    """TiDB cuts the time off, also one that is nearly the next day's."""
    if isinstance(cell, Dated) and target.server == "tidb":
        return day_text(cell.moment)
    return day_text(rounded(_moment(cell, target), 0, rounds=target.rounds))


def store_datetime(cell: Cell, target: Target) -> str:
    digits = target.type.length or 0
    return moment_text(rounded(_moment(cell, target), digits, rounds=target.rounds), digits)


def store_timestamp(cell: Cell, target: Target) -> str:
    """In UTC; what is no instant of TIMESTAMP's range is the zero timestamp. To MySQL and TiDB the epoch's
    whole second is none. TiDB looks at the range before it rounds. A local time that the clock skips is an
    error to strict servers, and moved by others. Where MariaDB's range ends depends on its version.
    """
    digits = target.type.length or 0
    local = _moment(cell, target)
    if target.server != "tidb":
        local = rounded(local, digits, rounds=target.rounds)
    if target.server == "mariadb" and is_between_lasts(local, target.zone):
        raise NoRule("a time beyond 2038, which MariaDB holds from 11.5 on")
    instant = to_utc(local, target.zone)
    if instant != ZERO and to_local(instant, target.zone) != local:
        raise NoRule("a local time that a change of the clock skips")
    if instant < _FIRST_INSTANT and target.server != "mariadb":
        instant = ZERO
    if instant != ZERO:
        instant = rounded(instant, digits, rounds=target.rounds)
    return moment_text(instant, digits) + ("Z" if instant != ZERO else "")


def store_time(cell: Cell, target: Target) -> str | None:
    """Within 838:59:59 either way; MariaDB's bound has the column's fraction digits, all nines. TiDB makes
    NULL of numbers far outside.
    """
    digits = target.type.length or 0
    if target.server == "tidb" and _is_null(cell):
        return None
    if isinstance(cell, Span) and target.server == "tidb":  # halves go up, of negative times too
        unit = 10 ** (6 - digits)
        cell = Span((cell.micros + unit // 2) // unit * unit, digits)
    bound = MAX_DURATION + (0 if target.rounds else 1_000_000 - 10 ** (6 - digits))
    micros = max(-bound, min(to_digits(_micros(cell, target), digits, rounds=target.rounds), bound))
    return fraction(duration_text(micros), digits)


def _is_null(cell: Cell) -> bool:
    """What TiDB reads no whole number from, and what lies below its TIMEs."""
    if not isinstance(cell, int | float | Decimal):
        return False
    number = as_integer(cell, "tidb")
    return number >> 63 > 0 or number < -_LAST_TIME


def _micros(cell: Cell, target: Target) -> int:
    match cell:
        case Span(micros, _):
            return micros
        case Dated(moment, _):
            return time_of_day(moment)
        case Document():
            raise NoRule("a time out of a JSON document")
        case Address():
            raise NoRule("a time out of an address")
        case int() | float() | Decimal() | Bits() if target.server == "mariadb":
            return _number_micros(cell)
        case Bits(value, _) if target.server == "mysql" and value > _LAST_NUMBER:
            return MAX_DURATION
        case int() | float() | Decimal() if target.server == "tidb" and _LAST_TIME < cell < _FIRST_DATED:
            return MAX_DURATION
        case _:
            text = str(int(cell)) if isinstance(cell, int) else as_text(cell, target.server)
            if target.server == "tidb":
                return read_time(text, _digits(target), target.zone)
            return parse_duration(text, target.server)


def _number_micros(cell: Cell) -> int:
    """MariaDB's reading of a number; that of a negative one has the time part alone, a float beyond any date
    none.
    """
    number = Decimal(f"{cell:.6g}") if isinstance(cell, Single) else as_decimal(cell)
    size = number.copy_abs()
    if isinstance(cell, float) and size > _LAST_NUMBER:
        return 0
    whole = int(size)
    micro = int((size - whole) * 1_000_000)
    if number < 0:
        return -duration_of_number(whole if whole <= 9_999_999 else 9_999_999, micro)
    return duration_of_number(whole, micro)
