"""Pure decisions of an agent: who is in sync, how far the high watermark may go, where to truncate."""
