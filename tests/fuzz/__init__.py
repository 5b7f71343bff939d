"""Damaged files, damaged folders and odd options: a valid result, or one line and nothing lost."""
