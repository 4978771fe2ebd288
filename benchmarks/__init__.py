"""Speed beside the peers, measured in one run; see README.md."""
