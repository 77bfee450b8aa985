"""Files on disk: atomic and durable writing, checksums, JSON, tensors, private folders."""
