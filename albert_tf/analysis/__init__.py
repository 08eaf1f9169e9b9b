"""Analyses of architectures, memory, records, runs, layers and attention."""
