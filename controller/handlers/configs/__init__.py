"""Settings of topics and brokers, and finalized features."""
