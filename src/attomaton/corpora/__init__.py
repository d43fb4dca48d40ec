"""From text, token ids and arrays to samples."""
