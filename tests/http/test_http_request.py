"""The HTTP Request node against a real server; what it sends and gives is n8n's."""

from __future__ import annotations

import asyncio
import base64
import email
import json
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from convoq.contract.items import Item
from convoq.errors import BadParameter, CredentialMissing, EgressRefused, NodeFailed, RequestFailed
from convoq.nodes.http.http_request import AT_ONCE
from tests.http.server import Handler, Server, egress, says, serving
from tests.nodes.lab import File, Ran, arun_node

NODE = "n8n-nodes-base.httpRequest"
ITEM = {"q": "hi", "n": 5}


def request(
    handler: Handler,
    parameters: Mapping[str, Any] | None = None,
    *items: Mapping[str, Any],
    path: str = "/",
    version: float = 4.2,
    **rest: Any,
) -> tuple[Ran, Server]:
    async def run() -> tuple[Ran, Server]:
        async with serving(handler) as server, egress() as guarded:
            given = {"url": f"{server.url}{path}", **(parameters or {})}
            given = json.loads(json.dumps(given).replace("SERVER", server.url))
            ran = await arun_node(NODE, given, *(items or (ITEM,)), version=version, parts=[guarded], **rest)
            return ran, server

    return asyncio.run(run())


def answer(handler: Handler, **options: Any) -> list[Any]:
    return request(handler, {"options": options})[0].json


def response(**shape: Any) -> dict[str, Any]:
    return {"response": {"response": shape}}


@pytest.mark.parametrize(
    "handler, expected",
    [
        (says({"a": 1, "b": [1]}), [{"a": 1, "b": [1]}]),
        (says([{"x": 1}, {"x": 2}]), [{"x": 1}, {"x": 2}]),
        (says([]), []),
        (says(None), [{}]),
        (says(5), [{"data": 5}]),
        (says([1, "two", None]), [{"data": 1}, {"data": "two"}, {}]),
        (says(text="héllo", content_type="text/plain; charset=utf-8"), [{"data": "héllo"}]),
        (says(text="<p>", content_type="text/html"), [{"data": "<p>"}]),
        (says(text='{"a":1}', content_type="text/plain"), [{"data": '{"a":1}'}]),
        (says(text='{"a":1}', content_type="application/problem+json"), [{"a": 1}]),
        (says(text="", content_type="application/json"), [{}]),
        (says(text="", status=204), [{}]),
        (says(text="<svg/>", content_type="image/svg+xml"), [{"data": "<svg/>"}]),
    ],
)
def test_what_becomes_of_an_answer(handler: Handler, expected: list[Any]) -> None:
    assert answer(handler) == expected


def test_texts_in_another_charset() -> None:
    async def latin(asked: web.Request) -> web.StreamResponse:
        return web.Response(body="é".encode("latin-1"), headers={"content-type": "text/plain; charset=iso-8859-1"})

    assert answer(latin) == [{"data": "é"}]


@pytest.mark.parametrize(
    "handler, shape, message",
    [
        (says("just text"), {}, "set the response format to Text"),
        (says(text='{"a":', content_type="application/json"), {}, "is not JSON"),
        (says(text="héllo"), {"responseFormat": "json"}, "is not JSON"),
    ],
)
def test_json_that_is_none(handler: Handler, shape: dict[str, Any], message: str) -> None:
    ran, _ = request(handler, {"options": response(**shape)})
    assert isinstance(ran.error, NodeFailed) and message in ran.error.message


def test_files() -> None:
    async def png(asked: web.Request) -> web.StreamResponse:
        headers = {"content-type": "image/png", "content-disposition": 'attachment; filename="../../p.png"'}
        return web.Response(body=b"\x89PNG", headers=headers)

    async def run() -> None:
        async with serving(png) as server, egress() as guarded:
            ran = await arun_node(NODE, {"url": server.url}, ITEM, version=4.2, parts=[guarded])
            file = ran.file()
            assert (file.mime_type, file.file_name, file.size_bytes) == ("image/png", "p.png", 4)
            assert ran.json == [ITEM] and await ran.bytes_of() == b"\x89PNG"

    asyncio.run(run())
    options = response(responseFormat="file", outputPropertyName="f", fullResponse=True)
    ran, _ = request(says({}), {"options": options}, path="/dir/report.json")
    assert ran.file(name="f").file_name == "report.json" and ran.json[0]["statusCode"] == 200


