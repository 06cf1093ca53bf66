"""Quotas of users and client ids, as they are configured. Source: KIP-546."""

from typing import Final

from msgspec import Struct

from cluster.requests.request import RequestFor

USER_ENTITY: Final = "user"
CLIENT_ENTITY: Final = "client-id"


class DescribeClientQuotasRequest(RequestFor["DescribeClientQuotasResponse"], frozen=True):
    """Ask for the quotas of all users and client ids."""


class ClientQuotaEntity(Struct, frozen=True):
    """Says for whom a quota is. `entity_type`: USER_ENTITY or CLIENT_ENTITY. `entity_name` None: the default of all
    that have none of their own.
    """

    entity_type: str
    entity_name: str | None = None


class ClientQuotaValue(Struct, frozen=True):
    """One quota, as it is stored."""

    key: str
    value: str


class ClientQuotaEntry(Struct, frozen=True):
    """The quotas of a user, of a client id, or of a user with a client id."""

    entity: tuple[ClientQuotaEntity, ...]
    values: tuple[ClientQuotaValue, ...]


class DescribeClientQuotasResponse(Struct, frozen=True):
    """Users first, each before its client ids; what has no quota of its own is left out."""

    entries: tuple[ClientQuotaEntry, ...]
