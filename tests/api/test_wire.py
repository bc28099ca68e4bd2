"""What goes over the wire for a page: compressed, and once; streams as they are."""

from __future__ import annotations

import gzip

import pytest

from tests.stack import Stack, chat_workflow


def test_a_page_is_small_and_is_sent_once(product: Stack) -> None:
    product.install(chat_workflow("wire", title="Wire"))
    first = product.get("/webhook/wire", Accept_Encoding="gzip, deflate, br")
    assert (first.status, first.headers["content-encoding"]) == (200, "gzip")
    assert len(first.body) < 50_000 and first.headers["content-length"] == str(len(first.body))
    assert "Accept-Encoding" in first.headers["vary"] and first.headers["cache-control"] == "no-cache"
    assert b"<title>Wire</title>" in gzip.decompress(first.body)
    again = product.get("/webhook/wire", Accept_Encoding="gzip", If_None_Match=first.headers["etag"])
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"])


def test_a_page_that_has_changed_is_sent_again(product: Stack) -> None:
    product.install(chat_workflow("rewired", title="One"))
    first = product.get("/webhook/rewired")
    product.install(chat_workflow("rewired2", title="Two"))
    second = product.get("/webhook/rewired2", If_None_Match=first.headers["etag"])
    assert (second.status, b"<title>Two</title>" in second.body) == (200, True)


@pytest.mark.parametrize("accept", ["", "identity", "br", "gzip;q=0", "gzip; q=0.0, identity"])
def test_who_takes_no_gzip_gets_none(product: Stack, accept: str) -> None:
    page = product.get("/webhook/support", Accept_Encoding=accept)
    assert page.status == 200 and "content-encoding" not in page.headers
    assert page.body.startswith(b"<!doctype html>")


def test_every_spelling_of_an_address_is_one_page(product: Stack) -> None:
    tags = {
        product.get(f"/webhook/{path}").headers["etag"] for path in ("support", "support/", "support///", "/support")
    }
    assert len(tags) == 1


@pytest.mark.parametrize("accept", ["application/x-ndjson", "text/event-stream", "application/json"])
def test_answers_are_never_compressed(product: Stack, accept: str) -> None:
    reply = product.say("support", "hello", Accept=accept, Accept_Encoding="gzip, br")
    assert reply.status == 200 and "content-encoding" not in reply.headers
    assert b"19 * 23" in reply.body or b'"19 "' in reply.body