def test_the_full_response() -> None:
    ran, _ = request(says({"a": 1}, x_lab="yes"), {"options": response(fullResponse=True)})
    found = ran.json[0]
    assert found["body"] == {"a": 1} and found["statusCode"] == 200 and found["statusMessage"] == "OK"
    assert found["headers"]["x-lab"] == "yes" and found["headers"]["content-type"].startswith("application/json")
    ran, _ = request(says([{"x": 1}]), {"options": response(fullResponse=True)})
    assert ran.json[0]["body"] == [{"x": 1}]
    ran, _ = request(says(text="t", set_cookie="a=b"), {"options": response(fullResponse=True)})
    assert ran.json[0]["data"] == "t" and ran.json[0]["headers"]["set-cookie"] == ["a=b"]


def asks(*pairs: tuple[str, str]) -> dict[str, Any]:
    entries = [{"name": name, "value": value} for name, value in pairs]
    return {"sendQuery": True, "queryParameters": {"parameters": entries}}


def asks_json(text: str, **options: Any) -> dict[str, Any]:
    return {"sendQuery": True, "specifyQuery": "json", "jsonQuery": text, "options": options}


@pytest.mark.parametrize(
    "parameters, query",
    [
        (asks(("a", "={{ $json.q }} & co")), "a=hi%20%26%20co"),
        (asks(("n", "={{ $json.n }}"), ("", "")), "n=5"),
        ({**asks(("a", "1")), "sendQuery": False}, ""),
        (asks_json('{"a":[1,2],"o":{"k":"v"}}'), "a%5B0%5D=1&a%5B1%5D=2&o%5Bk%5D=v"),
        (asks_json('{"a":[1,2]}', queryParameterArrays="repeat"), "a=1&a=2"),
        (asks_json('{"a":[1]}', queryParameterArrays="brackets"), "a%5B%5D=1"),
        ({"url": "SERVER/e?x=1", **asks(("y", "2"), ("x", "3"))}, "x=1&y=2&x=3"),
        ({"url": " SERVER/e?q=a b%20c|ü#frag "}, "q=a%20b%20c%7C%C3%BC"),
    ],
)
def test_queries(parameters: dict[str, Any], query: str) -> None:
    ran, server = request(says({}), parameters)
    assert ran.error is None and server.last.query == query


def test_headers() -> None:
    ran, server = request(says({}))
    assert server.last.headers["user-agent"] == "convoq" and server.last.headers["accept"].startswith(
        "application/json,"
    )
    given = [{"name": "X-One", "value": "=v {{ $json.n }}"}, {"name": "Accept", "value": "text/x"}, {}]
    ran, server = request(says({}), {"sendHeaders": True, "headerParameters": {"parameters": given}})
    assert server.last.headers["x-one"] == "v 5" and server.last.headers["accept"] == "text/x"
    ran, server = request(says({}), {"sendHeaders": True, "specifyHeaders": "json", "jsonHeaders": '{"X-J": 1}'})
    assert server.last.headers["x-j"] == "1"
    ran, server = request(
        says({}), {"sendHeaders": True, "headerParameters": {"parameters": [{"name": "a", "value": "1\r\nb: 2"}]}}
    )
    assert isinstance(ran.error, BadParameter) and server.asked == []


POST = {"method": "POST", "sendBody": True}
PAIRS = {"parameters": [{"name": "a", "value": "1 2"}, {"name": "n", "value": "={{ $json.n }}"}]}


JSON, FORM = "application/json", "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    "parameters, kind, body",
    [
        ({"bodyParameters": PAIRS}, JSON, '{"a":"1 2","n":5}'),
        ({"specifyBody": "json", "jsonBody": '={"q":"{{ $json.q }}","n":{{ $json.n }}}'}, JSON, '{"q":"hi","n":5}'),
        ({"specifyBody": "json", "jsonBody": "={{ $json }}"}, JSON, '{"q":"hi","n":5}'),
        ({"specifyBody": "json", "jsonBody": "=[1]"}, JSON, "[1]"),
        ({"contentType": "form-urlencoded", "bodyParameters": PAIRS}, FORM, "a=1%202&n=5"),
        ({"contentType": "form-urlencoded", "specifyBody": "string", "body": "x=1"}, FORM, "x=1"),
        ({"contentType": "raw", "rawContentType": "text/csv", "body": "=a,{{ $json.n }}"}, "text/csv", "a,5"),
        ({"contentType": "binaryData", "inputDataFieldName": "f"}, "text/plain", "hello"),
    ],
)
def test_bodies(parameters: dict[str, Any], kind: str, body: str) -> None:
    ran, server = request(says({}), {**POST, **parameters}, files={"f": File(b"hello", name="a.txt")})
    assert ran.error is None, ran.error
    assert server.last.headers["content-type"] == kind and server.last.body.decode() == body


