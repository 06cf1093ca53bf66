"""DescribeUserScramCredentialsResponse, versions 0. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class CredentialInfo(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeUserScramCredentialsResponse"

    mechanism: int = 0
    iterations: int = 0


class DescribeUserScramCredentialsResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeUserScramCredentialsResponse"

    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    credential_infos: tuple[CredentialInfo, ...] = ()


class DescribeUserScramCredentialsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeUserScramCredentialsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()
