"""An hour of a small shop as a lake: orders and customers in several runs, with DDL between the changes,
masked columns, rejected rows and dead letters; and the demo's lake. Notebooks and the Python API are run on
them.
"""

from pathlib import Path

from lakehouse.config.load import load
from lakehouse.spark.pipeline.run import run
from tests.support.orders_feed import OrdersFeed
from tests.support.paths import ROOT

ORDERS = (
    "CREATE TABLE `shop`.`orders` (`id` INT PRIMARY KEY, `total` DECIMAL(10,2), `note` VARCHAR(20), "
    "`kind` VARCHAR(9))"
)
CUSTOMERS = (
    "CREATE TABLE `shop`.`customers` (`email` VARCHAR(40) PRIMARY KEY, `card` VARCHAR(19), "
    "`city` VARCHAR(20))"
)
TABLES = {
    "shop.orders": """\
quality:
- {expect: expect_column_values_to_be_between, column: total, args: {min_value: 0}, action: reject}
- {expect: expect_column_values_to_be_in_set, column: note, args: {value_set: [new, paid, shipped, sent]}}
- {expect: expect_column_values_to_be_unique, column: total}
""",
    "shop.customers": "columns:\n  email: {hash: sha256}\n  card: {mask: last4, rename: card_number}\n",
}
LAYERS = ("bronze", "silver", "gold")
RECORDING = ROOT / "lakehouse/demo/demo.jsonl"
CITIES = ("Berlin", "Wien", "Zürich")


def demo_lake(folder: Path) -> Path:
    """What `lakehouse demo` leaves, in the folder's `lake`, without its broker."""
    (folder / "configs/sources").mkdir(parents=True)
    text = f"format: ticdc-open\nrecording: [{RECORDING}]\ntime_zone: UTC\ntables: auto\n"
    (folder / "configs/sources/demo.yml").write_text(text)
    run(load(folder / "configs"), LAYERS, True, (), str(folder / "lake"), lambda _: None)
    return folder / "lake"


def minute(number: float) -> int:
    """So many minutes as the part of a TSO."""
    return int(number * 60_000) << 18


def shop_lake(folder: Path) -> Path:
    """The lake, made in the folder by four runs."""
    feed = OrdersFeed(
        folder / "shop.jsonl", types={"email": "varchar(40)", "card": "varchar(19)", "city": "varchar(20)"}
    )
    source = f"format: ticdc-canal-json\nrecording: [{feed.path}]\ntime_zone: UTC\ntables: auto\n"
    files = {f"tables/{name}": f"source: shop\n{text}" for name, text in TABLES.items()}
    for name, text in {"sources/shop": source, **files}.items():
        path = folder / f"configs/{name}.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    lake = folder / "lake"
    for part in (_opening, _business, _afternoon, _evening):
        part(feed)
        run(load(folder / "configs"), LAYERS, True, (), str(lake), lambda _: None)
    return lake


def _opening(feed: OrdersFeed) -> None:
    feed.on("orders").ddl(minute(0), ORDERS)
    feed.on("customers").pk_names = ["email"]
    feed.ddl(minute(0.2), CUSTOMERS)
    for number in range(6):
        _customer(feed, number, minute(1 + number * 0.7))
    feed.on("orders").pk_names = ["id"]
    for number in range(8):
        _order(feed, number, minute(2 + number))
    feed.insert(minute(11), id="90", total="-1.00", note="new", kind="web").resolved(minute(12))


def _business(feed: OrdersFeed) -> None:
    for number in range(8, 24):
        _order(feed, number, minute(12.2 + (number - 8) * 0.9))
    for number in range(12):
        _pay(feed, number, minute(14 + number), "new", "paid")
    feed.ddl(minute(26.5), "ALTER TABLE `shop`.`orders` ADD COLUMN `sum` DECIMAL(10,2) DEFAULT 0")
    feed.resolved(minute(27))


def _afternoon(feed: OrdersFeed) -> None:
    for number in range(8):
        _pay(feed, number, minute(28 + number), "paid", "lost" if number == 5 else "shipped", sum="1.00")
    feed.garbage(b'{"type": "INSERT"').garbage(b"\x00\x01 no JSON").resolved(minute(38))


def _evening(feed: OrdersFeed) -> None:
    for number in (3, 9):
        feed.delete(
            minute(40 + number / 2), id=str(number), total=_total(number), note="paid", kind="web", sum="0.00"
        )
    feed.on("customers").pk_names = ["email"]
    for number in range(6, 9):
        _customer(feed, number, minute(41 + number))
    old: dict[str, str | None] = {"city": CITIES[1]}
    feed.update(minute(51), old, email="customer1@example.com", card="4000-0000-0000-0001", city="Graz")
    feed.on("orders").pk_names = ["id"]
    _pay(feed, 1, minute(52), "shipped", "sent", sum="2.50")
    feed.resolved(minute(55))


def _customer(feed: OrdersFeed, number: int, at: int) -> None:
    feed.insert(
        at, email=f"customer{number}@example.com", card=f"4000-0000-0000-{number:04}", city=CITIES[number % 3]
    )


def _total(number: int) -> str:
    return f"{5 + number * 3 % 40}.00"


def _order(feed: OrdersFeed, number: int, at: int) -> None:
    feed.insert(at, id=str(number), total=_total(number), note="new", kind="web" if number % 3 else "shop")


def _pay(feed: OrdersFeed, number: int, at: int, before: str, after: str, **more: str) -> None:
    row = {"id": str(number), "total": _total(number), "kind": "web" if number % 3 else "shop", **more}
    feed.update(at, {"note": before, **({"sum": "0.00"} if more else {})}, note=after, **row)