def test_a_multipart_body() -> None:
    fields = [
        {"name": "purpose", "value": "ocr"},
        {"name": "file", "parameterType": "formBinaryData", "inputDataFieldName": "f"},
    ]
    wrong = {"sendHeaders": True, "headerParameters": {"parameters": [{"name": "Content-Type", "value": "x/y"}]}}
    parameters = {**POST, "contentType": "multipart-form-data", "bodyParameters": {"parameters": fields}, **wrong}
    ran, server = request(says({}), parameters, files={"f": File(b"\0\1", "application/pdf", "a.pdf")})
    assert ran.error is None, ran.error
    head = f"content-type: {server.last.headers['content-type']}\r\n\r\n"
    purpose, file = list(email.message_from_bytes(head.encode() + server.last.body).walk())[1:]
    assert purpose.get_payload() == "ocr" and purpose.get_param("name", header="content-disposition") == "purpose"
    assert file.get_payload(decode=True) == b"\0\1" and file.get_filename() == "a.pdf"
    assert file.get_content_type() == "application/pdf"


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"url": ""}, "'url' is required"),
        ({"url": "not a url"}, "must begin with http"),
        ({**POST, "specifyBody": "json", "jsonBody": '{"a": oops}'}, "parameter 'jsonBody' is not JSON"),
        (asks_json("[1]"), "parameter 'jsonQuery' should be a JSON object"),
        ({**POST, "contentType": "binaryData"}, "has no file 'data'"),
        ({"method": "={{ $json.q }} there"}, "'method'"),
    ],
)
def test_what_is_wrong_with_a_request_is_named(parameters: dict[str, Any], message: str) -> None:
    ran, server = request(says({}), parameters)
    assert ran.error is not None and message in ran.error.message and server.asked == []


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "=POST", "post"])
def test_methods(method: str) -> None:
    _, server = request(says({}), {"method": method})
    assert server.last.method == method.removeprefix("=").upper() and server.last.body == b""
    assert "content-type" not in server.last.headers


def test_head_has_no_body() -> None:
    ran, _ = request(says({"a": 1}), {"method": "HEAD"})
    assert ran.json == [{}]


CREDENTIALS: Mapping[str, Mapping[str, Any]] = {
    "httpBasicAuth": {"user": "u", "password": "pä"},
    "httpHeaderAuth": {"name": "X-Key", "value": "secret-value"},
    "httpQueryAuth": {"name": "key", "value": "s v"},
    "httpBearerAuth": {"token": "secret-token"},
    "httpCustomAuth": {"json": '{"headers":{"A":"1"},"qs":{"b":"2"},"body":{"c":"3"}}'},
    "oAuth2Api": {"clientId": "x", "oauthTokenData": {"access_token": "at"}},
    "openAiApi": {"apiKey": "sk", "organizationId": "org"},
    "supabaseApi": {"host": "h", "serviceRole": "role"},
    "notionApi": {"apiKey": "ntn"},
    "googlePalmApi": {"apiKey": "g"},
    "googleCalendarOAuth2Api": {"oauthTokenData": {"access_token": "cal"}},
    "wooCommerceApi": {"consumerKey": "ck", "consumerSecret": "cs"},
    "myOwnApi": {"apiKey": "x"},
    "mistralCloudApi": {},
}


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    "kind, headers, query",
    [
        ("httpBasicAuth", {"authorization": basic("u:pä")}, ""),
        ("httpHeaderAuth", {"x-key": "secret-value"}, ""),
        ("httpQueryAuth", {}, "key=s%20v"),
        ("httpBearerAuth", {"authorization": "Bearer secret-token"}, ""),
        ("httpCustomAuth", {"a": "1"}, "b=2"),
        ("oAuth2Api", {"authorization": "Bearer at"}, ""),
        ("openAiApi", {"authorization": "Bearer sk", "openai-organization": "org"}, ""),
        ("supabaseApi", {"authorization": "Bearer role", "apikey": "role"}, ""),
        ("notionApi", {"authorization": "Bearer ntn", "notion-version": "2022-02-22"}, ""),
        ("googlePalmApi", {}, "key=g"),
        ("googleCalendarOAuth2Api", {"authorization": "Bearer cal"}, ""),
        ("wooCommerceApi", {"authorization": basic("ck:cs")}, ""),
    ],
)
@pytest.mark.parametrize("way", ["predefinedCredentialType", "genericCredentialType"])
def test_credentials(kind: str, headers: dict[str, str], query: str, way: str) -> None:
    name = "nodeCredentialType" if way == "predefinedCredentialType" else "genericAuthType"
    ran, server = request(says({}), {"authentication": way, name: kind}, credentials=CREDENTIALS)
    assert ran.error is None, ran.error
    assert headers.items() <= server.last.headers.items() and server.last.query == query
    if kind == "httpCustomAuth":
        assert json.loads(server.last.body) == {"c": "3"}


