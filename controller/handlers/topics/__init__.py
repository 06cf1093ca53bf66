"""Topic creation, partition creation and topic deletion."""
