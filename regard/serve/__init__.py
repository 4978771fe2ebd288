"""A server for translation models: requests of many clients in one batch, with limits that are on from the start."""
