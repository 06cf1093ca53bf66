"""What turns files into rows of the stream: which files there are, each line once, and what is wrong with them."""
