"""Trained models from files: weights and configuration are data here, and no code of a model is ever run.

``headers`` checks what a safetensors file says of itself, ``files`` maps it into memory, ``configs`` checks
``config.json``, ``families`` builds the models that are supported, ``folders`` and ``hub`` find the files.
"""
