"""AlterUserScramCredentials of Kafka's clients. Source: Kafka KafkaApis.handleAlterUserScramCredentialsRequest."""

from typing import Any, Final

from msgspec.structs import replace

from cluster.kafka_wire.conversion import convert
from cluster.kafka_wire.messages import configs as wire_configs
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.model.errors import ApiError
from cluster.requests.users import AlterUserScramCredentialsRequest
from controller.adapters.kafka.conversions import AnsweredApi


def _refused(
    message: wire_configs.AlterUserScramCredentialsRequest, error: ApiError
) -> wire_configs.AlterUserScramCredentialsResponse:
    result = wire_configs.AlterUserScramCredentialsResult(error_code=error.code, error_message=error.message)
    users = convert(message, AlterUserScramCredentialsRequest).by_user
    return wire_configs.AlterUserScramCredentialsResponse(results=tuple(replace(result, user=user) for user in users))


USER_APIS: Final[tuple[AnsweredApi[Any], ...]] = (
    AnsweredApi(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, AlterUserScramCredentialsRequest, _refused),
)
