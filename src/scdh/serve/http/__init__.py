"""Routes over a :class:`scdh.serve.service.Service`, and the layers between them and the network."""
