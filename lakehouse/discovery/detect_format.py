"""The wire format of messages that nobody has described, by reading them: a decoder refuses what is not its
own.

The format that can read the most messages is it. Two can't be told apart by reading: a Canal FlatMessage and
TiCDC's canal-json. TiCDC writes `"id":0` in all messages and no `gtid`; Canal numbers its batches. A
changefeed's compression is found by trying it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from lakehouse.discovery.inspect import events_of
from lakehouse.errors import ConfigError
from lakehouse.events import DeadLetter, Message
from lakehouse.formats import FORMATS
from lakehouse.formats.assemble import assembled

_SAMPLE = 400
_CANAL_JSON = ("canal", "ticdc-canal-json")
# A message of its format whose row can't be had: no sign against the format.
_INCOMPLETE = ("unresolved", "statement", "claim_check")


class Guess(NamedTuple):
    """A format with the options that the messages show, and how many of the sampled messages it reads."""

    format: str
    options: dict[str, str]
    read: int
    sampled: int


def guess_format(messages: Sequence[Message], only: str | None = None) -> Guess:
    """The format of these messages, or the options of `only`. A ConfigError where fewer than half can be read
    by any.
    """
    sample = [message for message in spread(messages) if message.value]
    guesses = [_guess(sample, format, options) for format, options in candidates(only)]
    best = max(guesses, key=lambda guess: guess.read, default=None)
    if best is None or not sample or best.read * 2 < len(sample):
        said = (
            f"the nearest, {best.format}, reads {best.read} of {len(sample)}"
            if best and best.read
            else "none can be read"
        )
        raise ConfigError(
            f"messages: expected a format of {', '.join(name for name, _ in candidates(None, plain=True))}, "
            f"got others ({said}); "
            "add --format NAME if you know it"
        )
    if only is None and best.format in _CANAL_JSON:
        best = best._replace(format="ticdc-canal-json" if _is_ticdc(sample) else "canal")
    return best._replace(options={**best.options, **_shown(best, sample)})


def spread(messages: Sequence[Message]) -> list[Message]:
    """A bounded part of them: whole runs from the beginning, middle and end, since parts of one message lie
    side by side.
    """
    if len(messages) <= _SAMPLE:
        return list(messages)
    run, middle = _SAMPLE // 4, len(messages) // 2
    return [*messages[: 2 * run], *messages[middle : middle + run], *messages[-run:]]


def candidates(only: str | None, *, plain: bool = False) -> Iterator[tuple[str, dict[str, str]]]:
    """Formats of messages, each with the compressions that its changefeed may have; no compression first."""
    for format, told in FORMATS.items():
        if format == "ticdc-storage" or only not in (None, format):
            continue
        yield format, {}
        for choice in () if plain or "compression" not in told.options else ("lz4", "snappy"):
            yield format, {"compression": choice}


def _guess(sample: list[Message], format: str, options: dict[str, str]) -> Guess:
    places = {(message.topic, message.partition, message.offset) for message in sample}
    for message, event in events_of(sample, format, options):
        if isinstance(event, DeadLetter) and event.code not in _INCOMPLETE:
            places.discard((message.topic, message.partition, message.offset))
    return Guess(format, options, len(places), len(sample))


class _Mark(msgspec.Struct):
    id: int | None = None
    gtid: str | None = None
    extension: dict[str, object] | None = msgspec.field(default=None, name="_tidb")


def _marks(sample: Sequence[Message]) -> Iterator[_Mark]:
    decoder = msgspec.json.Decoder(_Mark)
    for message in sample:
        try:
            yield decoder.decode(message.value or b"")
        except msgspec.DecodeError:
            continue


def _is_ticdc(sample: Sequence[Message]) -> bool:
    marks = list(_marks(sample))
    if any(mark.extension is not None for mark in marks):
        return True
    return not any(mark.gtid is not None or mark.id for mark in marks)


def _shown(guess: Guess, sample: Sequence[Message]) -> Mapping[str, str]:
    if guess.format != "ticdc-canal-json":
        return {}
    plain = [found for found in assembled(sample, guess.format, guess.options) if isinstance(found, Message)]
    marks = list(_marks(plain))
    return (
        {"tidb_extension": "true" if any(mark.extension is not None for mark in marks) else "false"}
        if marks
        else {}
    )
