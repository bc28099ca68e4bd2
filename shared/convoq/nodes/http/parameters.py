"""The HTTP Request node's parameters, as versions 3 and later have them."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

from pydantic import field_validator

from convoq.contract.parameters import Parameters, parameter

_VERSION_1: Final = {
    "basicAuth": "httpBasicAuth",
    "digestAuth": "httpDigestAuth",
    "headerAuth": "httpHeaderAuth",
    "queryAuth": "httpQueryAuth",
    "oAuth1": "oAuth1Api",
    "oAuth2": "oAuth2Api",
}
ResponseFormat = Literal["autodetect", "json", "text", "file"]
Specify = Literal["keypair", "json", "string"]


class Entry(Parameters):
    """A name and a value; of a multipart body also a file, by the name of the item's binary property."""

    name: str = ""
    value: Any = ""
    parameter_type: Literal["formData", "formBinaryData"] = "formData"
    input_data_field_name: str = ""


class Entries(Parameters):
    parameters: tuple[Entry, ...] = ()


class Redirect(Parameters):
    """Not given, versions from 4 on follow and earlier ones do not."""

    follow_redirects: bool | None = None
    max_redirects: int = parameter(21, ge=0, le=100)


class RedirectOption(Parameters):
    redirect: Redirect = Redirect()


class ResponseShape(Parameters):
    full_response: bool = False
    never_error: bool = False
    response_format: ResponseFormat = "autodetect"
    output_property_name: str = "data"


class ResponseOption(Parameters):
    response: ResponseShape = ResponseShape()


class Batch(Parameters):
    """`batch_size` -1 is all at once; `batch_interval` in milliseconds."""

    batch_size: int = 50
    batch_interval: int = parameter(1000, ge=0)


class BatchOption(Parameters):
    batch: Batch = Batch()


class PageEntry(Parameters):
    type: Literal["qs", "headers", "body"] = "qs"
    name: str = ""
    value: Any = ""


class PageEntries(Parameters):
    parameters: tuple[PageEntry, ...] = ()


class Pagination(Parameters):
    """Its expressions are evaluated page by page, with `$response`, `$request` and `$pageCount`. `request_interval` in
    milliseconds."""

    pagination_mode: Literal["off", "updateAParameterInEachRequest", "responseContainsNextURL"] = (
        "updateAParameterInEachRequest"
    )
    next_url: str = parameter("", alias="nextURL")
    parameters: PageEntries = PageEntries()
    pagination_complete_when: Literal["responseIsEmpty", "receiveSpecificStatusCodes", "other"] = "responseIsEmpty"
    status_codes_when_complete: str = ""
    complete_expression: Any = ""
    limit_pages_fetched: bool = False
    max_requests: Any = 100
    request_interval: Any = 0


class PaginationOption(Parameters):
    pagination: Pagination | None = None


class Options(Parameters):
    """`timeout` in milliseconds."""

    allow_unauthorized_certs: bool = False
    batching: BatchOption | None = None
    lowercase_headers: bool = True
    pagination: PaginationOption = PaginationOption()
    proxy: str = ""
    query_parameter_arrays: Literal["brackets", "indices", "repeat"] = "indices"
    redirect: RedirectOption | None = None
    response: ResponseOption = ResponseOption()
    timeout: float = parameter(300_000, gt=0)


class HttpRequestParameters(Parameters):
    deferred: ClassVar[tuple[str, ...]] = ("options.pagination",)

    method: str = parameter("GET", pattern="^[A-Za-z]{1,20}$")
    url: str = ""
    authentication: Literal[
        "none",
        "predefinedCredentialType",
        "genericCredentialType",
        "basicAuth",
        "digestAuth",
        "headerAuth",
        "queryAuth",
        "oAuth1",
        "oAuth2",
    ] = "none"
    node_credential_type: str = ""
    generic_auth_type: str = ""
    send_query: bool = False
    specify_query: Specify = "keypair"
    query_parameters: Entries = Entries()
    json_query: Any = ""
    send_headers: bool = False
    specify_headers: Specify = "keypair"
    header_parameters: Entries = Entries()
    json_headers: Any = ""
    send_body: bool = False
    content_type: Literal["json", "form-urlencoded", "multipart-form-data", "binaryData", "raw"] = "json"
    specify_body: Specify = "keypair"
    body_parameters: Entries = Entries()
    json_body: Any = ""
    body: Any = ""
    raw_content_type: str = ""
    input_data_field_name: str = "data"
    options: Options = Options()

    @field_validator("method", mode="after")
    @classmethod
    def _upper(cls, method: str) -> str:
        return method.upper()

    @property
    def credential_type(self) -> str | None:
        """The type of the credential that the request takes, None for none."""
        match self.authentication:
            case "predefinedCredentialType":
                return self.node_credential_type
            case "genericCredentialType":
                return self.generic_auth_type
        return _VERSION_1.get(self.authentication)

    def follows(self, version: float) -> bool:
        option = self.options.redirect
        given = option.redirect.follow_redirects if option is not None else None
        return version >= 4 if given is None else given
