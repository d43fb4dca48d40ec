"""The adversary's own mathematics, from the definitions; nothing here imports the product."""
