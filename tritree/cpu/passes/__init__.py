"""The rules over charts: inside and outside, plain and in tiles, and the walk to a tree; knows no batch."""
