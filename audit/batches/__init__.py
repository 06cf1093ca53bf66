"""One batch of the stream: what is judged where, and what is committed."""
