"""Small models trained here, and what explains where their heads look."""
