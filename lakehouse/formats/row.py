"""The types of the fields of FORMATS: data, and functions that load others, so that importing it is cheap.

A field of type `Callable[[], T]` imports its module when it is first called. Callers call it once and keep
the result; nothing is looked up for each row or message.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from lakehouse.events import Event, Message, Position, Stored

Options = Mapping[str, str]
Decode = Callable[[Message, Options], Iterator[Event]]
DecodeStored = Callable[[Message, Options], list[Stored]]


class Option(NamedTuple):
    """One setting of the feed that its messages do not tell. Values are text, as YAML and the command line
    give them. `spelled`: other names that its producer has for it, the usual one first. `only_with`: the
    option and its value without which this one has no effect. `same_events`: it decides whether a message
    can be decoded, or what gold does with it; no event of silver would be another one with another value.
    `pattern`: what its values match, where they are no list of words, which `expected` describes.
    """

    default: str
    help: str
    choices: tuple[str, ...] = ()
    spelled: tuple[str, ...] = ()
    only_with: tuple[str, str] | None = None
    same_events: bool = False
    pattern: str = ""
    expected: str = ""


class Setting(NamedTuple):
    """A setting of the producer that can lose data: its default (None: harmless), a pattern of the harmful
    values, and what they cost.
    """

    default: str | None
    harmful: str
    cost: str


class Caveat(NamedTuple):
    """A warning of `validate` that no single setting causes: the place in the source's YAML, what is lost,
    what to do, and whether it holds for these options and this `consistency`.
    """

    path: tuple[str, ...]
    text: str
    fix: str
    applies: Callable[[Options, str | None], bool]


class Producer(NamedTuple):
    """What the formats of one family of producers share.

    `server`: whose conversion rules hold (mysql, mariadb or tidb), None where the option `server` says it;
    `tso`: a commit_ts is a TSO, else milliseconds; `carries_virtual`: rows have VIRTUAL generated columns.
    The others say what to set upstream: `old_rows` where updates lack old rows, `whole_images` where images
    lack columns, `whole_deletes` where deletes carry the key alone, `whole_rows` where rows can't be had at
    all, `partitioning` where the changes of one key come in several partitions, `watermarks` where none come
    (empty: no setting sends them).
    """

    server: str | None
    tso: bool
    carries_virtual: bool
    old_rows: str
    whole_images: str
    whole_deletes: str
    whole_rows: str
    partitioning: str
    watermarks: str


class OtherOrder(NamedTuple):
    """The order of a feed whose options say that it is not the format's usual one."""

    order: str
    applies: Callable[[Options], bool]


class DetectedOption(NamedTuple):
    """An option of the values auto, true and false that determines the order, and that each message shows.

    `shows` raises DecodeError for bytes that are no message.
    """

    name: str
    shows: Callable[[], Callable[[Message], bool]]


class Redelivery(NamedTuple):
    """How messages that are sent again after a restart are distinguished from new ones in a feed in order of
    arrival (lakehouse.silver.redelivery).

    `number`: the member that falls at a restart; `least`: how many messages in a row have to be equal to be a
    replay; `run`: how many messages before a batch are compared with it, at most; `made`: the member with
    the milliseconds at which a message was made, where one number means that they were made together;
    `by_table`: the number never falls within a table but at a restart.
    """

    number: str
    least: int
    run: int
    made: str | None = None
    by_table: bool = False


class Logged(NamedTuple):
    """What a message tells of its event in the server's binlog: when its statement began, in milliseconds of
    the server's clock, and the text of a DDL.
    """

    time: int
    ddl: str | None = None


class TransactionEnd(NamedTuple):
    """How many row events a transaction had, in all and by `database.table`, as its END record counts; the
    number of the file and the offset of its BEGIN, where its id tells them.
    """

    id: str
    event_count: int
    counts: dict[str, int]
    begin: tuple[int, int] | None = None


class TransactionRow(NamedTuple):
    """A row's number in its transaction, and its position; `id` is None where the record can't be read. A row
    of a snapshot has no transaction: `flags` tell its place in the snapshot.
    """

    id: str | None
    number: int
    position: Position
    flags: tuple[str, ...] = ()


class Transactions(NamedTuple):
    """Readers of the transactions in records that are no change; the watermark of a feed without others is
    made from them (lakehouse.silver.transaction_watermark). `end` and `row` are None for any other record.
    """

    end: Callable[[Message], TransactionEnd | None]
    row: Callable[[Message], TransactionRow | None]


