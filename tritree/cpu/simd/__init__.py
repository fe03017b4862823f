"""Numba extended by a vector type; knows no trees."""
