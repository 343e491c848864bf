"""How constants that files hold in fewer bytes become whole arrays."""
