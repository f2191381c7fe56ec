"""Programs beside the course that no lesson needs."""
