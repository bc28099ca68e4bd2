"""Which addresses are public, however they are written, and what the operator may allow besides."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from convoq.egress.rules import Rules, is_public, literal
from convoq.errors import ConfigError, EgressRefused


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
        *("169.254.169.254", "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1"),
        *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "64:ff9b:1::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::10.0.0.1", "2002:7f00:1::"),
        "2001:0:4136:e378:8000:63bf:f5ff:fffe",  # Teredo: the client is 10.0.0.1
    ],
)
def test_what_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]
)
def test_what_is_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "host, address",
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("[::1]", "::1"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_a_host_that_is_an_address(host: str, address: str) -> None:
    assert literal(host) == ip_address(address)


@pytest.mark.parametrize("host", ["localhost", "example.com", "1.example", "", "a.b.c.d"])
def test_a_host_that_is_a_name(host: str) -> None:
    assert literal(host) is None


LOOPBACK = ip_address("127.0.0.1")


def test_nothing_private_is_allowed_by_default() -> None:
    with pytest.raises(EgressRefused, match=r"intranet \(10.0.0.1\) is not a public address.*CONVOQ_EGRESS_ALLOW"):
        Rules().demand("intranet", [ip_address("10.0.0.1")])


def test_a_name_that_is_allowed_may_be_anywhere_and_no_other_name_may() -> None:
    rules = Rules.parse("ollama, .corp.example")
    for host in ("ollama", "OLLAMA.", "db.corp.example", "a.b.corp.example"):
        rules.demand(host, [LOOPBACK])
    for host in ("corp.example", "ollama.example", "notcorp.example", "127.0.0.1"):
        with pytest.raises(EgressRefused):
            rules.demand(host, [LOOPBACK])


@pytest.mark.parametrize("entry", ["127.0.0.0/8", "127.0.0.1", "private", "0.0.0.0/0", "10.0.0.0/8 127.0.0.1"])
def test_a_network_that_is_allowed(entry: str) -> None:
    rules = Rules.parse(entry)
    rules.demand("anything", [LOOPBACK])
    rules.demand("::ffff:127.0.0.1", [ip_address("::ffff:127.0.0.1")])


def test_the_clouds_metadata_is_not_among_the_private() -> None:
    metadata = ip_address("169.254.169.254")
    with pytest.raises(EgressRefused):
        Rules.parse("private").demand("metadata", [metadata])
    Rules.parse("169.254.169.254/32").demand("metadata", [metadata])


@pytest.mark.parametrize("entry", ["10.0.0.0/33", "http://host", "a b!c", "host:80"])
def test_an_entry_that_is_none(entry: str) -> None:
    with pytest.raises(ConfigError, match="CONVOQ_EGRESS_ALLOW"):
        Rules.parse(entry)
