"""Ways to run klamm."""
