"""Columnar files, Parquet and Arrow: what they claim of themselves, checked before it is believed."""
