"""The error about a topic of which the cluster says nothing: it does not exist, or the caller may not know of it."""

from cluster.model.errors import ApiError, ErrorCode


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
