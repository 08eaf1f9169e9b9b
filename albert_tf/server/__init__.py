"""An HTTP server for one model."""