@pytest.mark.parametrize(
    "kind, message",
    [
        ("nobodysApi", "nobodysApi"),
        ("myOwnApi", "how it authenticates is not known"),
        ("mistralCloudApi", "has no field 'apiKey'"),
    ],
)
def test_credentials_that_will_not_do(kind: str, message: str) -> None:
    parameters = {"authentication": "predefinedCredentialType", "nodeCredentialType": kind}
    ran, server = request(says({}), parameters, credentials=CREDENTIALS)
    assert isinstance(ran.error, NodeFailed) and message in ran.error.message and server.asked == []
    assert isinstance(ran.error, CredentialMissing) or kind == "myOwnApi"


def test_digest() -> None:
    async def guarded(asked: web.Request) -> web.StreamResponse:
        if not asked.headers.get("authorization", "").startswith('Digest username="u"'):
            challenge = 'Digest realm="r", nonce="n", qop="auth", algorithm=MD5'
            return web.Response(status=401, headers={"www-authenticate": challenge})
        return web.json_response({"in": True})

    parameters = {"authentication": "genericCredentialType", "genericAuthType": "httpDigestAuth"}
    ran, _ = request(guarded, parameters, credentials={"httpDigestAuth": {"user": "u", "password": "p"}})
    assert ran.json == [{"in": True}]


@pytest.mark.parametrize(
    "status, code", [(404, "ERR_BAD_REQUEST"), (500, "ERR_BAD_RESPONSE"), (302, "ERR_BAD_REQUEST")]
)
def test_statuses_that_are_errors(status: int, code: str) -> None:
    options = {"redirect": {"redirect": {"followRedirects": False}}}
    handler = says({"message": "not so"}, status)
    ran, _ = request(handler, {"options": options})
    assert isinstance(ran.error, RequestFailed) and ran.error.details["http_status"] == status
    assert f"was answered {status}" in ran.error.message and "not so" in ran.error.message
    ran, _ = request(handler, {"options": options}, onError="continueRegularOutput")
    error = ran.json[0]["error"]
    assert {"name": "AxiosError", "code": code, "status": status}.items() <= error.items()
    ran, _ = request(handler, {"options": options}, onError="continueErrorOutput")
    assert ran.outputs[0] == [] and ran.outputs[1][0].json["q"] == "hi"
    ran, _ = request(handler, {"options": {**options, **response(neverError=True)}})
    assert ran.json == [{"message": "not so"}]


def test_nobody_listens() -> None:
    parameters = {"url": "http://127.0.0.1:9/x"}
    ran, _ = request(says({}), parameters, {"a": 1}, {"a": 2}, onError="continueRegularOutput")
    assert [item["error"]["code"] for item in ran.json] == ["ECONNREFUSED"] * 2
    ran, _ = request(says({}), parameters)
    assert isinstance(ran.error, RequestFailed) and "the connection was refused" in ran.error.message


