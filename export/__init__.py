"""SavedModel writers."""
