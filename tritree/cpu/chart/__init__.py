"""Numbers, charts of numbers, and sentences in and out; knows no rules."""
