"""The tables of the papers, one command each: every row trained here, paper beside measured."""