def test_a_timeout() -> None:
    async def silent(asked: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    ran, _ = request(silent, {"options": {"timeout": 50}}, onError="continueRegularOutput")
    assert ran.json[0]["error"]["code"] == "ECONNABORTED" and "0.05 s" in ran.json[0]["error"]["message"]


def hops(status: int) -> Handler:
    async def handler(asked: web.Request) -> web.StreamResponse:
        if asked.path == "/there":
            return web.json_response({"method": asked.method, "body": (await asked.read()).decode()})
        return web.Response(status=status, headers={"location": "there"})

    return handler


@pytest.mark.parametrize(
    "status, method, expected",
    [
        (301, "GET", ("GET", "")),
        (302, "POST", ("GET", "")),
        (303, "PUT", ("GET", "")),
        (307, "POST", ("POST", "{}")),
        (308, "PUT", ("PUT", "{}")),
        (302, "DELETE", ("DELETE", "{}")),
    ],
)
def test_redirects(status: int, method: str, expected: tuple[str, str]) -> None:
    parameters = {"method": method, "sendBody": method != "GET", "specifyBody": "json", "jsonBody": "{}"}
    ran, _ = request(hops(status), parameters, version=4)
    assert ran.json == [{"method": expected[0], "body": expected[1]}]
    ran, _ = request(hops(status), {**parameters, "options": {"redirect": {"redirect": {}}}}, version=4.2)
    assert ran.error is None
    ran, _ = request(hops(status), parameters, version=3)
    assert isinstance(ran.error, RequestFailed) and ran.error.details["http_status"] == status


def test_a_circle_of_redirects() -> None:
    ran, server = request(says({}, 302, location="/"), {"options": {"redirect": {"redirect": {"maxRedirects": 3}}}})
    assert ran.error is not None and "more than 3 redirects" in ran.error.message and len(server.asked) == 4


def test_items_keep_their_order_and_their_number_is_bounded() -> None:
    under_way = most = 0

    async def slow_first(asked: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.05 if asked.query["i"] == "0" else 0.01)
        under_way -= 1
        return web.json_response([{"i": asked.query["i"]}, {}])

    items = [{"i": index} for index in range(50)]
    ran, _ = request(slow_first, asks(("i", "={{ $json.i }}")), *items)
    assert [item.json.get("i") for item in ran.items[::2]] == [str(index) for index in range(50)]
    assert ran.pairs == [[index] for index in range(50) for _ in range(2)] and 1 < most <= AT_ONCE


def second_fails() -> Handler:
    count = 0

    async def handler(asked: web.Request) -> web.StreamResponse:
        nonlocal count
        count += 1
        return web.json_response({"n": count}, status=500 if count == 2 else 200)

    return handler


def test_one_bad_item_does_not_spoil_the_others() -> None:
    batches = {"options": {"batching": {"batch": {"batchSize": 1, "batchInterval": 50}}}}
    ran, _ = request(second_fails(), batches, {"a": 1}, {"a": 2}, {"a": 3}, onError="continueErrorOutput")
    assert [item.json for item in ran.outputs[0]] == [{"n": 1}, {"n": 3}] and ran.pairs == [[0], [2]]
    assert [item.json["a"] for item in ran.outputs[1]] == [2]


def test_tries() -> None:
    failing = iter([500, 500, 200])

    async def flaky(asked: web.Request) -> web.StreamResponse:
        return web.json_response({}, status=next(failing))

    ran, server = request(flaky, retryOnFail=True, maxTries=3, onError="continueErrorOutput")
    assert ran.outputs[0] == [Item({}, None, 0)] and len(server.asked) == 3


@pytest.mark.parametrize("version", [1, 2])
def test_the_first_versions(version: float) -> None:
    old = {
        "requestMethod": "POST",
        "bodyParametersUi": {"parameter": [{"name": "a", "value": "={{ $json.q }}"}]},
        "queryParametersUi": {"parameter": [{"name": "b", "value": "1"}]},
        "headerParametersUi": {"parameter": [{"name": "X-H", "value": "2"}]},
        "responseFormat": "string",
        "dataPropertyName": "text",
    }
    ran, server = request(says(text="hi"), old, version=version)
    assert ran.json == [{"text": "hi"}] and server.last.headers["x-h"] == "2" and server.last.query == "b=1"
    assert json.loads(server.last.body) == {"a": "hi"}
    raw = {"requestMethod": "PUT", "jsonParameters": True, "bodyParametersJson": '{"k": 1}'}
    ran, server = request(says({"r": 1}), raw, version=version)
    assert ran.json == [{"r": 1}] and json.loads(server.last.body) == {"k": 1}
    ran, server = request(says({}), {"authentication": "basicAuth"}, version=1, credentials=CREDENTIALS)
    assert server.last.headers["authorization"] == basic("u:pä")


def test_a_file_without_a_version_has_the_parameters_of_the_latest() -> None:
    _, server = request(says({}), {**POST, "bodyParameters": PAIRS}, version=1)
    assert server.last.method == "POST" and json.loads(server.last.body) == {"a": "1 2", "n": 5}


def test_private_addresses_are_refused_by_default() -> None:
    async def run() -> Ran:
        async with serving(says({})) as server:
            return await arun_node(NODE, {"url": server.url}, ITEM, version=4.2)

    ran = asyncio.run(run())
    assert isinstance(ran.error, EgressRefused) and "CONVOQ_EGRESS_ALLOW=127.0.0.1" in ran.error.message


def test_no_secret_is_told() -> None:
    parameters = {"authentication": "genericCredentialType", "genericAuthType": "httpHeaderAuth"}
    ran, _ = request(says({"said": "secret-value"}, 401), parameters, credentials=CREDENTIALS)
    assert ran.error is not None and "secret-value" not in ran.error.message
    parameters["genericAuthType"] = "httpQueryAuth"
    ran, _ = request(says({}, 500), parameters, credentials={"httpQueryAuth": {"name": "key", "value": "secret-value"}})
    assert ran.error is not None and "secret-value" not in ran.error.message
