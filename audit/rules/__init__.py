"""The rules on partitions, and on how long things last."""
