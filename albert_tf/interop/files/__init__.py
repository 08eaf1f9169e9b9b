"""The files that tensors are in, whatever their names mean."""
