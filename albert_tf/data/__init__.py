"""Data: documents, sentence pairs, masking, records, input pipeline."""
