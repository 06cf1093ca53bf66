"""Numbers of things in messages."""


def counted(number: int, thing: str, things: str | None = None) -> str:
    """`1 partition`, `2,000 partitions`. `things`: the plural that is not made with an s."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"
