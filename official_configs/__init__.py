"""Official architectures (`models/*.json`) and recipes (`recipes/**`)."""
