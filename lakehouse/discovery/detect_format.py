"""The wire format of messages that nobody has described, by reading them: a decoder refuses what is not its
own.

The format that can read the most messages is it. Formats of one shape can't be told apart by reading; their
rows of FORMATS say what does. A changefeed's compression is found by trying it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lakehouse.discovery.inspect import events_of
from lakehouse.errors import ConfigError, DecodeError
from lakehouse.events import DeadLetter, Message
from lakehouse.formats import FORMATS
from lakehouse.formats.assemble import assembled

_SAMPLE = 400
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
    if only is None:
        best = best._replace(format=_of_shape(best.format, sample))
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
        if told.reads_files or only not in (None, format):
            continue
        yield format, {}
        if not plain and "compression" in told.options:
            yield from (
                (format, {"compression": choice})
                for choice in told.options["compression"].choices
                if choice != "none"
            )


def _guess(sample: list[Message], format: str, options: dict[str, str]) -> Guess:
    places = {(message.topic, message.partition, message.offset) for message in sample}
    for message, event in events_of(sample, format, options):
        if isinstance(event, DeadLetter) and event.code not in _INCOMPLETE:
            places.discard((message.topic, message.partition, message.offset))
    return Guess(format, options, len(places), len(sample))


def are_alike(one: str, other: str) -> bool:
    """Whether two formats' messages have one shape, so that reading them may not tell which they are."""
    return one == other or FORMATS[one].shape == FORMATS[other].shape != ""


def _of_shape(format: str, sample: Sequence[Message]) -> str:
    """Which of the formats that are read like this one has written the messages."""
    alike = [name for name in FORMATS if are_alike(name, format)]
    for name in alike:
        if (is_own := FORMATS[name].is_own) and is_own()(sample):
            return name
    return next((name for name in alike if not FORMATS[name].is_own), format)


def _shown(guess: Guess, sample: Sequence[Message]) -> Mapping[str, str]:
    detected = FORMATS[guess.format].detected
    if detected is None:
        return {}
    plain = (found for found in assembled(sample, guess.format, guess.options) if isinstance(found, Message))
    shown = list(_shown_by(plain, detected.shows()))
    return {detected.name: "true" if any(shown) else "false"} if shown else {}


def _shown_by(messages: Iterable[Message], shows: Callable[[Message], bool]) -> Iterator[bool]:
    for message in messages:
        try:
            yield shows(message)
        except DecodeError:
            continue
