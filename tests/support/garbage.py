"""Bytes that are no message: what a decoder may make of them is events or DecodeError, nothing else."""

import random
from collections.abc import Callable, Iterator, Mapping

import msgspec

from lakehouse.errors import DecodeError
from lakehouse.events import Event, Message

Decode = Callable[[Message, Mapping[str, str]], Iterator[Event]]


def mutations(decode: Decode, messages: list[Message], per_message: int) -> int:
    """Decode `per_message` truncated or flipped forms of every message; how many of them were refused. Other
    exceptions pass through.
    """
    refused = 0
    for seed, message in enumerate(messages):
        chance = random.Random(seed)
        for _ in range(per_message):
            try:
                list(decode(_mutated(message, chance), {}))
            except DecodeError as error:
                assert error.code and str(error)
                refused += 1
    return refused


def _mutated(message: Message, chance: random.Random) -> Message:
    part = "key" if message.key and chance.random() < 0.2 else "value"
    data = bytearray(getattr(message, part) or b"")
    if chance.random() < 0.3:
        del data[chance.randrange(len(data)) :]
    else:
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return msgspec.structs.replace(message, **{part: bytes(data)})
