"""Routes over a :class:`scdh.serve.service.Service`, and what stands between them and the network."""
