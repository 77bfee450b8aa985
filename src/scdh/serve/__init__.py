"""``scdh serve``: search over HTTP. ``service`` has the logic, ``http`` the routes, ``page`` the web page."""
