"""The server over real HTTP and in a real browser, from readings without a lake."""

import copy
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import EnvironmentError_, LakehouseError
from lakehouse.reporting.web import server as module
from lakehouse.reporting.web.server import HOST, Server
from tests.reporting.web.test_pages import ADDRESSES
from tests.reporting.web.test_report import observed, parsed, rows, words
from tests.support.browser import NO_BROWSER, Tab, opened, program, wait_for
from tests.support.readings import FakeReadings, site_of


class Growing:
    """A source that has as many batches as a test wants."""

    def __init__(self) -> None:
        self.batches = 3

    def __call__(self) -> list[dict[str, Any]]:
        source = copy.deepcopy(observed())
        source["batches"] = source["batches"][: self.batches]
        source["totals"]["messages"] = self.batches * 1000
        return [source]


@pytest.fixture
def growing() -> Growing:
    return Growing()


@pytest.fixture
def readings(growing: Growing) -> FakeReadings:
    return FakeReadings(growing)


@pytest.fixture
def server(readings: FakeReadings) -> Iterator[Server]:
    with Server(0) as one:
        thread = threading.Thread(target=one.serve, args=(site_of(readings),))
        thread.start()
        yield one
        one.stop()
        thread.join()


def ask(
    server: Server, address: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection(HOST, server.port, timeout=30)
    connection.request(method, address, headers=headers or {})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, body


def raw(server: Server, text: bytes) -> bytes:
    """What the server answers to bytes that are sent as they are."""
    with socket.create_connection((HOST, server.port), timeout=30) as line:
        line.sendall(text)
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(65536), b""))


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_page_is_served_under_a_policy_that_allows_nothing_else(address: str, server: Server) -> None:
    status, headers, body = ask(server, address)

    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert parsed(body).find(".//h1") is not None
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["connect-src"] == policy["form-action"] == "'self'"
    assert policy["script-src"].startswith("'sha256-")
    assert policy["style-src"].startswith("'sha256-")
    assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
    assert (headers["Cache-Control"], headers["Server"]) == ("no-store", "lakehouse")


def test_it_listens_on_its_one_address_and_on_no_other_of_this_machine(server: Server) -> None:
    # whoever listens everywhere answers here too
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", server.port), timeout=5)

    assert ask(server, "/")[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}"]
)
def test_a_request_under_another_name_is_refused_and_reads_nothing(
    host: str, server: Server, readings: FakeReadings
) -> None:
    status, _, body = ask(server, "/", headers={"Host": host.format(port=server.port)})

    assert (status, readings.asked) == (403, [])
    assert f"expected a request to {server.url} by its own pages" in words(body)


def test_this_machine_may_be_called_localhost(server: Server) -> None:
    assert ask(server, "/", headers={"Host": f"localhost:{server.port}"})[0] == 200


@pytest.mark.parametrize(
    ("site", "mode", "status"),
    [
        ("cross-site", "no-cors", 403),
        ("same-site", "cors", 403),
        ("cross-site", "navigate", 200),
        ("same-origin", "cors", 200),
        ("none", "navigate", 200),
    ],
)
def test_another_sites_page_can_lead_here_and_not_ask(
    site: str, mode: str, status: int, server: Server
) -> None:
    assert ask(server, "/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode})[0] == status


def test_two_hosts_in_one_request_are_refused(server: Server) -> None:
    host = f"Host: {HOST}:{server.port}\r\n".encode()

    assert b" 403 " in raw(server, b"GET / HTTP/1.0\r\n" + host + b"Host: evil.example\r\n\r\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "BREW"])
def test_only_get_is_answered(method: str, server: Server, readings: FakeReadings) -> None:
    status, headers, _ = ask(server, "/", method)

    assert (status, headers["Allow"], readings.asked) == (405, "GET", [])


@pytest.mark.parametrize(
    "text", [b"\r\n\r\n", b"GET\r\n\r\n", b"\0\xff\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /"]
)
def test_what_is_no_http_reads_nothing_and_leaves_the_server_as_it_is(
    text: bytes, server: Server, readings: FakeReadings
) -> None:
    raw(server, text)

    assert readings.asked == []
    assert ask(server, "/")[0] == 200


def test_an_address_says_what_is_wrong_with_it(server: Server) -> None:
    unknown, lacking, gone = (ask(server, text) for text in ("/x", "/table?source=shop", "/letters?source=y"))

    assert (unknown[0], lacking[0], gone[0]) == (404, 400, 404)
    assert "/x: expected a page of lakehouse ui, found none" in words(unknown[2])
    assert "expected table= in the address, found none" in words(lacking[2])
    assert "y: expected a source of ./lake, found none" in words(gone[2])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            LakehouseError("./lake: was written by a newer lakehouse: upgrade"),
            "was written by a newer lakehouse",
        ),
        (ValueError("row 7 has secret 42"), "internal error: ValueError; `lakehouse --debug ui` shows where"),
    ],
)
def test_an_error_of_the_lake_is_a_page_which_quotes_none_but_our_own(
    error: Exception, said: str, server: Server, readings: FakeReadings
) -> None:
    def fail() -> None:
        raise error

    readings.before = fail

    status, _, body = ask(server, "/")

    assert status == 500
    assert said in words(body)
    assert "secret" not in body


def test_one_thread_reads_one_page_at_a_time_however_many_ask(server: Server, readings: FakeReadings) -> None:
    reading, most = [0], [0]

    def slowly() -> None:
        reading[0] += 1
        most[0] = max(most[0], reading[0])
        time.sleep(0.02)
        reading[0] -= 1

    readings.before = slowly
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(server, "/")[0])) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (answers, most, len(readings.threads)) == ([200] * 10, [1], 1)


