"""Which addresses nodes may connect to: public ones, and what the operator allows besides."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from convoq.errors import ConfigError, EgressRefused

SETTING: Final = "CONVOQ_EGRESS_ALLOW"
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PRIVATE: Final = "private"
"""The entry that allows all private and loopback networks. Link-local ones, where clouds have their metadata, are not
among them: they take an entry of their own."""
_PRIVATE: Final[tuple[Network, ...]] = tuple(
    map(
        ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "::1/128", "fc00::/7"),
    )
)
_NEVER_PUBLIC: Final[tuple[Network, ...]] = tuple(
    map(
        ip_network,
        (
            "168.63.129.16/32",  # Azure's host agent, which gives out credentials under a public address
            "192.0.0.0/24",  # of the protocols themselves (RFC 6890); a cloud has its metadata in it
            "fec0::/10",  # site-local, deprecated by RFC 3879 and routed by some still
            "64:ff9b:1::/48",  # local NAT64 (RFC 8215): what lies behind is not known
        ),
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = IPv6Network("::/96")


def is_public(address: Address) -> bool:
    """Whether anybody on the internet can reach it, also by the IPv4 address that an IPv6 one stands for."""
    if any(address in network for network in _NEVER_PUBLIC):
        return False
    if isinstance(address, IPv6Address) and (inner := _embedded(address)) is not None:
        return is_public(inner)
    return address.is_global and not address.is_multicast


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that packets to it end up at: mapped, 6to4, Teredo, NAT64, IPv4-compatible."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def literal(host: str) -> Address | None:
    """The address that a URL's host is, in any of the forms that a resolver would take for one (`127.1`, `0x7f.1`,
    `2130706433`, `0177.0.0.1`), or None for a name."""
    bare = host.strip("[]").rstrip(".").partition("%")[0]
    try:
        return ip_address(bare)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(bare))
    except (OSError, ValueError):
        return None


class Rules:
    """`names` are host names, or `.suffix` for all below a domain; an allowed name may resolve to any address."""

    def __init__(self, names: Iterable[str] = (), networks: Iterable[Network] = ()) -> None:
        self._names = frozenset(name for name in names if not name.startswith("."))
        self._suffixes = tuple(name for name in names if name.startswith("."))
        self._networks = tuple(networks)
        self._resolved: set[Address] = set()

    @classmethod
    def parse(cls, text: str) -> Rules:
        """From `10.0.0.0/8, ollama, .corp.example, private`. Raises `ConfigError` naming a bad entry."""
        names: list[str] = []
        networks: list[Network] = []
        for entry in text.replace(",", " ").split():
            if entry == PRIVATE:
                networks += _PRIVATE
            elif (network := _network(entry)) is not None:
                networks.append(network)
            else:
                names.append(_name(entry))
        return cls(names, networks)

    def allows(self, host: str, address: Address) -> bool:
        """Whether `host` (as the URL has it) may be reached at that address."""
        if is_public(address) or self._in_networks(address):
            return True
        if self._allows_name(host):
            self._resolved.add(address)
            return True
        return False

    def allows_address(self, address: Address) -> bool:
        """Whether a socket may connect to it: the last look, where the name that led there is not known any more."""
        return is_public(address) or self._in_networks(address) or address in self._resolved

    def demand(self, host: str, addresses: Iterable[Address]) -> None:
        """Raises `EgressRefused` unless one of the addresses of `host` may be connected to."""
        found = list(addresses)
        if not any([self.allows(host, address) for address in found]):
            shown = host if literal(host) is not None else f"{host} ({', '.join(map(str, found))})"
            raise EgressRefused(
                f"{shown} is not a public address, and workflows may not connect to it; {SETTING}={host} would allow it"
            )

    def _in_networks(self, address: Address) -> bool:
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return any((mapped or address) in network for network in self._networks)

    def _allows_name(self, host: str) -> bool:
        name = host.lower().rstrip(".")
        return name in self._names or name.endswith(self._suffixes)


def _network(entry: str) -> Network | None:
    try:
        return ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        if "/" in entry:
            raise ConfigError(f"{SETTING}: {entry!r} is not a network") from None
        return None


def _name(entry: str) -> str:
    name = entry.lower().removeprefix("*").rstrip(".")
    if not name.replace(".", "").replace("-", "").replace("_", "").isalnum():
        raise ConfigError(f"{SETTING}: {entry!r} is neither a host name nor a network")
    return name
