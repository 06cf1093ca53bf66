"""Hosted partitions: leaders, followers and their fetchers, high watermarks and changes of the ISR."""