def test_whoever_would_wait_too_long_is_told_so(
    server: Server, readings: FakeReadings, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def wait() -> None:
        go_on.wait(30)

    readings.before = wait
    monkeypatch.setattr(server, "_waiting", threading.BoundedSemaphore(1))
    first = threading.Thread(target=ask, args=(server, "/"))
    first.start()
    wait_for(lambda: bool(readings.asked))

    status, _, body = ask(server, "/")
    unknown = ask(server, "/favicon.ico")[0]
    go_on.set()
    first.join()

    assert (status, unknown) == (503, 404)
    assert "too many requests wait for this lake" in words(body)


def test_a_reading_that_takes_too_long_is_answered_and_the_next_one_is_read(server: Server) -> None:
    with pytest.raises(module.Busy, match="has not been read within 0 seconds: try again"):
        server.read(lambda: time.sleep(0.3), 0.05)

    assert server.read(lambda: 7) == 7


def test_no_request_is_logged(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    ask(server, "/row?source=shop&table=shop.orders&k=secret")
    ask(server, "/nowhere")

    assert capfd.readouterr() == ("", "")


def test_a_port_that_is_taken_is_said_with_what_to_do(server: Server) -> None:
    with pytest.raises(EnvironmentError_) as error:
        Server(server.port)

    assert str(error.value) == (
        f"127.0.0.1:{server.port}: expected a free port, another program listens there; --port takes another "
        "one, --port 0 any that is free"
    )


# --- in a real browser


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    found = program()
    if found is None:
        pytest.skip(NO_BROWSER)
    with opened(found) as one:
        yield one


def text_of(tab: Tab, selector: str) -> str:
    return str(tab.ask(f"document.querySelector('{selector}').textContent"))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("address", ADDRESSES)
def test_a_browser_shows_every_page_under_its_policy(
    address: str, dark: bool, tab: Tab, server: Server, tmp_path: Path
) -> None:
    tab.problems.clear()
    tab.show(width=700, dark=dark)
    tab.open(server.url.rstrip("/") + address)

    background = "rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)"
    assert tab.ask("getComputedStyle(document.body).backgroundColor") == background
    assert tab.ask("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert len(rows(tab.picture(tmp_path / "page.png"))) > 50
    assert [problem for problem in tab.problems if "favicon" not in problem] == []


def test_the_page_grows_by_itself_and_keeps_what_is_unfolded(
    tab: Tab, server: Server, growing: Growing
) -> None:
    tab.show()
    tab.open(server.url)
    before = tab.ask("document.querySelectorAll('rect.bar').length")
    tab.ask("document.getElementById('s0-batches').open = true")
    unchanged = "document.querySelector('#s0-8')"
    tab.ask(f"{unchanged}.mark = 'same'")

    growing.batches = 9
    wait_for(lambda: tab.ask("document.querySelectorAll('rect.bar').length") == 9)

    assert before == 3
    assert "9,000messages read" in text_of(tab, ".tiles")
    assert tab.ask("document.getElementById('s0-batches').open") is True
    assert tab.ask(f"{unchanged}.mark") == "same"
    assert tab.ask("document.querySelectorAll('#s0-batches tbody tr').length") == 9


def test_updates_can_be_paused_and_a_part_with_the_focus_stays(
    tab: Tab, server: Server, growing: Growing, readings: FakeReadings
) -> None:
    tab.show()
    tab.open(server.url)
    tab.ask("document.querySelector('#live button').click()")
    asked = len(readings.asked)
    growing.batches = 5
    time.sleep(6)
    paused = (len(readings.asked) - asked, tab.ask("document.querySelectorAll('rect.bar').length"))
    tab.ask("document.querySelector('#s0-batches summary').focus()")
    tab.ask("document.querySelector('#live button').click()")
    wait_for(lambda: "5,000" in text_of(tab, ".tiles"))

    assert paused == (0, 3)
    assert text_of(tab, "#live button") == "Pause updates"
    assert tab.ask("document.activeElement.parentElement.id") == "s0-batches"
    assert tab.ask("document.querySelectorAll('#s0-batches tbody tr').length") == 3


def test_a_server_that_is_gone_is_said_on_the_page(tab: Tab, readings: FakeReadings) -> None:
    tab.show()
    with Server(0) as one:
        thread = threading.Thread(target=one.serve, args=(site_of(readings),))
        thread.start()
        tab.open(one.url)
        one.stop()
        thread.join()

    wait_for(lambda: "No answer from lakehouse ui" in text_of(tab, "#live"))
    assert "3,000messages read" in text_of(tab, ".tiles")


def test_everything_is_reached_by_keyboard_and_seen_where_it_is(tab: Tab, server: Server) -> None:
    tab.show()
    tab.open(server.url + "table?source=shop&table=shop.orders")
    reached = []
    for _ in range(8):
        tab.press("Tab")
        reached.append(tab.ask("document.activeElement.textContent || document.activeElement.name"))
    outline = tab.ask("getComputedStyle(document.activeElement).outlineStyle")
    tab.press("Enter")
    wait_for(lambda: tab.ask("location.pathname") == "/row")

    assert reached == [
        "Skip to content",
        "All sources",
        "Dead letters",
        "Manifests",
        "k",
        "Its history",
        "history",
        "history",
    ]
    assert outline == "solid"
    assert tab.ask("document.querySelector('h1').textContent") == "id = 2"


def test_without_scripts_it_is_a_page_to_reload(tab: Tab, server: Server, growing: Growing) -> None:
    tab.show(scripts=False)
    tab.open(server.url)
    body = tab.ask("document.body.innerText")
    growing.batches = 7
    tab.open(server.url)

    assert "Reload the page to see what is new." in body
    assert tab.ask("document.querySelectorAll('rect.bar').length") == 7
