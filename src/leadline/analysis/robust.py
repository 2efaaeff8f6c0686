"""Spreads that single far-out values do not move, as standard deviations."""

from __future__ import annotations

# Standard deviations of a normal distribution per median absolute deviation, 1 / quantile(3/4), and per distance of its
# quartiles, half of that: multiplied by them, both are estimates of its standard deviation. Four digits, as printed in
# the source. Source: textbook: Huber and Ronchetti, Robust Statistics (2009), section 5.1.
MAD_TO_SIGMA = 1.4826  # per median absolute deviation
IQR_TO_SIGMA = 0.7413  # per distance of the quartiles
