"""One batch of the stream: what is checked where, and what is committed."""
