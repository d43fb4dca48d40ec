"""What a head's own values make useful to look at: measured, in closed form, and studied on small models."""
