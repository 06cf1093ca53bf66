"""The setting `max.connections.per.ip.overrides`. Source: Kafka SocketServerConfigs, CoreUtils.parseCsvMap."""

from cluster.config.files import shown


def connection_overrides(given: str | None) -> dict[str, int]:
    """Host -> how many connections it may have. An IPv6 address may be in brackets. Raises ValueError."""
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in (given or "").split(","))):
        host, _, number = part.rpartition(":")
        host = host.strip().removeprefix("[").removesuffix("]")
        if not host or not number.strip().isdecimal():
            raise ValueError(f"{shown(part)} is not HOST:NUMBER, with the number of connections that HOST may have")
        found[host] = int(number)
    return found
