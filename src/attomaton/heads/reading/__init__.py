"""Trained models from files: weights and configuration are treated as data; no model code is ever run.

``folders`` finds the files of a folder or the hub, ``files`` maps safetensors into memory, ``configs`` checks
``config.json``, and ``families`` builds the models; ``gguf`` and ``mingpt`` read other formats.
"""