class LargeMessages(Protocol):
    """Undoes the compression and claim check of large messages before they are decoded."""

    def names(self, message: Message, options: Options) -> tuple[str, ...]:
        """The names of the claim-check files that this message needs: names of files, never paths."""

    def prepare(self, message: Message, options: Options, attachments: Mapping[str, bytes]) -> Message:
        """The message as the decoder wants it; `attachments` holds the files by those names."""


class Note(msgspec.Struct, frozen=True):
    """Records that are not a whole message. `kind` is one of

    dead        they never can be: bytes that are no part, or parts of a message some of whose parts are
                missing
    duplicate   sent twice by the producer's retry, byte for byte
    waiting     the first parts of a message whose other parts are not there yet
    gap         `n` sequence numbers are skipped before this record: records were lost; the record itself is
                also in another outcome
    """

    kind: str
    messages: tuple[Message, ...]
    text: str
    n: int = 0


Join = Callable[[Iterable[Message]], Iterator[Message | Note]]


class Format(NamedTuple):
    """One wire format. The defaults are what most formats have.

    Reading
        decode, decode_stored   events of a message; the second the same with changes as silver stores them,
                                where that is cheaper
        parts                   joins the parts of messages that several records hold
        large                   undoes compression and claim check
        reads_files             the messages are files of a storage sink, with schema files beside them
        framed                  a message holds several events in frames (lakehouse.formats.open_frames)
        schema_encodings        encodings of which values are left to the table's schema
                                (lakehouse.values.decode_with_schema)
    Order and completeness
        order, other_order      the family of positions (lakehouse.events): tidb, binlog, arrival or files
        has_watermarks          whether its feeds tell how far they are complete
        transactions            they tell it by the ends of transactions
        redelivery              how messages sent again are told from new ones where order is arrival
        logged                  reads what a message tells of its event in the server's binlog, where all of
                                that comes in the binlog's order and tells no place of it
        tells_ends              positions are those of the ends of binlog events, not of their beginnings
        tells_servers           events name the server of their binlog
        mixes_names             rows behind an ALTER that exchanges names of columns may have values under the
                                wrong ones
        hides_sessions          a statement's message has the database of a table that it names, and not the
                                session's
        tells_all               statements come of tables too whose rows the producer leaves out
        sends_row_ids           rows of tables without a key may have a row id
        tells_inserts           an insert is never an update, by any release and setting (docs/continuity.md)
        counts_partitions       each partition has watermarks of its own, so that their number matters
    Configuration
        options, detected       what the messages do not tell, and which of it they show after all
        shown_options           the options that a sample of messages shows to be others than those said
        tells_time_zone         messages name the zone of TIMESTAMP text, so that the option seldom matters
        producer                what is the same in all formats of a family
        harmful_settings        settings of the producer that can destroy something
        caveats                 further warnings
    Discovery
        shape, is_own           formats of one shape can't be told apart by decoding; whether a sample is this
                                one's. The format of a shape that has no `is_own` is what none other is
        untyped_question        what to ask where messages carry no types
        tells_rules             whose conversion rules a message shows (mysql or mariadb), where it does
        hides_updates           what to set upstream where, without old values, an update looks like an insert
    """

    decode: Decode
    order: str
    options: Mapping[str, Option]
    has_watermarks: bool
    producer: Producer
    harmful_settings: Mapping[str, Setting]
    decode_stored: DecodeStored | None = None
    parts: Callable[[], Join] | None = None
    large: Callable[[], LargeMessages] | None = None
    reads_files: bool = False
    framed: bool = False
    schema_encodings: tuple[str, ...] = ()
    other_order: OtherOrder | None = None
    transactions: Callable[[], Transactions] | None = None
    redelivery: Redelivery | None = None
    logged: Callable[[], Callable[[Message], Logged | None]] | None = None
    tells_ends: bool = False
    tells_servers: bool = False
    mixes_names: bool = False
    hides_sessions: bool = False
    tells_all: bool = False
    sends_row_ids: bool = False
    tells_inserts: bool = False
    counts_partitions: bool = False
    detected: DetectedOption | None = None
    shown_options: Callable[[], Callable[[Iterable[Message], Options], dict[str, str]]] | None = None
    tells_time_zone: bool = False
    caveats: tuple[Caveat, ...] = ()
    shape: str = ""
    is_own: Callable[[], Callable[[Sequence[Message]], bool]] | None = None
    untyped_question: str = ""
    tells_rules: Callable[[], Callable[[Message], str | None]] | None = None
    hides_updates: str = ""
