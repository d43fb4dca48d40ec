"""Trained models from files: weights and configuration are treated as data; no model code is ever run.

``headers`` checks the header of a safetensors file, ``files`` maps it into memory, ``configs`` checks
``config.json``, ``families`` builds the supported models, ``folders`` and ``hub`` find the files.
"""
