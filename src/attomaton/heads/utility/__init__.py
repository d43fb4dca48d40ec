"""Which tokens a head's own values make useful to attend to: measured, in closed form, on small models."""
