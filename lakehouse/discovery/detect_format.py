"""The wire format of messages, detected by decoding a sample: a decoder refuses messages of other formats.

The format that decodes the most messages is taken. Formats of the same shape can't be distinguished by
decoding; their rows of FORMATS say how they are. A changefeed's compression is detected by trying each.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lakehouse.discovery.inspect import events_of
from lakehouse.errors import ConfigError, DecodeError
from lakehouse.events import DeadLetter, Message
from lakehouse.formats import FORMATS
from lakehouse.formats.assemble import assembled

_SAMPLE_SIZE = 400
# Dead letters of messages that are of the format, but whose row can't be read.
_INCOMPLETE = ("unresolved", "statement", "rollback", "claim_check")


class Guess(NamedTuple):
    """A detected format and options, and how many of the sampled messages it decodes."""

    format: str
    options: dict[str, str]
    read: int
    sampled: int


def guess_format(messages: Sequence[Message], only: str | None = None) -> Guess:
    """The format and options of these messages, or the options alone if the format is `only`. A ConfigError
    where no format decodes half of them.
    """
    sample = [message for message in sample_of(messages) if message.value]
    guesses = [_guess(sample, format, options) for format, options in candidates(only)]
    best = max(guesses, key=lambda guess: guess.read, default=None)
    if best is None or not sample or best.read * 2 < len(sample):
        nearest = (
            f"the nearest, {best.format}, reads {best.read} of {len(sample)}"
            if best and best.read
            else "none can be read"
        )
        named = ", ".join(name for name, _ in candidates(only, plain=True))
        fix = "leave --format out, and it is detected" if only else "add --format NAME if you know it"
        raise ConfigError(f"messages: expected a format of {named}, got others ({nearest}); {fix}")
    if only is None:
        best = best._replace(format=_by_writer(best.format, sample))
    shown = FORMATS[best.format].shown_options
    others = shown()(messages, best.options) if shown is not None else {}
    return best._replace(options={**best.options, **_detected_option(best, sample), **others})


def shown_compression(sample: Sequence[Message], format: str) -> dict[str, str]:
    """The compression of a changefeed's messages as its option, where more of them are read with it than
    without it; empty else.
    """
    guesses = [_guess(list(sample), format, options) for _, options in candidates(format)]
    return max(guesses, key=lambda guess: guess.read).options


def sample_of(messages: Sequence[Message]) -> list[Message]:
    """A bounded sample: contiguous runs from the beginning, middle and end, since the parts of one message
    are consecutive.
    """
    if len(messages) <= _SAMPLE_SIZE:
        return list(messages)
    run, middle = _SAMPLE_SIZE // 4, len(messages) // 2
    return [*messages[: 2 * run], *messages[middle : middle + run], *messages[-run:]]


def candidates(only: str | None, *, plain: bool = False) -> Iterator[tuple[str, dict[str, str]]]:
    """Formats of messages, each with every compression that its changefeed can have, none first."""
    for format, row in FORMATS.items():
        if row.reads_files or only not in (None, format):
            continue
        yield format, {}
        if not plain and "compression" in row.options:
            yield from (
                (format, {"compression": choice})
                for choice in row.options["compression"].choices
                if choice != "none"
            )


def _guess(sample: list[Message], format: str, options: dict[str, str]) -> Guess:
    places = {(message.topic, message.partition, message.offset) for message in sample}
    for message, event in events_of(sample, format, options):
        if isinstance(event, DeadLetter) and event.code not in _INCOMPLETE:
            places.discard((message.topic, message.partition, message.offset))
    return Guess(format, options, len(places), len(sample))


def are_alike(format: str, other: str) -> bool:
    """Whether two formats' messages have the same shape, so that decoding can't distinguish them."""
    return format == other or FORMATS[format].shape == FORMATS[other].shape != ""


def _by_writer(format: str, sample: Sequence[Message]) -> str:
    """The format, of those with this one's shape, whose producer wrote the messages."""
    alike = [name for name in FORMATS if are_alike(name, format)]
    for name in alike:
        if (is_own := FORMATS[name].is_own) and is_own()(sample):
            return name
    return next((name for name in alike if not FORMATS[name].is_own), format)


def _detected_option(guess: Guess, sample: Sequence[Message]) -> Mapping[str, str]:
    detected = FORMATS[guess.format].detected
    if detected is None:
        return {}
    messages = (
        result for result in assembled(sample, guess.format, guess.options) if isinstance(result, Message)
    )
    answers = list(_answers(messages, detected.shows()))
    return {detected.name: "true" if any(answers) else "false"} if answers else {}


def _answers(messages: Iterable[Message], shows: Callable[[Message], bool]) -> Iterator[bool]:
    for message in messages:
        try:
            yield shows(message)
        except DecodeError:
            continue
