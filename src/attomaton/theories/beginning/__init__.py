"""Forecast the first steps of deep attention: corpus statistics, and the weights of every layer."""
