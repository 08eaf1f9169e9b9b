"""What verifies finished exports; see `check_export`."""
