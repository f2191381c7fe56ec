"""What the lessons do beside the page: one topic a module."""
