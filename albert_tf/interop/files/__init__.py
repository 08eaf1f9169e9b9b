"""Files of tensors, whatever the tensors mean."""
