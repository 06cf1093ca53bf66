"""CreateDelegationTokenResponse, versions 0-3. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class CreateDelegationTokenResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateDelegationTokenResponse"

    error_code: int = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""  # 3+
    token_requester_principal_name: str = ""  # 3+
    issue_timestamp_ms: int = 0
    expiry_timestamp_ms: int = 0
    max_timestamp_ms: int = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0
