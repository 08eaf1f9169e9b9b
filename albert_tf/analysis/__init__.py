"""The paper's tables and a run's curves."""
