"""The reader's own model: its checkup, its first calls, its training, its errors."""
