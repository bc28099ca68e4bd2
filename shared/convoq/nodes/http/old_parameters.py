"""The parameters of versions 1 and 2, and what they are in those of later ones."""

from __future__ import annotations

from typing import Any, Final, Literal

from convoq.contract.parameters import Parameters
from convoq.nodes.http.parameters import Batch, Entry, HttpRequestParameters, Options

_BODIES: Final = {"form-urlencoded": "form-urlencoded", "multipart-form-data": "multipart-form-data", "raw": "raw"}
_FORMATS: Final = {"json": "json", "string": "text", "file": "file"}
_NEW: Final = frozenset({"method", "send_body", "send_query", "send_headers"})


class OldEntries(Parameters):
    parameter: tuple[Entry, ...] = ()


class AnyOptions(Options):
    """`batch_interval` in milliseconds."""

    batch_interval: int = 1000
    batch_size: int | None = None
    body_content_type: Literal["json", "form-urlencoded", "multipart-form-data", "raw"] = "json"
    body_content_custom_mime_type: str = ""
    follow_all_redirects: bool = False
    follow_redirect: bool = True
    full_response: bool = False
    ignore_response_code: bool = False
    split_into_items: bool = False
    use_query_string: bool = False


class AnyHttpRequestParameters(HttpRequestParameters):
    """Of all versions. Files without a `typeVersion` have those of the latest one."""

    request_method: str = "GET"
    response_format: Literal["json", "string", "file"] = "json"
    data_property_name: str = "data"
    allow_unauthorized_certs: bool = False
    json_parameters: bool = False
    body_parameters_json: Any = ""
    body_parameters_ui: OldEntries = OldEntries()
    header_parameters_json: Any = ""
    header_parameters_ui: OldEntries = OldEntries()
    query_parameters_json: Any = ""
    query_parameters_ui: OldEntries = OldEntries()
    send_binary_data: bool = False
    binary_property_name: str = "data"
    options: AnyOptions = AnyOptions()


def modern(given: AnyHttpRequestParameters, version: float) -> HttpRequestParameters:
    """The same in the form of version 4."""
    if version >= 3 or given.model_fields_set & _NEW:
        return given
    options = given.options
    method = given.request_method.upper()
    kind = "json" if given.json_parameters else "keypair"
    has_body = method not in ("GET", "HEAD", "OPTIONS")
    content_type = _BODIES.get(options.body_content_type, "json")
    return HttpRequestParameters.model_validate(
        {
            "method": method,
            "url": given.url,
            "authentication": given.authentication,
            "nodeCredentialType": given.node_credential_type,
            "genericAuthType": given.generic_auth_type,
            "sendQuery": True,
            "specifyQuery": kind,
            "queryParameters": {"parameters": given.query_parameters_ui.parameter},
            "jsonQuery": given.query_parameters_json,
            "sendHeaders": True,
            "specifyHeaders": kind,
            "headerParameters": {"parameters": given.header_parameters_ui.parameter},
            "jsonHeaders": given.header_parameters_json,
            "sendBody": has_body,
            "contentType": "binaryData" if given.send_binary_data else content_type,
            "specifyBody": kind,
            "bodyParameters": {"parameters": given.body_parameters_ui.parameter},
            "jsonBody": given.body_parameters_json,
            "body": given.body_parameters_json,
            "rawContentType": options.body_content_custom_mime_type,
            "inputDataFieldName": given.binary_property_name,
            "options": {
                "allowUnauthorizedCerts": given.allow_unauthorized_certs or options.allow_unauthorized_certs,
                "proxy": options.proxy,
                "timeout": options.timeout,
                "queryParameterArrays": "repeat" if options.use_query_string else "indices",
                "redirect": {"redirect": {"followRedirects": options.follow_redirect or options.follow_all_redirects}},
                "response": {
                    "response": {
                        "fullResponse": options.full_response,
                        "neverError": options.ignore_response_code,
                        "responseFormat": _FORMATS[given.response_format],
                        "outputPropertyName": given.data_property_name,
                    }
                },
            },
        }
    )


def batching(options: AnyOptions) -> Batch | None:
    """What the options say of it, in either form."""
    if options.batching is not None:
        return options.batching.batch
    if options.batch_size is not None:
        return Batch(batch_size=options.batch_size, batch_interval=options.batch_interval)
    return None
