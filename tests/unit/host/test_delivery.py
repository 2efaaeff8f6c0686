"""Whether an answer ends an item; a lane and a real connection to a double of the server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leadline.host.delivery import Delivery, Outcome, Verdict, judge
from leadline.host.frames import Item
from leadline.host.lane import Lane, Refusals
from leadline.host.post import Poster, parse_server
from leadline.host.spool import Spool
from leadline.model.errors import ConfigError

from .conftest import AnsweringDouble


def item(number: int) -> Item:
    return Item("/v1/metrics", "application/x-protobuf", b"body %d" % number, number.to_bytes(16, "big"), 3)


@pytest.mark.parametrize("status", [200, 204])
def test_stored(status: int) -> None:
    assert judge(Delivery(3, 1.0, "x"), Outcome(status), 10.0, 0.5) == (Delivery(), Verdict.STORED)


@pytest.mark.parametrize("status", [400, 404, 413, 415, 422])
def test_poison_ends_with_the_servers_words(status: int) -> None:
    assert judge(Delivery(3), Outcome(status, "w"), 10.0, 0.5) == (Delivery(words="w"), Verdict.POISON)


@pytest.mark.parametrize("status", [0, 301, 401, 403, 408, 429, 500, 502, 503])
def test_all_else_is_tried_again_with_waits_that_double(status: int) -> None:
    state, waits = Delivery(), []
    for _ in range(8):
        state, verdict = judge(state, Outcome(status, "w"), 10.0, 1.0)
        assert verdict is Verdict.AGAIN
        waits.append(state.wait_s)
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert state.health == "retrying"
    assert judge(Delivery(), Outcome(status), 10.0, 0.0)[0].wait_s == 0.125


def test_the_servers_wish_to_wait_is_kept_within_our_bound() -> None:
    assert judge(Delivery(), Outcome(429, "", 5.0), 10.0, 1.0)[0].wait_s == 5.0
    assert judge(Delivery(), Outcome(429, "", 5000.0), 10.0, 1.0)[0].wait_s == 10.0


def test_failures_without_end_do_not_overflow() -> None:
    assert judge(Delivery(10**6), Outcome(0), 10.0, 1.0)[0].wait_s == 10.0


def test_addresses() -> None:
    assert parse_server("http://n1:9000/")[:2] == ("n1", 9000)
    assert parse_server("n1")[:2] == ("n1", 8440)
    assert parse_server("https://n1").tls
    assert parse_server("unix:/run/leadline.sock").socket == "/run/leadline.sock"
    assert parse_server("http://[::1]:8440").host == "::1"
    for text in ("", "unix:relative", "ftp://n1", "http://n1/path", "http://n1:x", "http://[::1"):
        with pytest.raises(ConfigError, match="expected http://HOST:PORT or unix:/PATH"):
            parse_server(text)


def test_a_request_as_it_arrives(answering: AnsweringDouble) -> None:
    post = Poster(parse_server(answering.url), {"Leadline-Tenant": "a"}, 5.0)
    assert post(item(7)) == Outcome(200)
    path, headers, body = answering.got[0]
    assert (path, body) == ("/v1/metrics", b"body 7")
    assert headers["leadline-batch"] == f"{7:032x}"
    assert headers["leadline-tenant"] == "a"
    assert headers["content-type"] == "application/x-protobuf"
    post.close()


def test_refusals_carry_the_servers_words(answering: AnsweringDouble) -> None:
    answering.answers = [
        (429, {"Retry-After": "7"}, b'{"error": {"reason": "queue_full", "message": "later\\n please"}}'),
        (500, {}, b"<html>\xff"),
        (400, {}, b"x" * 100_000),
        (503, {"Retry-After": "\xb2"}, b"[" * 100_000),
    ]
    post = Poster(parse_server(answering.url), {}, 5.0)
    assert post(item(1)) == Outcome(429, "429 queue_full: later please", 7.0)
    assert post(item(1)).words.startswith("500 <html>")
    assert len(post(item(1)).words) <= 500
    assert (post(item(1)).status, post(item(1)).status) == (503, 200)
    assert post(item(1)) == Outcome(200)  # what was not read of the answer before does not stand in the way
    post.close()


def test_nobody_answers() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    outcome = Poster(parse_server(f"http://127.0.0.1:{port}"), {}, 1.0)(item(1))
    assert outcome.status == 0
    assert "refused" in outcome.words


def test_no_socket_and_a_server_that_says_nothing(tmp_path: Path) -> None:
    assert "No such file" in Poster(parse_server(f"unix:{tmp_path}/none"), {}, 1.0)(item(1)).words
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        outcome = Poster(parse_server(f"unix:{tmp_path}/s"), {}, 0.2)(item(1))
    assert outcome.status == 0
    assert "timed out" in outcome.words


def test_a_connection_closed_while_idle_is_opened_again_at_once(tmp_path: Path) -> None:
    """Over a UNIX socket, as the lab does; the double answers one request per connection and says nothing about it."""
    path, got = tmp_path / "s", []
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def answer() -> None:
        for _ in range(2):
            connection, _ = listening.accept()
            with connection:
                request = b""
                while b"body " not in request:  # head and body come apart
                    request += connection.recv(65536)
                got.append(request)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    thread = threading.Thread(target=answer)
    thread.start()
    post = Poster(parse_server(f"unix:{path}"), {}, 5.0)
    assert post(item(1)) == Outcome(200)
    assert post(item(2)) == Outcome(200)
    thread.join()
    listening.close()
    post.close()
    assert len(got) == 2


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_lane_keeps_the_order_and_the_bytes_through_trouble(answering: AnsweringDouble, tmp_path: Path) -> None:
    busy = (503, {}, b"")
    answering.answers = [
        busy,
        busy,
        (200, {}, b""),
        (400, {}, b'{"error": {"reason": "bad_row", "message": "no"}}'),
        busy,
    ]
    refused: list[tuple[Item, str]] = []
    spool = Spool(tmp_path, 1 << 20, lambda *_: None)
    refusals = Refusals(lambda *what: refused.append(what))
    lane = Lane("metrics", spool, [Poster(parse_server(answering.url), {}, 5.0)], 0.02, refusals)
    for number in range(4):
        spool.append(item(number))
    lane.start()
    until(lambda: spool.waiting()[1] == 0)
    spool.append(item(4))  # a lane that waits for something is woken
    until(lambda: lane.delivered == 4 * 3)
    lane.stop(time.monotonic() + 5)
    lane.join()
    assert [body for _, _, body in answering.got] == [b"body %d" % n for n in (0, 0, 0, 1, 2, 2, 3, 4)]
    assert refused == [(item(1), "400 bad_row: no")]
    assert len({headers["leadline-batch"] for _, headers, _ in answering.got}) == 5
    spool.close()


def test_a_lane_that_stops_delivers_what_it_has_or_gives_up_at_the_first_failure(
    answering: AnsweringDouble, tmp_path: Path
) -> None:
    for answers, left in (([], 0), ([(503, {}, b"")] * 9, 3)):
        answering.answers = list(answers)
        spool = Spool(tmp_path / str(left), 1 << 20, lambda *_: None)
        lane = Lane("ring", spool, [Poster(parse_server(answering.url), {}, 5.0)], 10.0, Refusals(lambda *_: None))
        for number in range(3):
            spool.append(item(number))
        began = time.monotonic()
        lane.start()
        lane.stop(began + 5)
        lane.join()
        assert time.monotonic() - began < 5
        assert spool.waiting()[1] == left * 3
        spool.close()


def test_a_header_that_cannot_be_sent_is_a_failure_not_the_end_of_the_lane(answering: AnsweringDouble) -> None:
    post = Poster(parse_server(answering.url), {"Leadline-Tenant": "a\nb"}, 5.0)
    outcome = post(item(7))
    assert (outcome.status, "ValueError" in outcome.words) == (0, True)
