"""Tokens: who may connect from elsewhere, and what they may do there.

leadline token create ──> token file (hashes only) ──> TokenFile ──> Gate ──> Principal of each request
                                                                      └─────> audit: what was refused, who acted
"""
