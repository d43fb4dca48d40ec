"""Small models that are trained here, and what explains where their heads look."""
