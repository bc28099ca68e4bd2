"""Credentials over REST: added, listed and removed behind the API's key, never read."""

from __future__ import annotations

from typing import Any

from tests.stack import Stack


def test_add_list_and_remove(product: Stack) -> None:
    given = {"name": "Mine", "type": "openAiApi", "data": {"apiKey": "sk-verysecret"}}
    added = product.request("POST", "/api/v1/credentials", given)
    assert added.status == 201 and set(added.json) == {"id", "name", "type", "created"}
    listed = product.get("/api/v1/credentials")
    assert added.json["id"] in {one["id"] for one in listed.json["data"]} and "verysecret" not in listed.body.decode()
    assert product.request("DELETE", f"/api/v1/credentials/{added.json['id']}", None).status == 204
    assert product.request("DELETE", f"/api/v1/credentials/{added.json['id']}", None).status == 404


def test_bad_credentials_are_refused_without_being_quoted(product: Stack) -> None:
    bad: list[Any] = [
        {"name": "x"},
        {"name": "x", "type": "y", "data": {}},
        {"name": "x", "type": "y", "data": "sk-q"},
        [],
    ]
    for given in bad:
        reply = product.request("POST", "/api/v1/credentials", given)
        assert reply.status == 422 and "sk-q" not in reply.body.decode(), reply.body.decode()
