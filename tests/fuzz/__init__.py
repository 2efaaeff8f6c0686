"""Fuzz targets: what any bytes from outside may do to us at worst, which is to be refused with a clear error.

targets/          one module for each kind of input, one function for each format
registry.py       the list of all, and what each is
corpora/TARGET/   inputs that are kept: seeds (made by seeds.py), what coverage grew by, findings of the past
mutate.py         the program that runs one target under atheris (libFuzzer); bench/fuzz.py runs all of them
"""
