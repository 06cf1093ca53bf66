"""The errors about topics of which the cluster says nothing: they do not exist, or the caller may not know of them."""

from collections.abc import Iterable
from typing import Final

from admin.moving.progress import some_of
from cluster.model.errors import ApiError, ErrorCode, all_refusals
from cluster.requests.topics import DescribedTopic

_NAMED: Final = 100


def refuse_missing(described: Iterable[DescribedTopic]) -> None:
    """Raise one ApiError that names all topics which could not be described, if there are any."""
    absent: list[str] = []
    others: list[ApiError] = []
    for topic in described:
        if topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            absent.append(topic.name)
        elif topic.error_code is not ErrorCode.NONE:
            others.append(missing_topic(topic.name, topic.error_code))
    errors = [_absent_topics(absent), *others] if absent else others
    if errors:
        raise all_refusals(errors) if len(errors) > 1 else errors[0]


def _absent_topics(names: list[str]) -> ApiError:
    if len(names) == 1:
        return missing_topic(names[0], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    quoted = some_of([repr(name) for name in names], named=_NAMED)
    why = f"topics {quoted} do not exist; 'klamm topics list' shows the existing ones"
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why, field="topic", value=names[0])


def missing_topic(name: str, code: ErrorCode) -> ApiError:
    """Make the error for a topic that was described with this code."""
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        # For a shell, as names of topics have no other characters.
        why = (
            f"no right to topic {name!r}: an administrator sees its rules by "
            f"'klamm acls list --topic {name} --resource-pattern-type match'"
        )
    else:
        why = f"topic {name!r} does not exist; 'klamm topics list' shows the existing ones"
    return ApiError(code, why, field="topic", value=name)
