"""The hash chains of the logs: what follows from lines alone, and from what others have seen of a log."""
