"""AlterUserScramCredentials of Kafka's clients. Source: Kafka KafkaApis.handleAlterUserScramCredentialsRequest."""

from typing import Any, Final

from cluster.kafka_wire.api_keys import ApiKey
from cluster.kafka_wire.messages import configs as wire_configs
from cluster.model.errors import ApiError
from controller import user_requests as users
from controller.adapters.kafka.conversions import Conversion


def _to_alter(message: wire_configs.AlterUserScramCredentialsRequest) -> users.AlterUserScramCredentialsRequest:
    return users.AlterUserScramCredentialsRequest(
        tuple(users.ScramCredentialDeletion(item.name, item.mechanism) for item in message.deletions),
        tuple(
            users.ScramCredentialUpsertion(item.name, item.mechanism, item.iterations, item.salt, item.salted_password)
            for item in message.upsertions
        ),
    )


def _altered(
    _: wire_configs.AlterUserScramCredentialsRequest, response: users.AlterUserScramCredentialsResponse
) -> wire_configs.AlterUserScramCredentialsResponse:
    return wire_configs.AlterUserScramCredentialsResponse(
        results=tuple(
            wire_configs.AlterUserScramCredentialsResult(
                user=result.user, error_code=result.error_code, error_message=result.error_message
            )
            for result in response.results
        )
    )


def _refused(
    message: wire_configs.AlterUserScramCredentialsRequest, error: ApiError
) -> wire_configs.AlterUserScramCredentialsResponse:
    results = (
        users.AlterUserScramCredentialsResult(user, error.code, error.message) for user in _to_alter(message).by_user
    )
    return _altered(message, users.AlterUserScramCredentialsResponse(tuple(results)))


USER_APIS: Final[tuple[Conversion[Any], ...]] = (
    Conversion(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, _to_alter, _altered, _refused),
)
