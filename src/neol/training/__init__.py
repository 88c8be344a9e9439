"""A run: its settings, its folder, the loop, the champion, and who is told about it."""
