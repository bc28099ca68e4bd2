"""Signatures as Amazon's own documentation has them, in its examples for S3."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from yarl import URL

from convoq.nodes.http.aws import signer

SIGN = signer(
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "us-east-1",
    now=lambda: datetime(2013, 5, 24, tzinfo=UTC),
)


@pytest.mark.parametrize(
    "query, signature",
    [
        ("lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_a_signature(query: str, signature: str) -> None:
    headers = SIGN("GET", URL(f"https://examplebucket.s3.amazonaws.com/?{query}", encoded=True), b"")
    assert headers["x-amz-date"] == "20130524T000000Z"
    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        f"SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}"
    )


def test_service_and_region_go_by_the_host() -> None:
    headers = SIGN("POST", URL("https://ec2.eu-west-1.amazonaws.com/"), b"Action=DescribeInstances")
    assert "/20130524/eu-west-1/ec2/aws4_request" in headers["authorization"]
